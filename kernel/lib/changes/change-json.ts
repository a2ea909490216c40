/**
 * Changes as JSON: one text a point, a deleted series or another change. Points are written as bytes behind what the caller has in its buffer, without an
 * object or a string a point.
 */
import { createHash } from 'node:crypto'
import { type Column, isShown, valueAt } from '../columns/index.ts'
import { type JsonBytes, NUMBER_BYTES } from '../json/index.ts'
import { decimalText } from '../numbers/index.ts'
import { SeriesBytes } from './series-bytes.ts'
import type { ChangedColumns, DeletedSeries } from './types.ts'

const KINDS = { float64: 'F64', int64: 'I64', uint64: 'U64', bool: 'Bool', string: 'String', decimal: 'Decimal128', histogram: 'Histogram' } as const
const encoder = new TextEncoder()
const utf8 = (text: string): Uint8Array => encoder.encode(text)

const FIELDS = ',"fields":{'
const TIMESTAMP = utf8('}},"timestamp":')
const NO_BYTES = new Uint8Array(0)
const TRUE = utf8('true')
const FALSE = utf8('false')
/** With a fraction: -0 is an integer to many parsers, and theirs have no such zero. */
const MINUS_ZERO = utf8('-0.0')
const TWO_32 = 2 ** 32

/** The rows of a change, one after the other. */
export class RowJson {
  private readonly tags = new SeriesBytes()
  private readonly tagsJson = (series: number): string => JSON.stringify((this.change as ChangedColumns).tagsOf(series))
  private change: ChangedColumns | undefined
  private head: Uint8Array = NO_BYTES
  private tail: Uint8Array = NO_BYTES
  private names: Uint8Array[] = []
  private firstNames: Uint8Array[] = []
  private most = 0

  /** @param before text that each row stands behind; `after`, before. */
  begin(change: ChangedColumns, before = '', after = ''): void {
    this.change = change
    this.head = utf8(`${before}{"PointWritten":{"measurement":${JSON.stringify(change.measurement)},"tags":`)
    this.tail = utf8(`,"seq":${change.sequence}}}${after}`)
    const names = change.fields.map(({ name, type }) => `${JSON.stringify(name)}:{"${KINDS[type]}":`)
    this.names = names.map((text) => utf8(`},${text}`))
    this.firstNames = names.map((text) => utf8(`${FIELDS}${text}`))
    this.most = this.head.length + this.tail.length + FIELDS.length + TIMESTAMP.length + NUMBER_BYTES
    for (const { length } of this.names) this.most += length + NUMBER_BYTES
  }

  /** @returns false, with nothing written, for a row without a value that is shown. */
  write(out: JsonBytes, row: number): boolean {
    const { times, series, fields, columns, heap } = this.change as ChangedColumns
    const { names, firstNames } = this
    const { tags, most } = this
    tags.find(series[row], this.tagsJson)
    const start = out.length
    out.room(most + tags.end - tags.start)
    out.put(this.head)
    out.putPart(tags.bytes, tags.start, tags.end)
    let shown = 0
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i]
      if (!isShown(column, row, heap)) continue
      out.put(shown++ === 0 ? firstNames[i] : names[i])
      if (!writeNumber(out, column, row)) {
        writeText(out, column, row, heap, fields[i].scale ?? 0)
        out.room(most)
      }
    }
    if (shown === 0) {
      out.cut(start)
      return false
    }
    out.put(TIMESTAMP)
    writeTime(out, times[row * 2], times[row * 2 + 1])
    out.put(this.tail)
    return true
  }
}

/** The texts of a delete: one a series, each with its tags; one without tags where all series are meant. */
export function* deletedJson(change: DeletedSeries): Generator<{ tags: Record<string, string> | undefined; json: string }> {
  const { measurement, sequence: seq, start, end } = change
  const range = `${start === undefined ? '' : `,"start":${start}`}${end === undefined ? '' : `,"end":${end}`}`
  const text = (tags: Record<string, string>, hash: string): string =>
    `{"SeriesDeleted":{"measurement":${JSON.stringify(measurement)},"tags":${JSON.stringify(tags)},"series_hash":${hash}${range},"seq":${seq}}}`
  if (change.series === undefined) yield { tags: undefined, json: text({}, 'null') }
  else for (const tags of change.series()) yield { tags, json: text(tags, seriesHash(measurement, tags)) }
}

/** A drop or a restore as JSON. @param seq `Change.sequence`. */
export function measurementJson(kind: 'measurement_dropped' | 'measurement_restored', measurement: string, seq: number): string {
  return JSON.stringify({ [kind === 'measurement_dropped' ? 'MeasurementDropped' : 'MeasurementRestored']: { measurement, seq } })
}

/** A gap as JSON: the positions before and behind it, and why it is there. */
export function gapJson({ from, to, cause }: { from: string; to: string; cause: string }): string {
  return JSON.stringify({ Gap: { from, to, cause } })
}

/** Upper halves of integers below 2^53. */
const SAFE_HIGH = 2 ** 21

/** False for values that are written as text. */
function writeNumber(out: JsonBytes, column: Column, row: number): boolean {
  const { i32 } = column
  switch (column.type) {
    case 'float64': {
      const value = column.f64[row]
      if (value === 0 && 1 / value < 0) out.put(MINUS_ZERO)
      else out.float(value)
      return true
    }
    case 'int64':
    case 'uint64': {
      const high = column.type === 'int64' ? i32[row * 2 + 1] : i32[row * 2 + 1] >>> 0
      if (high < SAFE_HIGH && high >= -SAFE_HIGH) out.float(high * TWO_32 + (i32[row * 2] >>> 0))
      else out.ascii(String(valueAt(column, row, NO_BYTES)))
      return true
    }
    case 'bool':
      out.put(column.u8[row] === 1 ? TRUE : FALSE)
      return true
    default:
      return false
  }
}

function writeText(out: JsonBytes, column: Column, row: number, heap: Uint8Array, scale: number): void {
  const { i32 } = column
  switch (column.type) {
    case 'string':
      return out.text(heap, i32[row * 2], i32[row * 2] + i32[row * 2 + 1])
    case 'decimal':
      return out.raw(`"${decimalText(valueAt(column, row, heap) as bigint, scale)}"`)
    default:
      out.raw(`"${Buffer.from(valueAt(column, row, heap) as Uint8Array).toString('base64')}"`)
  }
}

const HALF_MILLIONS = 4294
const HALF_REST = 967_296
const MILLION = 1_000_000

/** Nanoseconds as digits: halves in numbers, which are exact up to 2^53, in two parts of a million apart. Needs room. */
export function writeTime(out: JsonBytes, low: number, high: number): void {
  if (high < 0) return out.ascii(String((BigInt(high) << 32n) | BigInt(low >>> 0)))
  // 2^32 = 4294 * 10^6 + 967296
  const rest = high * HALF_REST + (low >>> 0)
  const millions = high * HALF_MILLIONS + Math.floor(rest / MILLION)
  if (millions === 0) return out.integer(rest)
  out.integer(millions)
  out.digits(rest % MILLION, 6)
}

/** 64 bits that are the same for the same series on every server: of SHA-256 over the name and the tags by key, each behind a NUL but the first. */
export function seriesHash(measurement: string, tags: Record<string, string>): string {
  const hash = createHash('sha256').update(measurement)
  for (const key of Object.keys(tags).sort()) hash.update(`\0${key}\0${tags[key]}`)
  return String(hash.digest().readBigUInt64BE())
}
