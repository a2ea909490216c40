/**
 * Rows of changes as Arrow record batches: `_time`, tags, fields. Columns are handed to the encoder as they lie, a slice of a change at a time.
 *
 * A batch is encoded in one go and leaves nothing behind in its encoder, so that encoders are shared by all subscribers. So are the batches encoded last: subscribers that
 * keep up are told of one change one after the other.
 */
import type { RowsChanged } from 'svcdb'
import { ArrowEncoder, seriesColumns, streamPrefix } from 'svcdb/lib/arrow'
import { RecentlyEncoded } from 'svcdb/lib/changes'
import { bytesPerValue, type Column, isShown, valueAt } from 'svcdb/lib/columns'
import type { SqlVector } from 'svcdb/lib/sql-result'
import { histogramText } from './rows.ts'

const MAX_ROWS = 16_384
/** Of a histogram's JSON to its stored bytes, about. */
const HISTOGRAM_GROWTH = 8
/** Of a tag in each row, whether or not its series has it, and once in schema and batch. */
const TAG_BYTES = 5
const TAG_COLUMN_BYTES = 512
/** What encoders that are not in use hold, about. */
const KEPT_BYTES = 67_108_864
/** Of a column's buffers, however little is in them. */
const ENCODER_COLUMN_BYTES = 10_240
const KEPT_SHAPES = 1024
/** Batches that are kept for others who ask for them, and their bytes: of changes that come at about the same time. */
const RECENT = 16
const RECENT_BYTES = 8_388_608

interface RowBatch {
  /** Row of the change after the last one of the batch. */
  to: number
  /** In the batch: those that have a value. */
  rows: number
  /** Stands for the schema for as long as somebody subscribes. */
  schemaId: number
  schema: Uint8Array
  /** Empty when no row has a value. */
  batch: Uint8Array
}

interface Shape {
  id: number
  encoder: ArrowEncoder
  schema: Uint8Array
  /** What its encoder holds, about. */
  bytes: number
}

export class RowBatches {
  private readonly recent = new RecentlyEncoded<RowBatch>(RECENT, RECENT_BYTES)
  private readonly shapes = new Map<string, Shape>()
  private kept = 0
  private nextId = 1
  private readonly numbers = new Int32Array(MAX_ROWS)

  /** Rows from `from` on, as many as make about `maxBytes`, at least one. */
  encode(change: RowsChanged, from: number, maxBytes: number): RowBatch {
    const key = `${from} ${maxBytes}`
    const known = this.recent.find(change, key)
    if (known !== undefined) return known
    const result = this.encodeNew(change, from, maxBytes)
    this.recent.add(change, key, result, result.batch.length)
    return result
  }

  private encodeNew(change: RowsChanged, from: number, maxBytes: number): RowBatch {
    const { fields, columns, heap, times } = change
    const { to, series } = this.measure(change, from, maxBytes)
    const rows = to - from
    const shown = columns.map((column) => presence(column, from, to, heap))
    const tags = [...new Set(series.flatMap(Object.keys))].sort()
    const key = JSON.stringify([tags, fields.map(({ name, type, scale }) => [name, type, scale])])
    const shape = this.shapes.get(key) ?? { id: this.nextId++, ...encoderOf(tags, fields), bytes: 0 }
    this.forget(key)
    const vectors: SqlVector[] = [{ values: longs(times, from, to) }]
    for (const tag of tags) vectors.push(tagVector(tag, series, this.numbers, rows))
    for (const [i, column] of columns.entries()) vectors.push(fieldVector(column, shown[i], heap, from, to))
    let taken = 0
    for (const [start, end] of runs(shown, rows)) {
      shape.encoder.push({ rows, columns: vectors }, start, end)
      taken += end - start
    }
    const batch = shape.encoder.flush()[0]?.framed ?? NOTHING
    // Only here, so that an encoder that has thrown half-way is not used again.
    this.keep(key, shape, batch.length)
    return { to, rows: taken, schemaId: shape.id, schema: shape.schema, batch }
  }

  /** Nobody subscribes any more. */
  clear(): void {
    this.shapes.clear()
    this.recent.clear()
    this.kept = 0
  }

  /** How far a batch goes. Of its rows, `numbers` says which of the series they are. */
  private measure({ columns, rows, series, tagsOf }: RowsChanged, from: number, maxBytes: number): { to: number; series: Record<string, string>[] } {
    const found = new Map<number, number>()
    const tags: Record<string, string>[] = []
    const names = new Set<string>()
    const sizes: number[] = []
    const texts = columns.filter(({ type }) => type === 'string' || type === 'histogram')
    const fixed = columns.reduce((sum, { type }) => sum + bytesPerValue(type) + 1, 9)
    const end = Math.min(rows, from + MAX_ROWS)
    let bytes = 0
    let row = from
    let last = -1
    let number = 0
    for (; row < end; row++) {
      if (series[row] !== last || row === from) {
        last = series[row]
        const known = found.get(last)
        if (known === undefined) {
          const own = tagsOf(last)
          number = tags.push(own) - 1
          found.set(last, number)
          for (const name of Object.keys(own)) names.add(name)
          sizes.push(Object.values(own).reduce((sum, value) => sum + Buffer.byteLength(value), 0))
        } else number = known
      }
      bytes += fixed + sizes[number]
      for (const column of texts) if (column.has(row)) bytes += column.i32[row * 2 + 1] * (column.type === 'histogram' ? HISTOGRAM_GROWTH : 1)
      // A batch has a column for each tag that any of its series has: series without a tag in common make it as wide as it is long.
      if (bytes + names.size * (TAG_COLUMN_BYTES + (row - from + 1) * TAG_BYTES) > maxBytes && row > from) break
      this.numbers[row - from] = number
    }
    return { to: row, series: tags }
  }

