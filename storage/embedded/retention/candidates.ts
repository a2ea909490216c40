/** Series to look at, some at a time: a list, or those of a measurement. */
import type { Cursor, MeasurementSeries } from '../series/measurement-series.ts'

export interface Candidates {
  /** The next ones, looking at up to `max`. */
  take(max: number): Int32Array
  /** How many the last `take` looked at. */
  readonly looked: number
  readonly ended: boolean
}

export class CandidateList implements Candidates {
  looked = 0
  private at = 0
  private readonly series: Int32Array
  private readonly wanted: ((series: number) => boolean) | undefined

  /** @param wanted leaves some out when they are taken; absent = none. */
  constructor(series: Int32Array, wanted?: (series: number) => boolean) {
    this.series = series
    this.wanted = wanted
  }

  take(max: number): Int32Array {
    const taken = this.series.subarray(this.at, this.at + max)
    this.at += taken.length
    this.looked = taken.length
    return this.wanted === undefined ? taken : taken.filter(this.wanted)
  }

  get ended(): boolean {
    return this.at >= this.series.length
  }
}

export class CandidateMembers implements Candidates {
  looked = 0
  private readonly members: MeasurementSeries
  private readonly cursor: Cursor
  private readonly wanted: ((series: number) => boolean) | undefined

  /** @param wanted leaves some out; absent = none. */
  constructor(members: MeasurementSeries, measurement: number, wanted?: (series: number) => boolean) {
    this.members = members
    this.cursor = members.walk(measurement)
    this.wanted = wanted
  }

  take(max: number): Int32Array {
    const taken = this.members.take(this.cursor, max)
    this.looked = taken.length
    return this.wanted === undefined ? taken : taken.filter(this.wanted)
  }

  get ended(): boolean {
    return this.members.ended(this.cursor)
  }
}
