/**
 * Changes as server-sent events: one frame a point, a deleted series or another change. Points are written as bytes, into a buffer that is handed on in chunks,
 * so that no change is encoded in one turn.
 */
import { createHash } from 'node:crypto'
import type { Change, RowsChanged, SeriesDeleted } from 'svcdb'
import { type Column, isShown, valueAt } from 'svcdb/lib/columns'
import { JsonBytes, NUMBER_BYTES } from 'svcdb/lib/json'
import { decimalText } from 'svcdb/lib/numbers'

/** Tags kept as JSON, by series. */
const KEPT_TAGS = 50_000
/** Frames made, or bytes, before they are handed on. */
const CHUNK_ROWS = 512
const CHUNK_BYTES = 256 * 1024
const KINDS = { float64: 'F64', int64: 'I64', uint64: 'U64', bool: 'Bool', string: 'String', decimal: 'Decimal128', histogram: 'Histogram' } as const
const encoder = new TextEncoder()
const utf8 = (text: string): Uint8Array => encoder.encode(text)

const FIELDS = utf8(',"fields":{')
const TIMESTAMP = utf8('}},"timestamp":')
const TRUE = utf8('true')
const FALSE = utf8('false')
/** A number, and the frame's text around the values. */
const FRAME_BYTES = 3 * NUMBER_BYTES
const TWO_32 = 2 ** 32

/** What the `id:` lines of a change say: the place behind it, or, within it, how many of its frames have come, between two texts. */
export interface FrameIds {
  before: string
  after: string
  last: string
}

export class FrameEncoder {
  /** Points, deleted series and other changes so far. */
  frames = 0
  private readonly tags = new Map<number, Uint8Array>()

  private tagBytes(change: RowsChanged, series: number): Uint8Array {
    let bytes = this.tags.get(series)
    if (bytes === undefined) {
      if (this.tags.size >= KEPT_TAGS) this.tags.clear()
      bytes = utf8(JSON.stringify(change.tagsOf(series)))
      this.tags.set(series, bytes)
    }
    return bytes
  }

  /** Chunks of UTF-8. @param skip frames of the change that its reader has had. */
  *encode(change: Change, ids: FrameIds, skip = 0): Generator<Uint8Array> {
    switch (change.kind) {
      case 'rows':
        return yield* this.rows(change, ids, skip)
      case 'series_deleted':
        return yield* this.deleted(change, ids, skip)
      case 'gap': {
        const { from, to, cause } = change
        return yield frame('gap', ids.last, JSON.stringify({ Gap: { from, to, cause } }))
      }
      default: {
        this.frames++
        const { measurement, sequence: seq } = change
        const key = change.kind === 'measurement_dropped' ? 'MeasurementDropped' : 'MeasurementRestored'
        yield frame(change.kind, ids.last, JSON.stringify({ [key]: { measurement, seq } }))
      }
    }
  }

  private *rows(change: RowsChanged, ids: FrameIds, skip: number): Generator<Uint8Array> {
    const { rows, times, series, fields, columns, heap } = change
    const data = `\ndata: {"PointWritten":{"measurement":${JSON.stringify(change.measurement)},"tags":`
    const start = utf8(`event: point_written\nid: ${ids.before}`)
    const middle = utf8(ids.after + data)
    const lastStart = utf8(`event: point_written\nid: ${ids.last}${data}`)
    const tail = utf8(`,"seq":${change.sequence}}}\n\n`)
    const names = fields.map(({ name, type }) => utf8(`},${JSON.stringify(name)}:{"${KINDS[type]}":`))
    const firstNames = names.map((bytes) => bytes.subarray(2))
    let most = start.length + middle.length + lastStart.length + tail.length + FRAME_BYTES
    for (const { length } of names) most += length + NUMBER_BYTES
    const out = new JsonBytes()
    try {
      for (let row = skip; row < rows; row++) {
        const last = row === rows - 1
        const frameAt = out.length
        const tags = this.tagBytes(change, series[row])
        out.room(most + tags.length)
        if (last) out.put(lastStart)
        else {
          out.put(start)
          out.integer(row + 1)
          out.put(middle)
        }
        out.put(tags)
        out.put(FIELDS)
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
        if (shown === 0) out.cut(frameAt)
        else {
          this.frames++
          out.put(TIMESTAMP)
          writeTime(out, times[row * 2], times[row * 2 + 1])
          out.put(tail)
        }
        if (out.length > 0 && (last || (row - skip) % CHUNK_ROWS === CHUNK_ROWS - 1 || out.length >= CHUNK_BYTES)) yield out.take()
      }
    } finally {
      out.close()
    }
  }

  private *deleted(change: SeriesDeleted, ids: FrameIds, skip: number): Generator<Uint8Array> {
    const { measurement, sequence: seq, start, end } = change
    const range = `${start === undefined ? '' : `,"start":${start}`}${end === undefined ? '' : `,"end":${end}`}`
    const text = (tags: Record<string, string>, hash: string): string =>
      `{"SeriesDeleted":{"measurement":${JSON.stringify(measurement)},"tags":${JSON.stringify(tags)},"series_hash":${hash}${range},"seq":${seq}}}`
    if (change.series === undefined) {
      this.frames++
      yield frame('series_deleted', ids.last, text({}, 'null'))
      return
    }
    let held: Record<string, string> | undefined
    let n = 0
    for (const tags of change.series()) {
      if (held !== undefined && ++n > skip) {
        this.frames++
        yield frame('series_deleted', `${ids.before}${n}${ids.after}`, text(held, seriesHash(measurement, held)))
      }
      held = tags
    }
    if (held === undefined) return
    this.frames++
    yield frame('series_deleted', ids.last, text(held, seriesHash(measurement, held)))
  }
}

function frame(event: string, id: string, data: string): Uint8Array {
  return utf8(`event: ${event}\nid: ${id}\ndata: ${data}\n\n`)
}

/** Upper halves of integers below 2^53. */
const SAFE_HIGH = 2 ** 21

/** False for values that are written as text. */
function writeNumber(out: JsonBytes, column: Column, row: number): boolean {
  const { i32 } = column
  switch (column.type) {
    case 'float64':
      out.float(column.f64[row])
      return true
    case 'int64':
    case 'uint64': {
      const high = column.type === 'int64' ? i32[row * 2 + 1] : i32[row * 2 + 1] >>> 0
      if (high < SAFE_HIGH && high >= -SAFE_HIGH) out.float(high * TWO_32 + (i32[row * 2] >>> 0))
      else out.ascii(String(valueAt(column, row, NO_HEAP)))
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

const NO_HEAP = new Uint8Array(0)
const HALF_MILLIONS = 4294
const HALF_REST = 967_296
const MILLION = 1_000_000

/** Nanoseconds as digits: halves in numbers, which are exact up to 2^53, in two parts of a million apart. */
function writeTime(out: JsonBytes, low: number, high: number): void {
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