  private keep(key: string, shape: Shape, bytes: number): void {
    shape.bytes = Math.max(shape.bytes, bytes + shape.encoder.schema.fields.length * ENCODER_COLUMN_BYTES)
    this.shapes.set(key, shape)
    this.kept += shape.bytes
    for (const oldest of this.shapes.keys()) {
      if (this.kept <= KEPT_BYTES && this.shapes.size <= KEPT_SHAPES) return
      this.forget(oldest)
    }
  }

  private forget(key: string): void {
    this.kept -= this.shapes.get(key)?.bytes ?? 0
    this.shapes.delete(key)
  }
}

const NOTHING = new Uint8Array(0)

function encoderOf(tags: readonly string[], fields: RowsChanged['fields']): Pick<Shape, 'encoder' | 'schema'> {
  const encoder = new ArrowEncoder(seriesColumns(tags, fields), { maxRows: MAX_ROWS, maxBytes: Number.MAX_SAFE_INTEGER, prefix: streamPrefix })
  return { encoder, schema: encoder.schemaMessage().framed ?? NOTHING }
}

/** A byte a row, 1 = it has a value that counts; undefined when all have. */
function presence(column: Column, from: number, to: number, heap: Uint8Array): Uint8Array | undefined {
  if (!column.nonFinite && column.type !== 'histogram' && column.next >= to) return column.validity?.subarray(from, to)
  const shown = new Uint8Array(to - from)
  for (let row = from; row < to; row++) shown[row - from] = isShown(column, row, heap) ? 1 : 0
  return shown
}

/** Rows with a value, one run after the other. */
function* runs(shown: readonly (Uint8Array | undefined)[], rows: number): Generator<[number, number]> {
  if (shown.includes(undefined)) return yield [0, rows]
  const has = (row: number): boolean => shown.some((column) => (column as Uint8Array)[row] === 1)
  for (let start = 0; start < rows; start++) {
    if (!has(start)) continue
    let end = start + 1
    while (end < rows && has(end)) end++
    yield [start, end]
    start = end
  }
}

function tagVector(tag: string, series: readonly Record<string, string>[], numbers: Int32Array, rows: number): SqlVector {
  // A tag may be called as what every object inherits.
  const own = series.map((tags) => (Object.hasOwn(tags, tag) ? tags[tag] : undefined))
  const dictionary = own.map((value) => value ?? '')
  if (!own.includes(undefined)) return { values: numbers, dictionary }
  const validity = new Uint8Array(rows)
  for (let i = 0; i < rows; i++) validity[i] = own[numbers[i]] === undefined ? 0 : 1
  return { values: numbers, dictionary, validity }
}

function fieldVector(column: Column, validity: Uint8Array | undefined, heap: Uint8Array, from: number, to: number): SqlVector {
  const given = validity === undefined ? {} : { validity }
  switch (column.type) {
    case 'float64':
      return { values: column.f64.subarray(from, to), ...given }
    case 'bool':
      return { values: column.u8.subarray(from, to), ...given }
    case 'int64':
    case 'uint64':
      return { values: longs(column.i32, from, to), ...given }
    case 'decimal':
      // 128 bits, the least significant first, as Arrow has them.
      return { values: longs(column.i32, from * 2, to * 2), ...given }
    case 'string':
      return { ...texts(column.i32, validity, heap, from, to), ...given }
    case 'histogram': {
      const values: (string | null)[] = []
      for (let row = from; row < to; row++) values.push(validity?.[row - from] === 1 ? histogramText(valueAt(column, row, heap) as Uint8Array) : null)
      return { values, ...given }
    }
  }
}

/** UTF-8 of a column one behind the other. */
function texts(places: Int32Array, validity: Uint8Array | undefined, heap: Uint8Array, from: number, to: number): SqlVector {
  const values = new Int32Array(to - from + 1)
  let length = 0
  for (let i = 0; i < to - from; i++) {
    if (validity === undefined || validity[i] === 1) length += places[(from + i) * 2 + 1]
    values[i + 1] = length
  }
  const bytes = Buffer.allocUnsafe(length)
  const source = Buffer.from(heap.buffer, heap.byteOffset, heap.length)
  for (let i = 0; i < to - from; i++) {
    if (values[i + 1] === values[i]) continue
    const start = places[(from + i) * 2]
    source.copy(bytes, values[i], start, start + values[i + 1] - values[i])
  }
  return { values, bytes }
}

/** Halves as 64-bit integers. */
function longs(halves: Int32Array, from: number, to: number): BigInt64Array {
  const part = halves.subarray(from * 2, to * 2)
  return part.byteOffset % 8 === 0 ? new BigInt64Array(part.buffer, part.byteOffset, to - from) : new BigInt64Array(part.slice().buffer)
}
