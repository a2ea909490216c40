/** Points as a test writes them, into and out of the columns of the storage interface. */
import type { ColumnChunk, FieldType, Rejection, ScanRequest, SeriesChunk, Storage, WriteResult } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { formatDecimal } from '../common/decimal.ts'
import { highHalf, lowHalf } from '../common/time.ts'

export const NOW_MS = Date.UTC(2024, 0, 1, 12)
export const NOW = BigInt(NOW_MS) * 1_000_000n
export const MINUTE = 60_000_000_000n
export const HOUR = 60n * MINUTE

export type TestValue =
  | { type: 'float64'; value: number | bigint }
  | { type: 'int64' | 'uint64'; value: bigint }
  | { type: 'bool'; value: boolean }
  | { type: 'string'; value: string }
  | { type: 'decimal'; value: string }
  | { type: 'histogram'; value: Uint8Array }

export const f64 = (value: number): TestValue => ({ type: 'float64', value })
/** A float64 by its bits: a NaN in a number may lose its own. */
export const bits = (value: bigint): TestValue => ({ type: 'float64', value })
export const i64 = (value: bigint): TestValue => ({ type: 'int64', value })
export const u64 = (value: bigint): TestValue => ({ type: 'uint64', value })
export const bool = (value: boolean): TestValue => ({ type: 'bool', value })
export const str = (value: string): TestValue => ({ type: 'string', value })
export const dec = (value: string): TestValue => ({ type: 'decimal', value })
export const hist = (value: Uint8Array): TestValue => ({ type: 'histogram', value })

/** Prometheus' mark for the end of a series, a signalling NaN; its other NaN; the infinities. */
export const STALE = 0x7ff0000000000002n
export const NAN = 0x7ff8000000000001n
export const INFINITE = 0x7ff0000000000000n
export const NEGATIVE_INFINITE = 0xfff0000000000000n

export interface TestPoint {
  measurement: string
  tags?: Record<string, string>
  time: bigint
  fields: Record<string, TestValue>
  /** Through the table of mixed measurements. */
  mixed?: boolean
}

export interface WriteSettings {
  namespace?: string
  backfill?: boolean
  nonFinite?: boolean
}

/** Fills a batch as a decoder does. Rows that cannot be built are in `refused`; an engine may refuse at decoding or at writing. */
export function fill(storage: Storage, points: TestPoint[], namespace = 'default'): { batch: WriteBatch; refused: Rejection[] } {
  const batch = storage.batch(namespace)
  const refused: Rejection[] = []
  points.forEach((point, position) => {
    try {
      addPoint(storage, batch, point, position, namespace)
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
      refused.push({ code: error.code, message: error.message, position })
    }
  })
  return { batch, refused }
}

/** Whether a batch that was begun before a delete or a drop is stored whole; if not, it is to come again, whole. */
export async function isStored(writing: Promise<WriteResult>): Promise<boolean> {
  try {
    const { rejected } = await writing
    if (rejected > 0) throw new Error(`${rejected} rows are refused by themselves: who has sent them does not send them again`)
    return true
  } catch (error) {
    if ((error as SvcError).code === 'BACKPRESSURE') return false
    throw error
  }
}

/** Writes and returns the result as a client sees it: refusals of decoder and engine together, in order of position. */
export function write(storage: Storage, points: TestPoint[], { namespace, ...options }: WriteSettings = {}): Promise<WriteResult> {
  const { batch, refused } = fill(storage, points, namespace)
  return storage.write(batch, options).then((result) => ({
    written: result.written,
    rejected: result.rejected + refused.length,
    rejections: [...refused, ...result.rejections].sort((a, b) => a.position - b.position),
  }))
}

