/** Raw data that is still needed is kept, and buckets go when their rollup's own retention has passed. */
import type { RetentionHold, Svc } from 'svcdb'
import { classify } from 'svcdb/lib/errors'
import { FIRST_TIME, floorBucket } from './boundaries.ts'
import type { RollupsConfig } from './config.ts'
import type { Follower } from './follower.ts'
import type { Registry } from './registry.ts'
import type { Rollup } from './rollup.ts'

const NS_PER_MS = 1_000_000n
const NS_PER_SEC = 1_000_000_000n

export interface HoldDependencies {
  registry: Registry
  follower: Follower
  config: Pick<RollupsConfig, 'max_hold_secs'>
  nowMs(): number
  /** Where the live window of a namespace begins, as last seen. */
  closed(namespace: string): bigint | undefined
}

/** The oldest time that the rollups of a measurement, and the one that writes it, need. */
export function retentionHold({ registry, follower, config, nowMs, closed }: HoldDependencies): RetentionHold {
  return (namespace, measurement, taken) => {
    const now = BigInt(nowMs()) * NS_PER_MS
    // Age is that of retention: from the clock or what is held, whichever is earlier.
    const known = closed(namespace)
    const newest = known !== undefined && known < now ? known : now
    const limit = config.max_hold_secs === 0 || known === undefined ? FIRST_TIME : newest - BigInt(config.max_hold_secs) * NS_PER_SEC
    let needed: bigint | undefined
    for (const rollup of registry.of(namespace, measurement)) {
      // Until the changes before the start were seen, more may be dirty than is known.
      let own = follower.caughtUp ? (rollup.hold ?? FIRST_TIME) : FIRST_TIME
      if (own < limit) {
        own = limit
        if (follower.caughtUp) rollup.lose(limit)
      }
      if (needed === undefined || own < needed) needed = own
    }
    const writer = registry.writerOf(namespace, measurement)
    if (writer !== undefined && writer.definition.retentionSecs > 0) {
      const kept = cutoff(writer, now)
      if (kept !== undefined && (needed === undefined || kept < needed)) needed = kept
    }
    if (taken === undefined) return needed
    // The next configuration may not know what has gone by this one.
    let may = needed
    for (const rollup of registry.of(namespace, measurement)) {
      const known = rollup.taken(taken, needed)
      if (may === undefined || known < may) may = known
    }
    return may
  }
}

/** Where the rollup's own retention ends, measured from the clock or its newest bucket, whichever is earlier. */
function cutoff({ until, definition, buckets }: Rollup, now: bigint): bigint | undefined {
  if (until === undefined || definition.retentionSecs === 0) return undefined
  return floorBucket((until < now ? until : now) - BigInt(definition.retentionSecs) * NS_PER_SEC, buckets)
}

/** Deletes the buckets of all rollups that are past their retention and that no tier above needs any more. Tiers above keep theirs. @param hold as of `retentionHold`. */
export async function trim(
  svc: Svc,
  registry: Registry,
  hold: RetentionHold,
  alone: (rollup: Rollup, body: () => Promise<void>) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (const rollup of [...registry.all()]) {
    signal.throwIfAborted()
    const { namespace, target } = rollup.definition
    // A tier whose bucket is longer than the retention, or which has one to repair, computes it from all of its rows.
    const endOf = (): bigint | undefined => {
      const own = cutoff(rollup, svc.clock.nowNanos())
      const needed = own === undefined ? undefined : hold(namespace, target)
      const end = needed === undefined ? own : floorBucket(needed, rollup.buckets)
      return end === undefined || rollup.from === undefined || rollup.from >= end || rollup.deleted ? undefined : end
    }
    if (endOf() === undefined) continue
    await alone(rollup, async () => {
      const end = endOf()
      if (end === undefined) return
      // What goes for its age is no correction: neither the rollup nor the tiers above compute it again.
      rollup.lose(end)
      for (const tier of registry.of(namespace, target)) tier.clip(end)
      await registry.save(undefined)
      try {
        await svc.storage.delete({ namespace, measurement: target, end })
      } catch (error) {
        if (classify(error).code !== 'NOT_FOUND') throw error
      }
      rollup.from = end
      rollup.version++
      await registry.save(undefined)
    })
  }
}
