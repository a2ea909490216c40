/**
 * One rollup: how far it is materialised, and which buckets below have to be computed again.
 *
 * Invariants. A change of the source at a time before `reach` makes the bucket dirty; a change at or after it will be seen when the bucket is computed. `reach` rises
 * before the snapshot is taken that a pass computes from, so a change is in the snapshot, or it comes to be known later and makes the bucket dirty: none is missed.
 * A range under repair stays on the list until its rows are durable. What is kept (`kept`) is written in one transaction with the place of the change cursor up to which
 * changes were seen; before a crash that is followed by reading those changes again, which can only make more dirty.
 */
import type { Bucketing } from 'svcdb/lib/time-buckets'
import { bucketOf } from 'svcdb/lib/time-buckets'
import { ceilBucket, clampTime, FIRST_TIME, floorBucket } from './boundaries.ts'
import { bucketsOf, type Definition } from './definition.ts'
import { clipped, type Range, withoutRange, withRange, withRanges } from './ranges.ts'

/** In the state store; times are nanoseconds as text. */
export interface KeptRollup {
  definition: Definition
  /** Where the first bucket begins. */
  from?: string
  until?: string
  dirty: [string, string][]
  /** Ranges that may reach into what retention has taken. */
  unclipped?: true
  floor?: string
  /** The floor is what retention may have taken, and no more. Absent while no engine has told what it takes, as none did earlier versions. */
  exact?: true
  /** What the engine has said of it that retention has taken: the floor knows that. */
  taken?: string
  lost?: string
}

interface RollupFailure {
  error: string
  /** Milliseconds since the Unix epoch. */
  time: number
  /** In a row. */
  count: number
}

/** Of one change of the source, buckets that are looked up one by one; the rest are marked from the first to the last. */
export const MAX_MARKS = 256

export class Rollup {
  readonly definition: Definition
  readonly buckets: Bucketing
  /** Where the first bucket begins; undefined while there is none. */
  from: bigint | undefined
  /** Exclusive end of the newest bucket that was looked at; undefined before the first look. */
  until: bigint | undefined
  /** Oldest time that its source is sure to have whole; nothing before it is computed again. */
  floor: bigint | undefined
  /** The engine tells what retention is about to take, and the floor has risen with it: from it on the source is whole, whatever its age. */
  exact = false
  /** Before which retention had taken points of the source when that was last looked at. */
  private seenTaken: bigint | undefined
  /** Retention may have taken more than the floor says. */
  private unsure = false
  /** Retention did not wait any longer: what was not computed before it never will be. */
  lost: bigint | undefined
  /** Milliseconds that never go back, when a range was last done. */
  doneAt = 0
  /** Milliseconds that never go back, since when it waits for its turn. */
  waitingSince: number | undefined
  /** `dirty` may reach into what is before the floor of the moment. */
  unclipped = false
  failure: RollupFailure | undefined
  /** Milliseconds that never go back, before which it is not tried again. */
  notBefore = 0
  /** Gone from the registry. */
  deleted = false
  /** Buckets a slice has. */
  slice = 4
  /** Fields of the source known not to be encrypted. */
  plain: readonly string[] = []
  /** Changes whenever what is kept has changed. */
  version = 0
  /** What the state store has: raw data from here on is still needed after a crash. Undefined = all. */
  private durableNeed: bigint | undefined
  private durableFloor: bigint | undefined
  private list: readonly Range[] = []
  /** Taken off the list by the pass under way. */
  private repairing: readonly Range[] = []
  private ahead: bigint | undefined
  private readonly maxRanges: number

  constructor(definition: Definition, maxRanges: number) {
    this.definition = definition
    this.buckets = bucketsOf(definition)
    this.maxRanges = maxRanges
  }

  static restore({ definition, from, until, dirty, floor, exact, taken, lost, unclipped }: KeptRollup, maxRanges: number): Rollup {
    const rollup = new Rollup(definition, maxRanges)
    if (from !== undefined) rollup.from = BigInt(from)
    if (until !== undefined) rollup.until = BigInt(until)
    if (floor !== undefined) rollup.floor = BigInt(floor)
    rollup.exact = exact === true
    rollup.unsure = !rollup.exact
    if (taken !== undefined) rollup.seenTaken = BigInt(taken)
    if (lost !== undefined) rollup.lost = BigInt(lost)
    rollup.unclipped = unclipped === true
    const ranges = dirty.map(([a, b]): Range => [BigInt(a), BigInt(b)])
    rollup.list = rollup.until === undefined ? [] : clipped(ranges, [ranges[0]?.[0] ?? 0n, rollup.until])
    // An earlier version took it from a repair of all. With a floor nothing before that is computed, and what the target has there begins nobody knows where.
    if (rollup.floor === undefined && rollup.from !== undefined && rollup.from <= floorBucket(FIRST_TIME, rollup.buckets)) {
      rollup.from = undefined
      rollup.markAll()
    }
    rollup.saved(rollup.need, rollup.floor)
    return rollup
  }