function addPoint(storage: Storage, batch: WriteBatch, point: TestPoint, position: number, namespace: string): void {
  const measurement = storage.resolver.measurement(namespace, point.measurement)
  const series = storage.resolver.series(measurement, Object.entries(point.tags ?? {}).flat())
  const table = point.mixed ? batch.mixed() : batch.tableForRow(measurement)
  const row = table.addRow(series, lowHalf(point.time), highHalf(point.time), position)
  try {
    for (const [name, field] of Object.entries(point.fields)) {
      const column = table.column(name, field.type)
      switch (field.type) {
        case 'float64':
          if (typeof field.value === 'bigint') column.setPair(row, lowHalf(field.value), highHalf(field.value))
          else column.setF64(row, field.value)
          break
        case 'int64':
        case 'uint64':
          column.setPair(row, lowHalf(field.value), highHalf(field.value))
          break
        case 'bool':
          column.setBool(row, field.value)
          break
        case 'string': {
          const at = batch.text(field.value)
          column.setPair(row, at, batch.heap.length - at)
          break
        }
        case 'decimal': {
          const [whole, fraction = ''] = field.value.split('.')
          column.setDecimal(row, BigInt(whole + fraction), fraction.length)
          break
        }
        case 'histogram': {
          const at = batch.heap.reserve(field.value.length)
          batch.heap.bytes.set(field.value, at)
          column.setPair(row, at, field.value.length)
        }
      }
    }
  } catch (error) {
    table.dropRow()
    throw error
  }
}

/** One line a point, sorted by tags, then time: `{"host":"a"} 17 usage=float64:1.5 state=string:"ok"`. */
export async function lines(storage: Storage, request: Partial<ScanRequest> & { measurement: string }): Promise<string[]> {
  const series = new Map<string, string[]>()
  for await (const { key, rows } of checkedChunks(storage.scan({ namespace: 'default', ...request }))) {
    const known = series.get(key)
    if (known === undefined) series.set(key, rows)
    else known.push(...rows)
  }
  return [...series.keys()].sort().flatMap((key) => (series.get(key) as string[]).map((row) => `${key} ${row}`))
}

/** Chunks as text, while the contract of `Reader.scan` is asserted. */
async function* checkedChunks(chunks: AsyncIterable<SeriesChunk>): AsyncIterable<{ key: string; rows: string[] }> {
  let last: { series: number; key: string; time: bigint } | undefined
  const seen = new Set<string>()
  for await (const { series, tags, times, columns } of chunks) {
    const key = JSON.stringify(Object.fromEntries(Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1))))
    if (times.length === 0) throw new Error('a chunk has no rows')
    if (last !== undefined && series < last.series) throw new Error(`series ${series} comes after series ${last.series}`)
    if (last?.series === series && key !== last.key) throw new Error(`series ${series} has changed its tags from ${last.key} to ${key}`)
    if (last?.series !== series && seen.has(key)) throw new Error(`the tags ${key} have two series`)
    seen.add(key)
    let previous = last?.series === series ? last.time : undefined
    const rows: string[] = []
    for (let row = 0; row < times.length; row++) {
      if (previous !== undefined && times[row] <= previous) throw new Error(`time ${times[row]} comes after ${previous} in series ${key}`)
      previous = times[row]
      const values = columns.filter((c) => c.validity === undefined || c.validity[row] === 1).map((c) => `${c.name}=${valueText(c, row, times.length)}`)
      if (values.length === 0) throw new Error(`the row at ${times[row]} of series ${key} has no value`)
      rows.push(`${times[row]} ${values.sort().join(' ')}`)
    }
    last = { series, key, time: previous as bigint }
    yield { key, rows }
  }
}

function valueText(column: ColumnChunk, row: number, rows: number): string {
  const { name, type, values, scale } = column
  if (values.length !== rows) throw new Error(`column "${name}" has ${values.length} values for ${rows} rows`)
  if (column.validity !== undefined && column.validity.length !== rows) throw new Error(`column "${name}" has ${column.validity.length} marks for ${rows} rows`)
  if (!(values instanceof VECTORS[type])) throw new Error(`column "${name}" of type ${type} comes as ${values.constructor.name}`)
  return `${type}:${textOf(type, values[row] as TestValue['value'] | bigint, scale)}`
}

const VECTORS = {
  float64: Float64Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  string: Array,
  decimal: Array,
  histogram: Array,
}

function textOf(type: FieldType, value: unknown, scale: number | undefined): string {
  if (type === 'float64') return Object.is(value, -0) ? '-0' : String(value)
  if (type === 'string') return JSON.stringify(value)
  if (type === 'decimal') return formatDecimal(value as bigint, scale as number)
  if (type === 'histogram') return Buffer.from(value as Uint8Array).toString('hex')
  return String(value)
}
