/** The series of each row of a record batch, by the values of its tags. */
import type { MeasurementRef, SeriesResolver } from 'svcdb'
import { KeyTable } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { Work } from 'svcdb/lib/event-loop'
import type { RowRefusals } from './refusals.ts'
import { type TextColumn, textOf } from './texts.ts'
import { ValueCoder, type ValueCodes } from './value-codes.ts'

export interface TagValues {
  name: string
  column: TextColumn
  valid: ((row: number) => boolean) | undefined
}

const UNKNOWN = -2
/** Rows between two places where the work can be interrupted: those of known series, and such as begin one. */
const SLICE = 4096
const FRESH_SLICE = 32

export class SeriesFinder {
  private readonly resolver: SeriesResolver
  private readonly coder: ValueCoder
  private readonly combinations: KeyTable

  constructor(resolver: SeriesResolver, seed: number) {
    this.resolver = resolver
    this.coder = new ValueCoder(seed)
    this.combinations = new KeyTable(Number.MAX_SAFE_INTEGER, seed)
  }

  /** Number of the series of each row; of refused rows -1. In turns. */
  *find(measurement: MeasurementRef, tags: readonly TagValues[], rows: number, refusals: RowRefusals): Work<Int32Array> {
    const values: ValueCodes[] = []
    for (const { column, valid } of tags) {
      values.push(yield* this.coder.encode(column, rows, valid))
      yield
    }
    const series = new Int32Array(rows)
    const resolve = (row: number): number => {
      try {
        return this.resolver.series(measurement, tagsOf(tags, values, row))
      } catch (error) {
        if (!(error instanceof SvcError)) throw error
        refusals.refuse(row, error.code, error.message)
        return -1
      }
    }
    if (tags.length === 1) yield* byCode(values[0], series, resolve)
    else yield* this.byCombination(values, series, resolve)
    return series
  }

  private *byCombination(values: readonly ValueCodes[], series: Int32Array, resolve: (row: number) => number): Work<void> {
    const { combinations } = this
    combinations.clear()
    const key = new Int32Array(values.length)
    // One byte more than the key, as matchEnd wants it.
    const bytes = new Uint8Array(key.byteLength + 1)
    const view = new DataView(bytes.buffer)
    const end = key.byteLength
    const columns = values.map(({ codes }) => codes)
    let last = -1
    let fresh = 0
    for (let row = 0; row < series.length; row++) {
      if (row % SLICE === SLICE - 1) yield
      for (let i = 0; i < columns.length; i++) view.setInt32(i * 4, columns[i][row], true)
      let entry = combinations.matchEnd(last, view, 0) === end ? last : -1
      if (entry < 0 && last >= 0 && combinations.matchEnd(combinations.following[last], view, 0) === end) entry = combinations.following[last]
      if (entry < 0) {
        const hash = combinations.hashOf(view, 0, end)
        entry = combinations.find(view, 0, end, hash)
        if (entry < 0) {
          series[row] = resolve(row)
          if (++fresh % FRESH_SLICE === 0) yield
          // A refused series is asked for again: each of its rows has the reason.
          if (series[row] >= 0) entry = combinations.add(bytes, 0, end, hash, series[row], 0)
          if (entry < 0) continue
        }
      }
      if (last >= 0) combinations.following[last] = entry
      last = entry
      series[row] = combinations.series[entry]
    }
  }
}

function* byCode({ codes, distinct }: ValueCodes, series: Int32Array, resolve: (row: number) => number): Work<void> {
  const known = new Int32Array(distinct + 1).fill(UNKNOWN)
  let fresh = 0
  for (let row = 0; row < codes.length; row++) {
    const code = codes[row]
    if (known[code] < 0) {
      known[code] = resolve(row)
      if (++fresh % FRESH_SLICE === 0) yield
    }
    series[row] = known[code]
    if (row % SLICE === SLICE - 1) yield
  }
}

function tagsOf(tags: readonly TagValues[], values: readonly ValueCodes[], row: number): string[] {
  const pairs: string[] = []
  for (const [i, { name, column }] of tags.entries()) {
    const { codes, places } = values[i]
    if (codes[row] > 0) pairs.push(name, textOf(column, places[codes[row] - 1]))
  }
  return pairs
}
