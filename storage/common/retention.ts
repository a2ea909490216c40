/**
 * How long data lives: retention, pending drops, and the clock both go by. Rules that every engine shares; nothing here keeps state.
 *
 * The clock is the wall clock, but never ahead of the newest time any namespace holds (specification, Measurement drop; supplement
 * B.8): a wall clock that jumps forward deletes nothing, and what no longer receives data keeps it. A cutoff is aligned down to a
 * shard, so that whole segments fall behind it.
 *
 * Retention. A measurement named in `retention` follows its own period, longer or shorter than `retention_secs`, the others
 * follow `retention_secs`. Rows before the cutoff are gone for every reader once maintenance has come by; a series that loses its
 * last row this way is released. Admission refuses what a row's measurement would not keep (`admissionCutoffs`, judged by the state
 * before the write as the window is), backfill included: what was acknowledged is removed when it has come of age, never at once. A hold
 * (`Storage.holdRetention`) moves cutoffs back, never admission's. The configuration in force decides alone: what an earlier one would
 * have removed and has not is kept, and what it has removed does not come back.
 *
 * Drops. While a drop is pending the measurement's series keep counting against max_series_cardinality, as their data is still
 * held; a drop that is final at once gives them back at once. A name may have several pending drops, each with a deadline of its own;
 * the newest is the one that `restore` means. A drop that was final or whose deadline has passed leaves its name behind, so that
 * `restore` can say why it cannot help; the newest `KEPT_ENDED_DROPS` names are remembered.
 */

import type { RetentionHold } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Type } from 'svcdb/lib/schema'
import type { Limits } from './limits.ts'
import { shown } from './names.ts'
import { earlier, floorDiv, INT64_MIN, later } from './time.ts'

const NS_PER_MS = 1_000_000n
const NS_PER_SEC = 1_000_000_000n
const MAX_SECS = 3_153_600_000
export const KEPT_ENDED_DROPS = 1024

export const retentionKeys = {
  retention_secs: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: MAX_SECS,
    description: 'Age at which points are removed, by whole shards, measured from the newest time held or the server clock, whichever is earlier; 0 = never',
  }),
  retention: Type.Record(Type.String(), Type.Integer({ minimum: 0, maximum: MAX_SECS }), {
    default: {},
    description: 'Measurements with a retention of their own, in seconds, instead of retention_secs: { cpu = 86400, audit = 0 }; 0 = never removed',
  }),
  soft_delete_ttl_secs: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_SECS,
      description: 'How long a dropped measurement can be restored; unset = a drop is final. Does not apply under [server] multi_tenancy',
    }),
  ),
}

export interface RetentionSettings {
  /** Seconds; 0 = for ever. */
  retentionSecs: number
  /** Measurement name → seconds; 0 = for ever. */
  retention: ReadonlyMap<string, number>
  /** The shortest of all these; 0 = everything is kept for ever. */
  shortestSecs: number
  /** undefined = a drop is final. */
  softDeleteTtlSecs: number | undefined
}

/**
 * @param config the resolved [database] section; a key that is absent takes its default.
 * @throws CONFIG_ERROR for a retention shorter than a shard: the shard that is being written could go.
 */
export function retentionSettings(config: Record<string, unknown>, limits: Pick<Limits, 'shardDurationSecs'>): RetentionSettings {
  const retentionSecs = (config.retention_secs as number | undefined) ?? 0
  const retention = new Map(Object.entries((config.retention as Record<string, number> | undefined) ?? {}))
  const check = (key: string, secs: number) => {
    if (secs === 0 || secs >= limits.shardDurationSecs) return
    throw new SvcError(
      'CONFIG_ERROR',
      `cannot use [database] ${key} = ${secs}: it is shorter than shard_duration_secs = ${limits.shardDurationSecs}; raise the first or lower the second`,
    )
  }
  check('retention_secs', retentionSecs)
  for (const [name, secs] of retention) check(`retention.${JSON.stringify(name)}`, secs)
  const periods = [retentionSecs, ...retention.values()].filter((secs) => secs > 0)
  const shortestSecs = periods.reduce((min, secs) => Math.min(min, secs), periods[0] ?? 0)
  return { retentionSecs, retention, shortestSecs, softDeleteTtlSecs: config.soft_delete_ttl_secs as number | undefined }
}

/**
 * The clock that retention and drops go by.
 * @param newest newest admitted time of each namespace (`Window.newest`).
 * @returns nanoseconds; INT64_MIN while nothing is held, so that nothing is old.
 */
export function retentionClock(nowMs: number, newest: Iterable<bigint | undefined>): bigint {
  return earlier(newestHeld(newest), wallClock(nowMs))
}

/** First time that a retention keeps; INT64_MIN = it keeps everything. */
export function retentionCutoff(clock: bigint, secs: number, limits: Pick<Limits, 'shardDurationSecs'>): bigint {
  if (secs === 0) return INT64_MIN
  return shardStart(clock - BigInt(secs) * NS_PER_SEC, limits)
}

