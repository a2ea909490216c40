/** What is known of the times of each series, to tell which rows may repeat others and which series have no rows left. */
import { widened } from './grow.ts'

const NO_TIME_HIGH = -0x80000000
const EMPTY_HIGH = NO_TIME_HIGH + 1
/** In place of the newest time of a series that is known to have no rows: below every time that a retention keeps. */
export const EMPTY_TIME = BigInt(EMPTY_HIGH) << 32n
/** Of a byte. */
const LAST_GENERATION = 255

export interface TimeHalves {
  low: number
  high: number
}

/** That of a series of which none is known. */
export const NO_TIME: TimeHalves = { low: 0, high: NO_TIME_HIGH }

/**
 * The newest time of each series, and what it was when the active memtable began (its base): a row above the first repeats no row at all,
 * a row above the second none outside the memtable.
 */
export class SeriesTimes {
  private low: Int32Array = new Int32Array(1024)
  private high: Int32Array = new Int32Array(1024).fill(NO_TIME_HIGH)
  private baseLow: Int32Array = new Int32Array(1024)
  private baseHigh: Int32Array = new Int32Array(1024).fill(NO_TIME_HIGH)
  /** In which generation the base was noted; in an earlier one, the base is the newest time itself. */
  private noted: Uint8Array = new Uint8Array(1024)
  private generation = 1

  ensure(series: number): void {
    if (series >= this.low.length) this.widen(Math.max(this.low.length * 2, series + 1))
  }

  private widen(length: number): void {
    this.low = widened(this.low, length)
    this.high = widened(this.high, length, NO_TIME_HIGH)
    this.baseLow = widened(this.baseLow, length)
    this.baseHigh = widened(this.baseHigh, length, NO_TIME_HIGH)
    this.noted = widened(this.noted, length)
  }

  /** Makes room for series below a number. */
  reserve(series: number): void {
    if (series > this.low.length) this.widen(series)
  }

  /** A series that has rows in segments up to a time already, or all below `end`. @param low, high its halves. */
  seed(series: number, low: number, high: number, end = series + 1): void {
    this.ensure(end - 1)
    if (end > series + 1) {
      for (const lows of [this.low, this.baseLow]) lows.fill(low, series, end)
      for (const highs of [this.high, this.baseHigh]) highs.fill(high, series, end)
      return
    }
    this.low[series] = this.baseLow[series] = low
    this.high[series] = this.baseHigh[series] = high
  }

  /**
   * No row of the series is above a time. @param low, high its halves, or those of EMPTY_TIME. The active memtable has no row of it.
   * @returns whether less was known before.
   */
  lower(series: number, low: number, high: number): boolean {
    const now = this.high[series]
    if (now !== NO_TIME_HIGH && (now < high || (now === high && this.low[series] >>> 0 <= low >>> 0))) return false
    this.seed(series, low, high)
    return true
  }

  /** Whether this is what is known of the series: its newest time, or its seed. */
  isAt(series: number, { low, high }: TimeHalves): boolean {
    return this.low[series] === low && this.high[series] === high
  }

  /** Whether the series is known to have no rows, as `lower` was told. */
  isEmpty(series: number): boolean {
    return this.isAt(series, { low: 0, high: EMPTY_HIGH })
  }

  /** A new memtable begins. Costs the same however many series there are. */
  rebase(): void {
    if (this.generation++ < LAST_GENERATION) return
    this.generation = 1
    this.noted.fill(0)
  }

  /** True when the time is above all times of the series so far; remembers it then. */
  advance(series: number, low: number, high: number): boolean {
    const h = this.high[series]
    if (high > h || (high === h && low >>> 0 > this.low[series] >>> 0)) {
      if (this.noted[series] !== this.generation) {
        this.baseLow[series] = this.low[series]
        this.baseHigh[series] = h
        this.noted[series] = this.generation
      }
      this.low[series] = low
      this.high[series] = high
      return true
    }
    return false
  }

  aboveBase(series: number, low: number, high: number): boolean {
    const noted = this.noted[series] === this.generation
    const h = noted ? this.baseHigh[series] : this.high[series]
    return high > h || (high === h && low >>> 0 > (noted ? this.baseLow[series] : this.low[series]) >>> 0)
  }

  /** Whether all rows of the series are older than the time of these halves; a series of which none is known is not. */
  isBelow(series: number, low: number, high: number): boolean {
    if (series >= this.high.length || this.high[series] === NO_TIME_HIGH) return false
    return this.high[series] < high || (this.high[series] === high && this.low[series] >>> 0 < low >>> 0)
  }

  /** Nanoseconds from a time to the newest of its series. */
  lateness(series: number, low: number, high: number): number {
    return behind(this.low[series], this.high[series], low, high)
  }

  get memory(): number {
    return this.low.length * 17
  }
}

/** Nanoseconds from b to a; exact up to 2^53. */
export function behind(aLow: number, aHigh: number, bLow: number, bHigh: number): number {
  return (aHigh - bHigh) * 4294967296 + ((aLow >>> 0) - (bLow >>> 0))
}
