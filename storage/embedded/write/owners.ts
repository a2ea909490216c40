/** Which measurements the rows of a write are of. */

import type { Measurement, Schema } from '../catalog/schema.ts'
import { RELEASED, type SeriesIndex } from '../series/series-index.ts'
import type { Rows } from './rows.ts'

/** Then the marks begin anew. */
const LAST_SEARCH = 0x7fffffff

/** Kept from write to write, for the marks: what is asked of a measurement is asked once, not once a row. */
export class Owners {
  private readonly schema: Schema
  private readonly index: SeriesIndex
  /** By measurement: the last search that met it. */
  private marks = new Int32Array(64)
  private search = 0

  constructor(schema: Schema, index: SeriesIndex) {
    this.schema = schema
    this.index = index
  }

  /** Each once, in order of arrival; undefined when a row's measurement is gone. */
  of(rows: Rows): Measurement[] | undefined {
    const { index, schema } = this
    const { series, rows: n } = rows
    const { byId, nextMeasurement } = schema
    if (this.marks.length < nextMeasurement || this.search === LAST_SEARCH) {
      this.marks = new Int32Array(Math.max(this.marks.length, nextMeasurement * 2))
      this.search = 0
    }
    const { marks } = this
    const search = ++this.search
    const owners: Measurement[] = []
    for (let row = 0; row < n; row++) {
      const id = index.measurementOf(series[row])
      if (id === RELEASED) return undefined
      if (marks[id] === search) continue
      marks[id] = search
      const measurement = byId[id]
      if (measurement === undefined) return undefined
      owners.push(measurement)
    }
    return owners
  }
}
