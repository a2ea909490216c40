/** Rows of a change in line protocol, with the types of its fields: what reads the lines stores the same values. */
import { type Column, isShown, valueAt } from '../columns/index.ts'
import { type JsonBytes, NUMBER_BYTES } from '../json/index.ts'
import { decimalText } from '../numbers/index.ts'
import { writeTime } from './change-json.ts'
import { SeriesBytes } from './series-bytes.ts'
import type { ChangedColumns } from './types.ts'

const encoder = new TextEncoder()
const utf8 = (text: string): Uint8Array => encoder.encode(text)

const INTEGER = utf8('i')
const UNSIGNED = utf8('u')
const TRUE = utf8('true')
const FALSE = utf8('false')
const SPACE = utf8(' ')
const MINUS_ZERO = utf8('-0')
const TWO_32 = 2 ** 32
const SAFE_HIGH = 2 ** 21
const QUOTE = 0x22
const BACKSLASH = 0x5c

/** Before anything but these and itself a backslash is text, but it could meet one that follows: it is always written as two. */
const inMeasurement = (text: string): string => text.replace(/[\\, ]/g, '\\$&')
const inKey = (text: string): string => text.replace(/[\\, =]/g, '\\$&')

/** Measurement and tags by key, as a line begins: the same for the same series everywhere. */
export function seriesKey(measurement: string, tags: Record<string, string>): string {
  let text = inMeasurement(measurement)
  for (const key of Object.keys(tags).sort()) text += `,${inKey(key)}=${inKey(tags[key])}`
  return text
}

/** What a line cannot hold: an end of the line, or the begin of a comment. */
const UNWRITABLE = /[\n\r]|^#/

/** Rows of a change as line protocol, a line a row, once `begin` was given the change. */
export class RowLines {
  private readonly keys = new SeriesBytes()
  /** Empty for a series that no line can hold. */
  private readonly keyText = (series: number): string => {
    const change = this.change as ChangedColumns
    const key = seriesKey(change.measurement, change.tagsOf(series))
    return UNWRITABLE.test(key) ? '' : key
  }
  private writable: boolean[] = []
  private change: ChangedColumns | undefined
  private names: Uint8Array[] = []
  private firstNames: Uint8Array[] = []
  private most = 0

  begin(change: ChangedColumns): void {
    this.change = change
    this.names = change.fields.map(({ name }) => utf8(`,${inKey(name)}=`))
    this.firstNames = this.names.map((bytes) => bytes.subarray(1))
    this.writable = change.fields.map(({ name, type }) => type !== 'histogram' && !UNWRITABLE.test(name))
    this.most = 2 + NUMBER_BYTES
    for (const { length } of this.names) this.most += length + NUMBER_BYTES
  }

  /**
   * A line without its end. @returns false, with nothing written, for a row that has a value of which a line can hold nothing or only a part: histograms,
   * names with line breaks. A row without any value is true, with nothing written.
   */
  write(out: JsonBytes, row: number): boolean {
    const { times, series, fields, columns, heap } = this.change as ChangedColumns
    const { keys } = this
    keys.find(series[row], this.keyText)
    const start = out.length
    out.room(this.most + keys.end - keys.start)
    out.putPart(keys.bytes, keys.start, keys.end)
    out.put(SPACE)
    let shown = 0
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i]
      if (!isShown(column, row, heap)) continue
      if (keys.end === keys.start || !this.writable[i]) {
        out.cut(start)
        return false
      }
      out.put(shown++ === 0 ? this.firstNames[i] : this.names[i])
      writeValue(out, column, row, heap, fields[i].scale ?? 0)
      out.room(this.most)
    }
    if (shown === 0) {
      out.cut(start)
      return true
    }
    out.put(SPACE)
    writeTime(out, times[row * 2], times[row * 2 + 1])
    return true
  }
}

function writeValue(out: JsonBytes, column: Column, row: number, heap: Uint8Array, scale: number): void {
  const { i32 } = column
  switch (column.type) {
    case 'float64': {
      const value = column.f64[row]
      if (value === 0 && 1 / value < 0) return out.put(MINUS_ZERO)
      return out.float(value)
    }
    case 'int64':
    case 'uint64': {
      const high = column.type === 'int64' ? i32[row * 2 + 1] : i32[row * 2 + 1] >>> 0
      if (high < SAFE_HIGH && high >= -SAFE_HIGH) out.float(high * TWO_32 + (i32[row * 2] >>> 0))
      else out.ascii(String(valueAt(column, row, heap)))
      return out.put(column.type === 'int64' ? INTEGER : UNSIGNED)
    }
    case 'bool':
      return out.put(column.u8[row] === 1 ? TRUE : FALSE)
    case 'decimal':
      return out.raw(`${decimalText(valueAt(column, row, heap) as bigint, scale)}d`)
    default:
      return quoted(out, heap, i32[row * 2], i32[row * 2] + i32[row * 2 + 1])
  }
}

function quoted(out: JsonBytes, heap: Uint8Array, start: number, end: number): void {
  let escapes = 0
  for (let i = start; i < end; i++) if (heap[i] === QUOTE || heap[i] === BACKSLASH) escapes++
  const bytes = new Uint8Array(end - start + escapes + 2)
  let at = 0
  bytes[at++] = QUOTE
  for (let i = start; i < end; i++) {
    if (heap[i] === QUOTE || heap[i] === BACKSLASH) bytes[at++] = BACKSLASH
    bytes[at++] = heap[i]
  }
  bytes[at] = QUOTE
  out.room(bytes.length)
  out.put(bytes)
}
