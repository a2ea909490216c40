/** The series of each row of a record batch, by the values of its tags. */
import type { MeasurementRef, SeriesResolver } from 'svcdb'
import { KeyTable } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { Work } from 'svcdb/lib/event-loop'
import type { RowRefusals } from './refusals.ts'
import { type TextColumn, TextRoom, textOf } from './texts.ts'
import { ValueCoder, type ValueCodes } from './value-codes.ts'

export interface TagValues {
  name: string
  column: TextColumn
  valid: ((row: number) => boolean) | undefined
}

const UNKNOWN = -0x80000000
/** Further ones are counted only. */
const MAX_REASONS = 16
/** Rows between two places where the work can be interrupted: those of known series, and such as begin one. */
const SLICE = 4096
const FRESH_SLICE = 32

export class SeriesFinder {
  private readonly resolver: SeriesResolver
  private readonly coder: ValueCoder
  private readonly combinations: KeyTable

  private readonly maxTextBytes: number

  /** @param maxTextBytes of the tags that series of one record batch are looked for by: one value of a dictionary may be that of very many. */
  constructor(resolver: SeriesResolver, seed: number, maxTextBytes: number) {
    this.resolver = resolver
    this.maxTextBytes = maxTextBytes
    this.coder = new ValueCoder(seed)
    this.combinations = new KeyTable(Number.MAX_SAFE_INTEGER, seed)
  }

  /** Number of the series of each row; of refused rows a negative one. In turns. @throws PAYLOAD_TOO_LARGE for tags that are too long together. */
  *find(measurement: MeasurementRef, tags: readonly TagValues[], rows: number, refusals: RowRefusals): Work<Int32Array> {
    const values: ValueCodes[] = []
    for (const { column, valid } of tags) {
      values.push(yield* this.coder.encode(column, rows, valid))
      yield
    }
    const series = new Int32Array(rows)
    const room = new TextRoom(this.maxTextBytes, 'tags')
    const reasons: SvcError[] = []
    const refuse = (row: number, reason: number): void => refusals.refuse(row, reasons[~reason].code, reasons[~reason].message)
    // A series, or the complement of a reason's place: it is that of all rows with these tags.
    const resolve = (row: number): number => {
      const pairs = tagsOf(tags, values, row, room)
      try {
        return this.resolver.series(measurement, pairs)
      } catch (error) {
        if (!(error instanceof SvcError)) throw error
        if (reasons.length < MAX_REASONS) reasons.push(error)
        return -reasons.length
      }
    }
    if (tags.length === 1) yield* byCode(values[0], series, resolve)
    else yield* this.byCombination(values, series, resolve)
    if (reasons.length > 0) for (let row = 0; row < rows; row++) if (series[row] < 0) refuse(row, series[row])
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
          entry = combinations.add(bytes, 0, end, hash, resolve(row), 0)
          if (++fresh % FRESH_SLICE === 0) yield
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
    if (known[code] === UNKNOWN) {
      known[code] = resolve(row)
      if (++fresh % FRESH_SLICE === 0) yield
    }
    series[row] = known[code]
    if (row % SLICE === SLICE - 1) yield
  }
}

function tagsOf(tags: readonly TagValues[], values: readonly ValueCodes[], row: number, room: TextRoom): string[] {
  const pairs: string[] = []
  for (const [i, { name, column }] of tags.entries()) {
    const { codes, places } = values[i]
    if (codes[row] === 0) continue
    const value = places[codes[row] - 1]
    room.take(column.offsets[value + 1] - column.offsets[value])
    pairs.push(name, textOf(column, value))
  }
  return pairs
}