/** First time that a measurement keeps, holds included: rows before it are gone. */
export function measurementCutoff(
  settings: RetentionSettings,
  limits: Pick<Limits, 'shardDurationSecs'>,
  clock: bigint,
  namespace: string,
  measurement: string,
  holds: Iterable<RetentionHold>,
): bigint {
  const own = retentionCutoff(clock, settings.retention.get(measurement) ?? settings.retentionSecs, limits)
  if (own === INT64_MIN) return own
  let cutoff = own
  for (const hold of holds) {
    const needed = hold(namespace, measurement, own)
    if (needed !== undefined && needed < cutoff) cutoff = shardStart(needed, limits)
  }
  return cutoff
}

/** First time that admission takes of a measurement, and the key of [database] that says so. */
export interface AdmissionCutoff {
  /** INT64_MIN = it takes everything. */
  cutoff: bigint
  key: string
  secs: number
}

/** First times that admission takes, for `Window.open`. */
export interface AdmissionCutoffs {
  /** The latest of all: what is not older is kept whichever measurement it is of. */
  latest: bigint
  general: AdmissionCutoff
  /** Of a measurement with a retention of its own; undefined for others. */
  own(measurement: string): AdmissionCutoff | undefined
}

/** Without retention. */
export const ADMITS_ALL: AdmissionCutoffs = { latest: INT64_MIN, general: { cutoff: INT64_MIN, key: 'retention_secs', secs: 0 }, own: () => undefined }

export function admissionCutoffs(
  { retentionSecs, retention, shortestSecs }: RetentionSettings,
  limits: Pick<Limits, 'shardDurationSecs'>,
  clock: bigint,
): AdmissionCutoffs {
  if (shortestSecs === 0) return ADMITS_ALL
  const of = (secs: number, key: string): AdmissionCutoff => ({ cutoff: retentionCutoff(clock, secs, limits), key, secs })
  return {
    latest: retentionCutoff(clock, shortestSecs, limits),
    general: of(retentionSecs, 'retention_secs'),
    own: (measurement) => {
      const secs = retention.get(measurement)
      return secs === undefined ? undefined : of(secs, `retention.${JSON.stringify(shown(measurement))}`)
    },
  }
}

/** When a drop made now can no longer be undone, in nanoseconds. INT64_MIN = at once: a final drop. */
export function dropDeadline(nowMs: number, newest: Iterable<bigint | undefined>, ttlSecs: number | undefined): bigint {
  if (ttlSecs === undefined) return INT64_MIN
  return later(newestHeld(newest), wallClock(nowMs)) + BigInt(ttlSecs) * NS_PER_SEC
}

export function deadlinePassed(deadline: bigint, clock: bigint): boolean {
  return clock >= deadline
}

/**
 * Why there is nothing to undo. Ask in this order: a pending drop is restored, or `restoreConflict` when its name is in use; else this.
 * @param ended whether a final or expired drop of the name is remembered.
 */
export function nothingToRestore(measurement: string, { softDeleteTtlSecs }: Pick<RetentionSettings, 'softDeleteTtlSecs'>, ended: boolean): SvcError {
  const cause =
    softDeleteTtlSecs === undefined
      ? 'drops are final because [database] soft_delete_ttl_secs is unset; set it to be able to undo later ones'
      : ended
        ? `its grace period has passed and its data is gone; soft_delete_ttl_secs is ${softDeleteTtlSecs}`
        : 'it was never dropped; GET /api/v1/measurements lists those that exist'
  return new SvcError('NOT_FOUND', `cannot restore measurement "${shown(measurement)}": ${cause}`)
}

export function restoreConflict(measurement: string): SvcError {
  return new SvcError('CONFLICT', `cannot restore measurement "${shown(measurement)}": the name is in use again by a measurement written since the drop`)
}

/** @param verb delete, drop. */
export function unknownMeasurement(verb: string, measurement: string): SvcError {
  const what = verb === 'delete' ? 'delete from' : verb
  return new SvcError('NOT_FOUND', `cannot ${what} measurement "${shown(measurement)}": it does not exist; GET /api/v1/measurements lists those that do`)
}

/**
 * For a write with a row whose series was deleted or whose measurement was dropped after its decoder looked the series up. Throw it: nothing of the batch is
 * stored then, and the same bytes again begin them anew. Senders would drop a row that is refused by itself.
 */
export function staleSeries(): SvcError {
  return new SvcError('BACKPRESSURE', 'cannot write: a series was deleted or its measurement dropped while its points were being read; send it again')
}

function shardStart(time: bigint, { shardDurationSecs }: Pick<Limits, 'shardDurationSecs'>): bigint {
  const width = BigInt(shardDurationSecs) * NS_PER_SEC
  return later(floorDiv(time, width) * width, INT64_MIN)
}

/** Nanoseconds. */
export function wallClock(nowMs: number): bigint {
  return BigInt(Math.floor(nowMs)) * NS_PER_MS
}

function newestHeld(newest: Iterable<bigint | undefined>): bigint {
  let held = INT64_MIN
  for (const time of newest) if (time !== undefined) held = later(held, time)
  return held
}
