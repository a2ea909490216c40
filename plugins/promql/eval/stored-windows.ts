/** Windows that do not overlap, over samples where they are stored: each sample is looked at once, and none is copied. */
import type { StoredRows } from 'svcdb/lib/columns'
import type { StoredWindow } from '../functions/contract.ts'
import type { RowSink } from './row-sink.ts'
import { FLOAT, type Steps } from './value.ts'

/** Numbers of a run (StoredRows). */
const RUN = 3

/** Goes through one series after the other. */
export class StoredWindows {
  private readonly window: StoredWindow
  private readonly steps: Steps
  private readonly range: number
  private readonly offset: number
  private rows: StoredRows | undefined
  /** The run under way, and the one after the series' last. */
  private run = 0
  private last = 0
  /** In the run. */
  private at = 0
  private step = 0
  private found = false

  /** @param range milliseconds, as `offset`. */
  constructor(window: StoredWindow, steps: Steps, range: number, offset: number) {
    this.window = window
    this.steps = steps
    this.range = range
    this.offset = offset
  }

  /** A series of a block, by its place there. */
  open(rows: StoredRows, series: number): void {
    this.rows = rows
    this.run = rows.starts[series]
    this.last = rows.starts[series + 1]
    this.at = this.run < this.last ? rows.runs[this.run * RUN + 1] : 0
    this.step = 0
    this.found = false
  }

  /** Whether there was a sample in any window. */
  get any(): boolean {
    return this.found
  }

  /** Fills the row from where it was left, until windows had so many samples. @returns whether there is more. */
  fill({ values, kinds, base }: RowSink, samples: number): boolean {
    const { window, steps, range, offset } = this
    const { runs, stored } = this.rows as StoredRows
    let left = samples
    /** Samples of the window before: in series that were scraped evenly the next one has as many. */
    let stride = 0
    while (this.step < steps.count && this.run < this.last && left > 0) {
      const step = this.step++
      const end = steps.start + step * steps.interval - offset
      const after = end - range
      let taken = 0
      window.begin()
      for (;;) {
        const block = stored[runs[this.run * RUN]]
        const to = runs[this.run * RUN + 2]
        const { times } = block
        const from = times[this.at] > after ? this.at : behind(times, after, this.at, to, 0)
        const stop = from < to && times[from] <= end ? behind(times, end, from, to, stride - taken) : from
        if (from < stop) window.add(block, from, stop)
        taken += stop - from
        this.at = stop
        if (stop < to) break
        if (++this.run === this.last) break
        this.at = runs[this.run * RUN + 1]
      }
      stride = taken
      left -= taken
      if (taken === 0) continue
      values[base + step] = window.result()
      kinds[base + step] = FLOAT
      this.found = true
    }
    return this.step < steps.count && this.run < this.last
  }
}

/** The first place of [from, to) with a later time. @param guess how far it may be. */
function behind(times: Float64Array, time: number, from: number, to: number, guess: number): number {
  let low = from
  let high = to
  const near = from + guess
  if (guess > 0 && near <= to && times[near - 1] <= time) {
    if (near === to || times[near] > time) return near
    low = near
  }
  while (low < high) {
    const middle = (low + high) >>> 1
    if (times[middle] <= time) low = middle + 1
    else high = middle
  }
  return low
}
