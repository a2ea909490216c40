/** Changes as server-sent events: one frame a point, a deleted series or another change. Text is made in pieces, so that no change is encoded in one turn. */
import { createHash } from 'node:crypto'
import type { Change, RowsChanged, SeriesDeleted } from 'svcdb'
import { type Column, isShown, valueAt } from 'svcdb/lib/columns'

/** Tags kept as JSON, by series. */
const KEPT_TAGS = 50_000
/** Frames made before the text is handed on. */
const PIECE = 512
const KINDS = { float64: 'F64', int64: 'I64', uint64: 'U64', bool: 'Bool', string: 'String', decimal: 'Decimal128', histogram: 'Histogram' } as const

/** What a frame's `id:` line says: the place behind it, or, within a change, the place before and how many of its frames have come. */
export type IdOf = (frames: number, last: boolean) => string

export class FrameEncoder {
  /** Points, deleted series and other changes so far. */
  frames = 0
  private readonly tags = new Map<number, string>()

  private tagsText(change: RowsChanged, series: number): string {
    let text = this.tags.get(series)
    if (text === undefined) {
      if (this.tags.size >= KEPT_TAGS) this.tags.clear()
      text = JSON.stringify(change.tagsOf(series))
      this.tags.set(series, text)
    }
    return text
  }

  /** Pieces of text. @param skip frames of the change that its reader has had. */
  *encode(change: Change, idOf: IdOf, skip = 0): Generator<string> {
    switch (change.kind) {
      case 'rows':
        return yield* this.rows(change, idOf, skip)
      case 'series_deleted':
        return yield* this.deleted(change, idOf, skip)
      case 'gap': {
        const { from, to, cause } = change
        return yield frame('gap', idOf(1, true), JSON.stringify({ Gap: { from, to, cause } }))
      }
      default: {
        this.frames++
        const { measurement, sequence: seq } = change
        const key = change.kind === 'measurement_dropped' ? 'MeasurementDropped' : 'MeasurementRestored'
        yield frame(change.kind, idOf(1, true), JSON.stringify({ [key]: { measurement, seq } }))
      }
    }
  }

  private *rows(change: RowsChanged, idOf: IdOf, skip: number): Generator<string> {
    const { rows, times, series, fields, columns, heap, sequence } = change
    const head = `data: {"PointWritten":{"measurement":${JSON.stringify(change.measurement)},"tags":`
    const names = fields.map(({ name, type }) => `${JSON.stringify(name)}:{"${KINDS[type]}":`)
    const tail = `,"seq":${sequence}}}\n\n`
    let text = ''
    for (let row = skip; row < rows; row++) {
      let values = ''
      for (let i = 0; i < columns.length; i++) {
        const column = columns[i]
        if (!isShown(column, row, heap)) continue
        if (values !== '') values += ','
        values += `${names[i]}${valueText(column, row, heap, fields[i].scale ?? 0)}}`
      }
      const last = row === rows - 1
      if (values !== '') {
        this.frames++
        text += `event: point_written\nid: ${idOf(row + 1, last)}\n${head}${this.tagsText(change, series[row])},"fields":{${values}},"timestamp":${timeText(times[row * 2], times[row * 2 + 1])}${tail}`
      }
      if (text !== '' && (last || (row - skip) % PIECE === PIECE - 1)) {
        yield text
        text = ''
      }
    }
  }

  private *deleted(change: SeriesDeleted, idOf: IdOf, skip: number): Generator<string> {
    const { measurement, sequence: seq, start, end } = change
    const range = `${start === undefined ? '' : `,"start":${start}`}${end === undefined ? '' : `,"end":${end}`}`
    const text = (tags: Record<string, string>, hash: string): string =>
      `{"SeriesDeleted":{"measurement":${JSON.stringify(measurement)},"tags":${JSON.stringify(tags)},"series_hash":${hash}${range},"seq":${seq}}}`
    if (change.series === undefined) {
      this.frames++
      yield frame('series_deleted', idOf(1, true), text({}, 'null'))
      return
    }
    let held: Record<string, string> | undefined
    let n = 0
    for (const tags of change.series()) {
      if (held !== undefined && ++n > skip) {
        this.frames++
        yield frame('series_deleted', idOf(n, false), text(held, seriesHash(measurement, held)))
      }
      held = tags
    }
    if (held === undefined) return
    this.frames++
    yield frame('series_deleted', idOf(n + 1, true), text(held, seriesHash(measurement, held)))
  }
}

function frame(event: string, id: string, data: string): string {
  return `event: ${event}\nid: ${id}\ndata: ${data}\n\n`
}

function valueText(column: Column, row: number, heap: Uint8Array, scale: number): string {
  switch (column.type) {
    case 'float64':
      return String(column.f64[row])
    case 'bool':
      return column.u8[row] === 1 ? 'true' : 'false'
    case 'int64': {
      const low = column.i32[row * 2]
      return column.i32[row * 2 + 1] === low >> 31 ? String(low) : String(valueAt(column, row, heap))
    }
    case 'uint64':
      return column.i32[row * 2 + 1] === 0 ? String(column.i32[row * 2] >>> 0) : String(valueAt(column, row, heap))
    case 'decimal':
      return `"${decimalText(valueAt(column, row, heap) as bigint, scale)}"`
    case 'string':
      return JSON.stringify(valueAt(column, row, heap))
    case 'histogram':
      return `"${Buffer.from(valueAt(column, row, heap) as Uint8Array).toString('base64')}"`
  }
}

function decimalText(unscaled: bigint, scale: number): string {
  if (scale === 0) return String(unscaled)
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0')
  return `${unscaled < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}

const HALF_MILLIONS = 4294
const HALF_REST = 967_296
const MILLION = 1_000_000

/** Nanoseconds as digits: halves in numbers, which are exact up to 2^53, in two parts of a million apart. */
export function timeText(low: number, high: number): string {
  if (high < 0) return String((BigInt(high) << 32n) | BigInt(low >>> 0))
  // 2^32 = 4294 * 10^6 + 967296
  const rest = high * HALF_REST + (low >>> 0)
  const millions = high * HALF_MILLIONS + Math.floor(rest / MILLION)
  return millions === 0 ? String(rest) : `${millions}${String(rest % MILLION).padStart(6, '0')}`
}

/** 64 bits that are the same for the same series on every server: of SHA-256 over the name and the tags by key, each behind a NUL but the first. */
export function seriesHash(measurement: string, tags: Record<string, string>): string {
  const hash = createHash('sha256').update(measurement)
  for (const key of Object.keys(tags).sort()) hash.update(`\0${key}\0${tags[key]}`)
  return String(hash.digest().readBigUInt64BE())
}