  kept(): KeptRollup {
    const text = (value: bigint | undefined) => (value === undefined ? undefined : String(value))
    const [from, until, floor, taken, lost] = [text(this.from), text(this.until), text(this.floor), text(this.seenTaken), text(this.lost)]
    return {
      definition: this.definition,
      ...(from === undefined ? {} : { from }),
      ...(until === undefined ? {} : { until }),
      dirty: this.dirty.map(([a, b]) => [String(a), String(b)]),
      ...(floor === undefined ? {} : { floor }),
      ...(this.exact ? { exact: true } : {}),
      ...(taken === undefined ? {} : { taken }),
      ...(lost === undefined ? {} : { lost }),
      ...(this.unclipped ? { unclipped: true } : {}),
    }
  }

  get key(): string {
    return keyOf(this.definition.namespace, this.definition.name)
  }

  /** Ranges that wait, those under repair included. */
  get dirty(): Range[] {
    return withRanges(this.list, this.repairing, this.maxRanges)
  }

  /** Changes of the source before it are of interest. */
  get reach(): bigint | undefined {
    if (this.ahead === undefined) return this.until
    return this.until === undefined || this.ahead > this.until ? this.ahead : this.until
  }

  /** Raw data from here on is needed; undefined = all. */
  get need(): bigint | undefined {
    if (this.until === undefined) return undefined
    const first = this.dirty[0]?.[0]
    return first !== undefined && first < this.until ? first : this.until
  }

  /** As `need`, by what the state store has too: retention must keep it. */
  get hold(): bigint | undefined {
    const { need, durableNeed } = this
    return need === undefined || durableNeed === undefined ? undefined : need < durableNeed ? need : durableNeed
  }

  /** @param need and @param floor what they were when the state was written. */
  saved(need: bigint | undefined, floor: bigint | undefined): void {
    this.durableNeed = need
    this.durableFloor = floor
  }

  /** Marks the buckets of a range of the source, as far as they were computed. @returns whether there are any. */
  mark(start: bigint | undefined, end: bigint | undefined): boolean {
    const { reach } = this
    if (reach === undefined) return false
    // Where the source begins is moved by `markTimes` and by what is computed alone: before it there is no bucket.
    const from = earlier(this.from ?? FIRST_TIME, this.repairing[0]?.[0])
    const first = start === undefined || start < from ? from : start
    const last = end === undefined || end > reach ? reach : end
    if (first >= last) return false
    this.add([floorBucket(first, this.buckets), ceilBucket(last, this.buckets)])
    return true
  }

  /** Marks all that was computed, and what may have come before it: nobody knows what has changed. */
  markAll(): boolean {
    if (this.reach === undefined) return false
    this.add([floorBucket(FIRST_TIME, this.buckets), ceilBucket(this.reach, this.buckets)])
    return true
  }

  /** Marks the buckets of rows that were written. @param times two halves a row, low first. @param most buckets that are looked up one by one. */
  markTimes(times: Int32Array, rows: number, most = MAX_MARKS): boolean {
    const { reach } = this
    if (reach === undefined) return false
    const low = Number(BigInt.asUintN(32, reach))
    const high = Number(reach >> 32n)
    let marks = 0
    let start = 0n
    let end = 0n
    let rest: [bigint, bigint] | undefined
    for (let row = 0; row < rows; row++) {
      const h = times[row * 2 + 1]
      if (h > high || (h === high && times[row * 2] >>> 0 >= low)) continue
      const time = (BigInt(h) << 32n) | BigInt(times[row * 2] >>> 0)
      if (time >= start && time < end) continue
      if (marks < most) {
        marks++
        ;[start, end] = bucketOf(clampTime(time), this.buckets)
        this.markBucket(start, end)
      } else if (rest === undefined) rest = [time, time]
      else if (time < rest[0]) rest[0] = time
      else if (time > rest[1]) rest[1] = time
    }
    if (rest !== undefined) this.markBucket(floorBucket(rest[0], this.buckets), bucketOf(clampTime(rest[1]), this.buckets)[1])
    return marks > 0
  }

