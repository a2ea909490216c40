/**
 * Which times a write may carry: not before the out-of-order window, not past the future bound, and none of the three values
 * that SQL engines read as null or infinity.
 *
 * The window starts `ooo_shard_tolerance` shards before the shard of the newest admitted write (specification, Write rule 1). A
 * newer point is never too new for the window, or a quiet database would refuse to go on; the future bound limits it instead. What was admitted
 * under a clock that ran ahead counts as no newer than the future bound of the clock as it is now.
 * All rows of one write are judged by the window as it stood before the write: the verdict does not depend on the order of the
 * rows, and the first write into an empty namespace may hold any history. One window a namespace, see
 * docs/decisions/011-window-per-namespace.md.
 *
 * With a global retention no write, backfill included, may carry what retention would remove at once (`admissionCutoff` in lifetime.ts).
 *
 * Use: `open` once a write, `verdict` for each row (two integer comparisons, no BigInt), `advance` with the newest admitted time.
 */
import { SvcError } from '../../kernel/errors.ts'
import type { Limits } from './limits.ts'
import { before, earlier, floorDiv, formatTime, highHalf, INT64_MAX, INT64_MIN, later, lowHalf, toNs } from './time.ts'

export const ADMITTED = 0
export const SENTINEL = 1
export const TOO_NEW = 2
export const TOO_OLD = 3
export type Verdict = typeof ADMITTED | typeof SENTINEL | typeof TOO_NEW | typeof TOO_OLD

const NS_PER_MS = 1_000_000n
const NS_PER_SEC = 1_000_000_000n
// INT64_MAX is 0x7fffffff ffffffff, INT64_MIN 0x80000000 00000000, -INT64_MAX 0x80000000 00000001.
const MAX_HIGH = 0x7fffffff
const MIN_HIGH = -0x80000000

/** The bounds of one write. Both are inclusive. */
export interface Bounds {
  oldestLow: number
  oldestHigh: number
  newestLow: number
  newestHigh: number
  /** Where retention ends; INT64_MIN = it keeps everything. */
  cutoff: bigint
}

export class Window {
  /** Time of the newest admitted row; persist it, or derive it from the data, and hand it back after a restart. */
  newest: bigint | undefined
  private readonly limits: Limits

  constructor(limits: Limits, newest?: bigint) {
    this.limits = limits
    this.newest = newest
  }

  /** First time inside the window. */
  get start(): bigint {
    return this.newest === undefined ? INT64_MIN : this.startAround(this.newest)
  }

  private startAround(newest: bigint): bigint {
    const width = BigInt(this.limits.shardDurationSecs) * NS_PER_SEC
    const start = (floorDiv(newest, width) - BigInt(this.limits.oooShardTolerance)) * width
    return start < INT64_MIN ? INT64_MIN : start
  }

  /**
   * @param nowMs the server clock, milliseconds since the Unix epoch.
   * @param cutoff `admissionCutoff` of lifetime.ts.
   */
  open(nowMs: number, backfill: boolean, cutoff = INT64_MIN): Bounds {
    const newest = futureBound(nowMs, this.limits)
    const around = backfill || this.newest === undefined ? INT64_MIN : this.startAround(earlier(this.newest, newest))
    const oldest = later(around, cutoff)
    return { oldestLow: lowHalf(oldest), oldestHigh: highHalf(oldest), newestLow: lowHalf(newest), newestHigh: highHalf(newest), cutoff }
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
    if (time < bounds.cutoff) {
      return new SvcError(
        'PARTIAL_WRITE',
        `cannot write point at ${named(time)}: it is older than ${named(bounds.cutoff)}, before which [database] retention_secs removes points; raise retention_secs to keep it`,
      )
    }
    const { oooShardTolerance, shardDurationSecs } = this.limits
    return new SvcError(
      'PARTIAL_WRITE',
      `cannot write point at ${named(time)}: it is older than the window from ${named(toNs(bounds.oldestLow, bounds.oldestHigh))} to ${named(newest)}, ooo_shard_tolerance is ${oooShardTolerance} shards of ${shardDurationSecs} s before the newest admitted write; send it with backfill=true`,
    )
  }
}

export function verdict(bounds: Bounds, low: number, high: number): Verdict {
  if ((high === MAX_HIGH && low === -1) || (high === MIN_HIGH && low >>> 0 <= 1)) return SENTINEL
  if (before(bounds.newestLow, bounds.newestHigh, low, high)) return TOO_NEW
  if (before(low, high, bounds.oldestLow, bounds.oldestHigh)) return TOO_OLD
  return ADMITTED
}

function futureBound(nowMs: number, limits: Limits): bigint {
  const bound = BigInt(Math.floor(nowMs)) * NS_PER_MS + BigInt(limits.futureWriteToleranceSecs) * NS_PER_SEC
  return bound < INT64_MAX ? bound : INT64_MAX
}

function named(ns: bigint): string {
  return `${formatTime(ns)} (${ns} ns)`
}
