/** Series in the order of the last time, read many at a time (runs-module.ts). */
import type { KeyTable } from 'svcdb/lib/columns'
import type { SlotMemory } from 'svcdb/lib/snappy'
import { type GrowingMemory, growingMemory, MAX_PAGES, PAGE_BYTES } from 'svcdb/lib/web-assembly'
import { timeOf } from './plain-sample.ts'
import { ENTRY_BYTES, type Run, runIn, STEP_BYTES } from './runs-module.ts'

/** Series of a run: at first, when the last one ended early, and at most. */
const SHORTEST = 4
const LONGEST = 256
/** Series that are read one by one, at most, before the next try where none was as expected. */
const LONGEST_PAUSE = 64

export class SeriesRuns {
  /** Where in the request the last run has ended. */
  end = 0
  private readonly keys: KeyTable
  private readonly memory: GrowingMemory
  private readonly run: Run
  private list: Int32Array
  private length = SHORTEST
  private pause = 1
  private left = 0

  /** @returns undefined where it cannot be done. */
  static of({ memory: request, maxPages }: SlotMemory, keys: KeyTable): SeriesRuns | undefined {
    const memory = growingMemory()
    const run = memory && runIn(request, maxPages, memory, MAX_PAGES)
    return run && new SeriesRuns(keys, memory, run)
  }

  private constructor(keys: KeyTable, memory: GrowingMemory, run: Run) {
    this.keys = keys
    this.memory = memory
    this.run = run
    keys.moveTo(memory, PAGE_BYTES)
    this.list = new Int32Array(memory.buffer, 0, PAGE_BYTES / 4)
  }

  /** Reads series as they are expected after `entry`, from the request's address `at` on. @returns how many, 0 as well when it is not worth a try. */
  take(at: number, end: number, entry: number): number {
    if (this.left > 0) {
      this.left--
      return 0
    }
    if (!this.keys.liesIn(this.memory)) return 0
    if (this.list.buffer !== this.memory.buffer) this.list = new Int32Array(this.memory.buffer, 0, PAGE_BYTES / 4)
    const listed = this.keys.expected(entry, this.list, 0, this.length, STEP_BYTES)
    if (listed === 0) return 0
    const taken = this.run(at, end, 0, listed * ENTRY_BYTES)
    this.end = this.list[(listed * ENTRY_BYTES) / 4] >>> 0
    if (taken === 0) {
      this.left = this.pause
      this.pause = Math.min(LONGEST_PAUSE, this.pause * 2)
    } else this.pause = 1
    this.length = taken === this.length ? Math.min(LONGEST, this.length * 2) : SHORTEST
    return taken
  }

  /** Halves of a value that the last run has taken, by its place. */
  low(i: number): number {
    return this.list[i * 4]
  }

  high(i: number): number {
    return this.list[i * 4 + 1]
  }

  /** Its time, milliseconds since the epoch. */
  time(i: number): number {
    return timeOf(this.list[i * 4 + 2], this.list[i * 4 + 3])
  }
}
