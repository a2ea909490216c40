/** ClickHouse's blocks as chunks of a result. */
import type { SqlChunk, SqlColumn, SqlVector } from 'svcdb'
import { storedHistogramJson } from 'svcdb/lib/histogram'
import type { ReadBlock, ReadColumn } from '../native/decode.ts'
import type { Answered } from './plan.ts'
import type { SqlType } from './types.ts'

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

type TypedArray = { new (buffer: ArrayBufferLike, offset: number, length: number): SqlVector['values']; BYTES_PER_ELEMENT: number }
const TYPED: Record<string, TypedArray> = {
  BOOLEAN: Uint8Array,
  TINYINT: Int8Array,
  SMALLINT: Int16Array,
  INTEGER: Int32Array,
  BIGINT: BigInt64Array,
  UTINYINT: Uint8Array,
  USMALLINT: Uint16Array,
  UINTEGER: Uint32Array,
  UBIGINT: BigUint64Array,
  FLOAT: Float32Array,
  DOUBLE: Float64Array,
  DATE: Int32Array,
  TIMESTAMP: BigInt64Array,
  TIMESTAMP_S: BigInt64Array,
  TIMESTAMP_MS: BigInt64Array,
  TIMESTAMP_NS: BigInt64Array,
  'TIMESTAMP WITH TIME ZONE': BigInt64Array,
}

/** Chunks of an answer, the columns of modules among them. */
export async function* chunksOf(
  blocks: AsyncIterable<ReadBlock>,
  columns: readonly Answered[],
  described: readonly SqlColumn[],
  textBytes: boolean,
  signal: AbortSignal | undefined,
): AsyncGenerator<SqlChunk> {
  const plainOf = (block: ReadBlock, i: number): SqlVector =>
    vectorOf(block.columns[columns[i].from], block.rows, columns[i].type, described[i]?.histogram === true, textBytes)
  if (columns.every(({ deferred }) => deferred === undefined)) {
    for await (const block of blocks) yield { rows: block.rows, columns: columns.map((_, i) => plainOf(block, i)) }
    return
  }
  const { computedOf, gathered, Modules, sliceOf } = await import('./modules.ts')
  const modules = new Modules(signal)
  try {
    const whole = columns.some(({ deferred }) => deferred?.takes === 'series') ? await gathered(modules, columns, blocks) : undefined
    let at = 0
    for await (const block of whole?.blocks ?? blocks) {
      const vectors: SqlVector[] = []
      for (const [i, column] of columns.entries()) {
        const known = whole?.computed.get(column)
        if (known !== undefined) vectors.push(sliceOf(known, at, at + block.rows))
        else vectors.push(column.deferred === undefined ? plainOf(block, i) : await computedOf(modules, column.deferred, block, column.from))
      }
      at += block.rows
      yield { rows: block.rows, columns: vectors }
    }
  } finally {
    modules.close()
  }
}

function vectorOf(column: ReadColumn, rows: number, type: SqlType, histogram: boolean, textBytes: boolean): SqlVector {
  const { nulls, bytes } = column
  const validity = nulls?.includes(1) ? nulls.map((one) => 1 - one) : undefined
  const found = validity === undefined ? {} : { validity }
  const typed = TYPED[type.id]
  if (typed !== undefined) return { values: new typed(bytes.buffer, bytes.byteOffset, rows), ...found }
  if (type.id === 'VARCHAR' && textBytes) return { ...heapOf(column, rows), ...found }
  return { values: Array.from({ length: rows }, (_, row) => (validity?.[row] === 0 ? null : valueAt(column, row, type, histogram))), ...found }
}

function valueAt(column: ReadColumn, row: number, type: SqlType, histogram: boolean): unknown {
  const { bytes, texts, items, ends } = column
  if (type.id === 'VARCHAR') return decoder.decode(texts?.[row])
  if (type.id === 'BLOB') return histogram ? histogramText(texts?.[row] as Uint8Array) : texts?.[row]
  if (type.item !== undefined && items !== undefined && ends !== undefined) {
    // DuckDB makes no list of no rows.
    if ((row === 0 ? 0n : ends[row - 1]) === ends[row]) return null
    const values: unknown[] = []
    const item = type.item
    for (let i = row === 0 ? 0 : Number(ends[row - 1]); i < Number(ends[row]); i++) values.push(items.nulls?.[i] === 1 ? null : itemAt(items, i, item))
    return values
  }
  if (type.id === 'NULL') return null
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  const low = view.getBigUint64(row * 16, true)
  return ((type.id === 'UHUGEINT' ? view.getBigUint64(row * 16 + 8, true) : view.getBigInt64(row * 16 + 8, true)) << 64n) | low
}

function itemAt(items: ReadColumn, i: number, type: SqlType): unknown {
  const typed = TYPED[type.id]
  if (typed === undefined) return valueAt(items, i, type, false)
  const { BYTES_PER_ELEMENT: width } = typed
  const value = new typed(items.bytes.buffer, items.bytes.byteOffset + i * width, 1)[0]
  return type.id === 'BOOLEAN' ? value === 1 : value
}

function histogramText(bytes: Uint8Array): string {
  try {
    return storedHistogramJson(bytes)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  }
}

/** All texts one after the other. */
function heapOf({ texts = [] }: ReadColumn, rows: number): Pick<SqlVector, 'values' | 'bytes'> {
  const ends = new Int32Array(rows + 1)
  for (let i = 0; i < rows; i++) ends[i + 1] = ends[i] + texts[i].length
  const bytes = new Uint8Array(ends[rows])
  for (let i = 0; i < rows; i++) bytes.set(texts[i], ends[i])
  return { values: ends, bytes }
}
