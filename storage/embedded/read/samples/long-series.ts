/** A series that fills whole row groups is counted as they are read, so that one with too many samples is not in memory before anybody counts. */
import { TooManySamplesError } from 'svcdb/lib/columns'
import { millisecondRange } from './millisecond-range.ts'
import type { AnyBlock, ReadScope } from './segment-blocks.ts'

export class LongSeries {
  private readonly lo: number
  private readonly hi: number
  private readonly limit: number
  private series = -1
  private samples = 0

  constructor({ range, limit }: ReadScope) {
    ;[this.lo, this.hi] = millisecondRange([...range])
    this.limit = limit
  }

  /** @throws TooManySamplesError */
  check({ series, starts, minTime, maxTime }: AnyBlock): void {
    if (series.length !== 1 || minTime < this.lo || maxTime > this.hi) return
    const samples = starts[1] - starts[0]
    this.samples = series[0] === this.series ? this.samples + samples : samples
    this.series = series[0]
    if (this.samples > this.limit) throw new TooManySamplesError(this.limit)
  }
}
