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

interface HoldDependencies {
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
    const rollups = [...registry.of(namespace, measurement)]
    const writer = registry.writerOf(namespace, measurement)
    const needed = earliest([...rollups.map((rollup) => holdOf(rollup, follower.caughtUp, limit)), writer === undefined ? undefined : cutoff(writer, now)])
    // The next configuration may not know what has gone by this one.
    return taken === undefined ? needed : earliest([needed, ...rollups.map((rollup) => rollup.taken(taken, needed))])
  }
}

/** From where on the rollup needs raw data, which is held back to the limit and no further. */
function holdOf(rollup: Rollup, caughtUp: boolean, limit: bigint): bigint {
  // Until the changes before the start were seen, more may be dirty than is known.
  const own = caughtUp ? (rollup.hold ?? FIRST_TIME) : FIRST_TIME
  if (own >= limit) return own
  if (caughtUp) rollup.lose(limit)
  return limit
}

function earliest(times: readonly (bigint | undefined)[]): bigint | undefined {
  let first: bigint | undefined
  for (const time of times) if (time !== undefined && (first === undefined || time < first)) first = time
  return first
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
