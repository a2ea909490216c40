/** The series of each row of a record batch, by the values of its tags. */
import type { MeasurementRef, SeriesResolver } from 'svcdb'
import { KeyTable } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { RowRefusals } from './refusals.ts'
import { type TextColumn, textOf } from './texts.ts'
import { ValueCoder, type ValueCodes } from './value-codes.ts'

export interface TagValues {
  name: string
  column: TextColumn
  valid: ((row: number) => boolean) | undefined
}

const UNKNOWN = -2

export class SeriesFinder {
  private readonly resolver: SeriesResolver
  private readonly coder: ValueCoder
  private readonly combinations: KeyTable

  constructor(resolver: SeriesResolver, seed: number) {
    this.resolver = resolver
    this.coder = new ValueCoder(seed)
    this.combinations = new KeyTable(Number.MAX_SAFE_INTEGER, seed)
  }

  /** Number of the series of each row; of refused rows -1. */
  find(measurement: MeasurementRef, tags: readonly TagValues[], rows: number, refusals: RowRefusals): Int32Array {
    const values = tags.map(({ column, valid }) => this.coder.encode(column, rows, valid))
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
    if (tags.length === 1) byCode(values[0], series, resolve)
    else this.byCombination(values, series, resolve)
    return series
  }

  private byCombination(values: readonly ValueCodes[], series: Int32Array, resolve: (row: number) => number): void {
    const { combinations } = this
    combinations.clear()
    const key = new Int32Array(values.length)
    // One byte more than the key, as matchEnd wants it.
    const bytes = new Uint8Array(key.byteLength + 1)
    const view = new DataView(bytes.buffer)
    const end = key.byteLength
    const columns = values.map(({ codes }) => codes)
    let last = -1
    for (let row = 0; row < series.length; row++) {
      for (let i = 0; i < columns.length; i++) view.setInt32(i * 4, columns[i][row], true)
      let entry = combinations.matchEnd(last, view, 0) === end ? last : -1
      if (entry < 0 && last >= 0 && combinations.matchEnd(combinations.following[last], view, 0) === end) entry = combinations.following[last]
      if (entry < 0) {
        const hash = combinations.hashOf(view, 0, end)
        entry = combinations.find(view, 0, end, hash)
        if (entry < 0) {
          series[row] = resolve(row)
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

function byCode({ codes, distinct }: ValueCodes, series: Int32Array, resolve: (row: number) => number): void {
  const known = new Int32Array(distinct + 1).fill(UNKNOWN)
  for (let row = 0; row < codes.length; row++) {
    const code = codes[row]
    series[row] = known[code] >= 0 ? known[code] : (known[code] = resolve(row))
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