  private markBucket(start: bigint, end: bigint): void {
    if (this.from === undefined || start < this.from) this.from = start
    this.add([start, end])
  }

  private add(range: Range): void {
    this.list = withRange(this.list, range, this.maxRanges)
    this.unclipped = true
    this.version++
  }

  /** What of the source is before a time may be gone: nothing there is computed again. */
  clip(floor: bigint | undefined): void {
    this.unclipped = false
    if (floor !== undefined) this.raiseFloor(floor)
    if (this.floor === undefined || this.list.length === 0) return
    const first = ceilBucket(this.floor, this.buckets)
    const last = this.list[this.list.length - 1][1]
    if (this.list[0][0] >= first) return
    this.list = first < last ? clipped(this.list, [first, last]) : []
    this.version++
  }

  /** What of the source is before a time may be gone, whatever retention says later. */
  raiseFloor(floor: bigint): void {
    if (floor <= (this.floor ?? FIRST_TIME)) return
    this.floor = floor
    this.version++
  }

  /**
   * Retention is about to take what of the source is before a time, but for what somebody needs.
   * @returns from when on it may not yet: what is gone has to be known after a crash, too.
   */
  taken(before: bigint, needed: bigint | undefined): bigint {
    this.raiseFloor(needed === undefined || needed > before || this.unsure ? before : needed)
    if (!this.exact) this.version++
    this.exact = true
    this.unsure = false
    return this.durableFloor ?? FIRST_TIME
  }

  /**
   * Retention has taken points of the source before a time (`AdmissionBounds.takenBefore`). What is new may have gone while nobody asked this rollup, as when the node ran
   * without the plugin. @param isNew nothing was computed yet: all that it will be computed from is still there.
   */
  meet(taken: bigint | undefined, isNew: boolean): void {
    if (taken === undefined || (this.seenTaken !== undefined && taken <= this.seenTaken)) return
    this.seenTaken = taken
    this.version++
    if (isNew) return
    this.raiseFloor(taken)
    this.unclipped = true
  }

  /** Gives up what lies before a time. */
  lose(before: bigint): void {
    if (this.lost !== undefined && before <= this.lost) return
    this.lost = before
    this.clip(before)
    this.version++
  }

  /** The first range to be repaired, as far as it lies before `until`. */
  get nextRepair(): Range | undefined {
    return this.list[0]
  }

  /** Call before the pass' snapshot is taken. */
  begin(range: Range): void {
    this.repairing = clipped(this.list, range)
    this.list = withoutRange(this.list, range)
    if (this.ahead === undefined || range[1] > this.ahead) this.ahead = range[1]
  }

  /** The buckets of the range are durable in the target. @param forward the watermark moves to its end. @param first of a repair: the first bucket with rows. */
  done([start, end]: Range, forward: boolean, first?: bigint): void {
    // A slice may end before the range that was begun: what lies behind is still to be done.
    this.list = withRanges(this.list, withoutRange(this.repairing, [start, end]), this.maxRanges)
    this.repairing = []
    this.ahead = undefined
    if (forward && (this.until === undefined || end > this.until)) this.until = end
    // A repair may begin long before the source does, and what was computed ahead of the watermark says nothing of where that is.
    const begin = forward ? start : first
    if (begin !== undefined && this.until !== undefined && begin < this.until) this.from = earlier(begin, this.from)
    if (this.until !== undefined && this.list.length > 0) this.list = clipped(this.list, [this.list[0][0], this.until])
    this.failure = undefined
    this.version++
  }

  /** The source has nothing before `end`: what comes there later is a repair. */
  empty(end: bigint): void {
    this.failed()
    if (this.until === undefined || end > this.until) this.until = end
    this.failure = undefined
    this.version++
  }

  /** Nothing was done. */
  failed(): void {
    this.list = withRanges(this.list, this.repairing, this.maxRanges)
    this.repairing = []
    this.ahead = undefined
    if (this.until !== undefined && this.list.length > 0) this.list = clipped(this.list, [this.list[0][0], this.until])
  }
}

const earlier = (a: bigint, b: bigint | undefined): bigint => (b !== undefined && b < a ? b : a)

export const keyOf = (namespace: string, name: string): string => `${namespace}/${name}`
