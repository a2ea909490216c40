/**
 * Which times a write may carry: not before the out-of-order window, not past the future bound, and none of the three values
 * that SQL engines read as null or infinity.
 *
 * The window starts `ooo_shard_tolerance` shards before the shard of the newest admitted write (specification, Write rule 1) or of the
 * server clock, whichever is earlier: a sender whose clock runs ahead, within the future bound or under a server clock that was wrong, shuts out
 * nobody (docs/decisions/022-a-window-of-days.md). A newer point is never too new for the window, or a quiet database would refuse to go on;
 * the future bound limits it instead.
 * All rows of one write are judged by the window as it stood before the write: the verdict does not depend on the order of the
 * rows, and the first write into an empty namespace may hold any history. One window a namespace, see
 * docs/decisions/004-window-per-namespace.md.
 *
 * No write, backfill included, may carry what the retention of its measurement would remove at once (`admissionCutoffs` in retention.ts).
 *
 * Use: `open` once a write, `verdict` for each row (two integer comparisons, no BigInt), `advance` with the newest admitted time. The bounds of
 * `open` are the narrowest: a row that they call too old is judged again by those of its measurement (`boundsOf`).
 */
import type { AdmissionBounds } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Limits } from './limits.ts'
import { ADMITS_ALL, type AdmissionCutoff, type AdmissionCutoffs, wallClock } from './retention.ts'
import { before, earlier, floorDiv, formatTime, highHalf, INT64_MAX, INT64_MIN, later, lowHalf, toNs } from './time.ts'

export const ADMITTED = 0
export const SENTINEL = 1
export const TOO_NEW = 2
export const TOO_OLD = 3
type Verdict = typeof ADMITTED | typeof SENTINEL | typeof TOO_NEW | typeof TOO_OLD

const NS_PER_MS = 1_000_000n
const NS_PER_SEC = 1_000_000_000n
/** 1973 in nanoseconds: seconds, milliseconds and microseconds of today that are read as nanoseconds lie before it. */
const OTHER_UNIT = 100_000_000_000_000_000n
// INT64_MAX is 0x7fffffff ffffffff, INT64_MIN 0x80000000 00000000, -INT64_MAX 0x80000000 00000001.
const MAX_HIGH = 0x7fffffff
const MIN_HIGH = -0x80000000

/** The bounds of one write. Both are inclusive. */
export interface Bounds {
  oldestLow: number
  oldestHigh: number
  newestLow: number
  newestHigh: number
  /** First time in the window; INT64_MIN with backfill. */
  start: bigint
  /** Where retention ends for the rows that these bounds are of. */
  retention: AdmissionCutoff
  cutoffs: AdmissionCutoffs
  /** Bounds of measurements, once somebody has asked for them. */
  measurements: Map<string, Bounds> | undefined
}

/** Told of each change of a window's newest time. */
export type Moved = (before: bigint | undefined, after: bigint | undefined) => void

export class Window {
  private readonly limits: Limits
  private readonly moved: Moved | undefined
  private time: bigint | undefined

  constructor(limits: Limits, newest?: bigint, moved?: Moved) {
    this.limits = limits
    this.time = newest
    this.moved = moved
  }

  /** Time of the newest admitted row; persist it, or derive it from the data, and hand it back after a restart. */
  get newest(): bigint | undefined {
    return this.time
  }

  set newest(time: bigint | undefined) {
    const before = this.time
    this.time = time
    this.moved?.(before, time)
  }

  /** First time inside the window. */
  start(nowMs: number): bigint {
    if (this.newest === undefined) return INT64_MIN
    const width = BigInt(this.limits.shardDurationSecs) * NS_PER_SEC
    const start = (floorDiv(earlier(this.newest, wallClock(nowMs)), width) - BigInt(this.limits.oooShardTolerance)) * width
    return start < INT64_MIN ? INT64_MIN : start
  }

  /**
   * @param nowMs the server clock, milliseconds since the Unix epoch.
   * @param cutoffs `admissionCutoffs` of retention.ts.
   */
  open(nowMs: number, backfill: boolean, cutoffs = ADMITS_ALL): Bounds {
    const newest = futureBound(nowMs, this.limits)
    const start = backfill ? INT64_MIN : this.start(nowMs)
    const oldest = later(start, cutoffs.latest)
    return {
      oldestLow: lowHalf(oldest),
      oldestHigh: highHalf(oldest),
      newestLow: lowHalf(newest),
      newestHigh: highHalf(newest),
      start,
      retention: cutoffs.general,
      cutoffs,
      measurements: undefined,
    }
  }

  advance(low: number, high: number): void {
    const time = toNs(low, high)
    if (this.newest === undefined || time > this.newest) this.newest = time
  }

  /** Why a row was refused, for its sender. */
  refusal(verdict: Verdict, bounds: Bounds, low: number, high: number): SvcError {
    const time = toNs(low, high)
    if (verdict === SENTINEL)
      return new SvcError('INVALID_POINT', `cannot write point at ${time} ns: the value is reserved; send a time since the Unix epoch in the stated precision`)
    const newest = toNs(bounds.newestLow, bounds.newestHigh)
    if (verdict === TOO_NEW) {
      return new SvcError(
        'FUTURE_TIMESTAMP',
        `cannot write point at ${named(time)}: it lies past ${named(newest)}, the server clock plus future_write_tolerance_secs of ${this.limits.futureWriteToleranceSecs}; check the sender's clock and precision`,
      )
    }
    const { cutoff, key, secs } = bounds.retention
    if (time < cutoff) {
      return new SvcError(
        'PARTIAL_WRITE',
        `cannot write point at ${named(time)}: it is older than ${named(cutoff)}, before which [database] ${key} = ${secs} removes points; raise it to keep older ones`,
      )
    }
    const { oooShardTolerance, shardDurationSecs } = this.limits
    return new SvcError(
      'PARTIAL_WRITE',
      `cannot write point at ${named(time)}: it is older than the window from ${named(bounds.start)} to ${named(newest)}, [database] ooo_shard_tolerance is ${oooShardTolerance} shards of ${shardDurationSecs} s before the newest admitted write or the server clock, whichever is earlier; ${time >= 0n && time < OTHER_UNIT ? 'check its precision, for such a time is mostly one of another unit, or ' : ''}send it with backfill=true`,
    )
  }
}

/** The bounds for rows of a measurement; those of `open` are for rows that every measurement takes. @param measurement undefined = unknown. */
export function boundsOf(bounds: Bounds, measurement: string | undefined): Bounds {
  bounds.measurements ??= new Map()
  const name = measurement ?? ''
  let own = bounds.measurements.get(name)
  if (own === undefined) {
    const retention = bounds.cutoffs.own(name) ?? bounds.cutoffs.general
    const oldest = later(bounds.start, retention.cutoff)
    own = { ...bounds, oldestLow: lowHalf(oldest), oldestHigh: highHalf(oldest), retention }
    bounds.measurements.set(name, own)
  }
  return own
}

/** `Storage.admission`. @param nowMs and @param cutoffs as `Window.open`. @param taken before which retention has taken points; undefined = it has taken none. */
export function admissionOf(window: Window, nowMs: number, cutoffs: AdmissionCutoffs, measurement: string, taken?: bigint): AdmissionBounds {
  const bounds = boundsOf(window.open(nowMs, false, cutoffs), measurement)
  const { cutoff } = bounds.retention
  return {
    ...(bounds.start > INT64_MIN ? { liveFrom: bounds.start } : {}),
    ...(cutoff > INT64_MIN ? { keptFrom: cutoff } : {}),
    ...(taken === undefined ? {} : { takenBefore: taken }),
    newest: toNs(bounds.newestLow, bounds.newestHigh),
  }
}

export function verdict(bounds: Bounds, low: number, high: number): Verdict {
  if ((high === MAX_HIGH && low === -1) || (high === MIN_HIGH && low >>> 0 <= 1)) return SENTINEL
  if (before(bounds.newestLow, bounds.newestHigh, low, high)) return TOO_NEW
  if (before(low, high, bounds.oldestLow, bounds.oldestHigh)) return TOO_OLD
  return ADMITTED
}

/** No point of the clock's own millisecond is in the future: one that came without a time has a time within it. */
function futureBound(nowMs: number, limits: Limits): bigint {
  const tolerance = BigInt(limits.futureWriteToleranceSecs) * NS_PER_SEC
  const bound = wallClock(nowMs) + (tolerance === 0n ? NS_PER_MS - 1n : tolerance)
  return bound < INT64_MAX ? bound : INT64_MAX
}

function named(ns: bigint): string {
  return `${formatTime(ns)} (${ns} ns)`
}
