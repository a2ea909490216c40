/**
 * The rows of a frozen memtable as a DuckDB row source, in segment order, duplicates merged field by field: the last write that sets a field wins.
 *
 * Rows of one series lie far apart in a memtable, those of one time side by side. So a stretch of many blocks is collected at once, a column at a
 * time and nearly in order of arrival. The longer the stretch, the more of each cache line of the memtable is used while it is there: with series in
 * random order that is what a flush costs (flush-random.bench.ts, flush-narrow.bench.ts).
 */
import type bindings from '@duckdb/node-bindings'
import { logicalType, type RowSource, type RowStream } from '../duckdb/duckdb.ts'
import { duckdb } from '../duckdb/native.ts'
import { copyValues, writeValues } from '../duckdb/vector-writer.ts'
import { BLOCK_ROWS, type ChunkView, valueBytes } from '../memtable/chunk-view.ts'
import { FieldViews } from '../memtable/field-views.ts'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import { Gathered, GatheredColumn, gatherTimesAs } from '../memtable/row-gather.ts'
import type { OrderedRows } from '../memtable/row-order.ts'
import { Scatter, type ScatterTarget } from '../memtable/scatter.ts'
import { lowerBound } from '../read/samples/search.ts'
import type { SegmentColumn } from '../threads/segment-entry.ts'
import { bitsColumn, keepOnly } from './bits-column.ts'

export const MEASUREMENT_COLUMN = '_measurement'

/** A column of a stretch takes at most so many blocks, and all of them together at most so many bytes, but for one block. */
const STRETCH_BLOCKS = 256
const STRETCH_BYTES = 16 << 20
const TIME_BYTES = 8
/** Few rows have room for so many at least: their columns are read by words of 8 bytes. */
const WORD_ROWS = 8

interface SegmentRows {
  chunks: readonly ChunkView[]
  heap: readonly Uint8Array[]
  ordered: OrderedRows
  /** As groupDuplicates makes them; undefined when no row duplicates another. */
  groups: Int32Array | undefined
  /** Of each series, in a shared table. */
  measurementOf: Int32Array | undefined
}

export class SegmentSource implements RowSource {
  readonly rows: number
  readonly columns: RowSource['columns']
  private readonly input: SegmentRows
  private readonly fields: SegmentColumn[]
  private readonly views: FieldViews
  /** Of columns, used again by the next part: they are read one after the other. */
  private readonly buffers: Gathered[] = []

  constructor(input: SegmentRows, fields: SegmentColumn[]) {
    this.input = input
    this.fields = fields
    this.views = new FieldViews(
      input.chunks,
      fields.map(({ field }) => field),
    )
    const { ordered, groups, measurementOf } = input
    this.rows = groups === undefined ? ordered.rows.length : groups.length - 1
    const integer = () => duckdb().create_logical_type(duckdb().Type.INTEGER)
    const bigint = () => duckdb().create_logical_type(duckdb().Type.BIGINT)
    this.columns = [
      ...(measurementOf === undefined ? [] : [{ name: MEASUREMENT_COLUMN, type: integer() }]),
      { name: SERIES_COLUMN, type: integer() },
      { name: TIME_COLUMN, type: duckdb().create_logical_type(duckdb().Type.TIMESTAMP_NS) },
      ...fields.map(({ name, type, scale, encoding }) => ({
        name,
        type: encoding.kind !== 'scaled' ? logicalType(type, scale) : encoding.wide ? bigint() : integer(),
      })),
      ...fields.filter(hasBits).map((field) => ({ name: bitsColumn(field)!, type: bigint() })),
    ]
  }

  open(projected: number[]): RowStream {
    return this.stream(0, this.rows, projected)
  }

  /** Rows [from, to) alone. */
  part(from: number, to: number): RowSource {
    return { columns: this.columns, rows: to - from, open: (projected) => this.stream(from, to, projected) }
  }

  private stream(from: number, to: number, projected: readonly number[]): RowStream {
    return new SegmentStream({ ...this.input, views: this.views, buffers: this.buffers }, this.fields, from, to, projected)
  }
}

const hasBits = (field: SegmentColumn): boolean => bitsColumn(field) !== undefined

/** A column of the stretch. */
type Stretched =
  | { kind: 'measurement' }
  | { kind: 'series' }
  | { kind: 'time' }
  | { kind: 'field'; field: SegmentColumn; isBits: boolean; out: Gathered; source: GatheredColumn | undefined }

class SegmentStream implements RowStream {
  private readonly input: SegmentRows
  private readonly scatter: Scatter | undefined
  /** Where it ends. */
  private readonly rows: number
  private readonly columns: Stretched[]
  /** Where the output rows of each series begin. */
  private readonly starts: Int32Array
  private readonly stretch: Stretch
  /** Of output rows that have several positions. */
  private readonly picked: Int32Array
  private readonly times: Gathered
  private at: number

  constructor(
    input: SegmentRows & { views: FieldViews; buffers: Gathered[] },
    fields: readonly SegmentColumn[],
    from: number,
    rows: number,
    projected: readonly number[],
  ) {
    const { ordered, groups, measurementOf, views, buffers } = input
    this.input = input
    this.at = from
    this.rows = rows
    const bytes = fields.reduce((sum, field) => sum + valueBytes(field.type) * (hasBits(field) ? 2 : 1), TIME_BYTES)
    const blocks = Math.min(STRETCH_BLOCKS, Math.ceil((rows - from) / BLOCK_ROWS))
    const room = Math.min(
      Math.ceil((rows - from) / WORD_ROWS) * WORD_ROWS,
      BLOCK_ROWS * Math.max(1, Math.min(blocks, Math.floor(STRETCH_BYTES / bytes / BLOCK_ROWS))),
    )
    const { isSparse } = views
    const made =
      (field: SegmentColumn, isBits: boolean) =>
      (column: number): Stretched => {
        const known = buffers[column]
        const out = known !== undefined && known.rows >= room ? known : new Gathered(room, valueBytes(field.type))
        buffers[column] = out
        return { kind: 'field', field, isBits, source: isSparse ? undefined : new GatheredColumn(views, field.field), out }
      }
    const all: ((column: number) => Stretched)[] = [
      ...(measurementOf === undefined ? [] : [() => ({ kind: 'measurement' }) as const]),
      () => ({ kind: 'series' }),
      () => ({ kind: 'time' }),
      ...fields.map((field) => made(field, false)),
      ...fields.filter(hasBits).map((field) => made(field, true)),
    ]
    this.columns = projected.map((column) => all[column](column))
    this.scatter = isSparse ? new Scatter(views, ordered.rows, groups, targetsOf(this.columns)) : undefined
    this.starts = groups === undefined ? ordered.starts : startsAmong(groups, ordered.starts)
    this.stretch = new Stretch(room, ordered.series, this.starts, measurementOf, from)
    this.picked = new Int32Array(groups === undefined ? 0 : room)
    this.times = new Gathered(room, TIME_BYTES)
  }

  next(vectors: bindings.Vector[]): number {
    const n = Math.min(BLOCK_ROWS, this.rows - this.at)
    if (n <= 0) return 0
    const { stretch } = this
    if (this.at === stretch.to) {
      stretch.advance(this.rows)
      this.scatter?.collect(stretch.from, stretch.to - stretch.from, stretch.sequence)
      for (const column of this.columns) this.collect(column)
    }
    const from = this.at - stretch.from
    for (let i = 0; i < vectors.length; i++) this.write(vectors[i], this.columns[i], from, n)
    this.at += n
    return n
  }

  private collect(column: Stretched): void {
    const { stretch, times, input } = this
    const { sequence } = stretch
    const n = stretch.to - stretch.from
    if (column.kind === 'time') gatherTimesAs(input.chunks, this.firsts(n), sequence, n, times.i32)
    if (column.kind !== 'field') return
    const { field, isBits, source, out } = column
    const power = powerOf(column)
    if (source !== undefined) {
      const positions = this.winners(source, n)
      if (power === undefined) source.gatherAs(positions, sequence, n, valueBytes(field.type), out)
      else source.gatherScaled(positions, sequence, n, power, out)
    }
    if (power !== undefined) return
    if (hasBits(field)) keepOnly(out, n, !isBits)
    if (field.encoding.kind === 'scaled' && !isBits) scaleInPlace(out, n, field.encoding)
  }

  private write(vector: bindings.Vector, column: Stretched, from: number, n: number): void {
    const { stretch, times, input } = this
    if (column.kind === 'measurement') copyValues(vector, stretch.measurements.buffer, from * 4, n * 4)
    else if (column.kind === 'series') copyValues(vector, stretch.series.buffer, from * 4, n * 4)
    else if (column.kind === 'time') copyValues(vector, times.buffer, from * TIME_BYTES, n * TIME_BYTES)
    else {
      const { field, isBits, out } = column
      const narrow = field.encoding.kind === 'scaled' && !field.encoding.wide && !isBits
      writeValues(vector, field.type, out, from, n, narrow ? 4 : valueBytes(field.type), input.heap)
    }
  }

  /** A position for each row of the stretch, its first one. */
  private firsts(n: number): Int32Array {
    const { groups, ordered } = this.input
    const { from } = this.stretch
    if (groups === undefined) return ordered.rows.subarray(from, from + n)
    for (let i = 0; i < n; i++) this.picked[i] = ordered.rows[groups[from + i]]
    return this.picked
  }

  /** For each row of the stretch the position whose value wins. */
  private winners(column: GatheredColumn, n: number): Int32Array {
    const { groups, ordered } = this.input
    const { from } = this.stretch
    if (groups === undefined) return ordered.rows.subarray(from, from + n)
    for (let i = 0; i < n; i++) this.picked[i] = column.lastSet(ordered.rows, groups[from + i], groups[from + i + 1])
    return this.picked
  }
}

/** Of a column that is collected as integers: what its values are multiplied by. */
function powerOf({ field, isBits }: Extract<Stretched, { kind: 'field' }>): number | undefined {
  const { encoding } = field
  if (encoding.kind !== 'scaled' || encoding.wide || isBits || hasBits(field)) return undefined
  return 10 ** encoding.scale
}

function targetsOf(columns: readonly Stretched[]): ScatterTarget[] {
  return columns.flatMap((column) => {
    if (column.kind !== 'field') return []
    return { field: column.field.field, width: valueBytes(column.field.type), power: powerOf(column), out: column.out }
  })
}

/** Some adjacent output rows [from, to): whose they are, and the order in which they came. */
class Stretch {
  from = 0
  to = 0
  readonly series: Int32Array
  readonly measurements: Int32Array
  /** The rows, counted from the stretch's first one, by turns of all series: nearly as they came. */
  readonly sequence: Int32Array
  private readonly all: Int32Array
  private readonly starts: Int32Array
  private readonly measurementOf: Int32Array | undefined
  private readonly cursors: Int32Array
  private readonly ends: Int32Array
  /** The first series with rows at or behind `to`. */
  private nextSeries: number

  /** @param first the first row of all. */
  constructor(room: number, all: Int32Array, starts: Int32Array, measurementOf: Int32Array | undefined, first: number) {
    this.all = all
    this.starts = starts
    this.measurementOf = measurementOf
    this.series = new Int32Array(room)
    this.measurements = new Int32Array(measurementOf === undefined ? 0 : room)
    this.sequence = new Int32Array(room)
    this.cursors = new Int32Array(room)
    this.ends = new Int32Array(room)
    this.from = first
    this.to = first
    this.nextSeries = Math.max(0, lowerBound(starts, first + 1) - 1)
  }

  advance(rows: number): void {
    const { all, starts, measurementOf, cursors, ends, sequence, to: from } = this
    const to = Math.min(rows, from + sequence.length)
    let live = 0
    let s = this.nextSeries
    for (; s < all.length && starts[s] < to; s++) {
      const first = Math.max(starts[s], from) - from
      const end = Math.min(starts[s + 1], to) - from
      this.series.fill(all[s], first, end)
      if (measurementOf !== undefined) this.measurements.fill(measurementOf[all[s]], first, end)
      cursors[live] = first
      ends[live++] = end
    }
    this.nextSeries = starts[s] > to ? s - 1 : s
    this.from = from
    this.to = to
    for (let n = 0; live > 0; ) {
      let left = 0
      for (let i = 0; i < live; i++) {
        const row = cursors[i]
        sequence[n++] = row
        if (row + 1 === ends[i]) continue
        cursors[left] = row + 1
        ends[left++] = ends[i]
      }
      live = left
    }
  }
}

/** Where the groups of each series begin, given where its rows do. */
function startsAmong(groups: Int32Array, starts: Int32Array): Int32Array {
  const found = new Int32Array(starts.length)
  for (let s = 0, group = 0; s < starts.length; s++) {
    while (groups[group] < starts[s]) group++
    found[s] = group
  }
  return found
}

/** Turns gathered doubles into their integers, in the same buffer. */
function scaleInPlace(out: Gathered, n: number, { scale, wide }: { scale: number; wide?: true }): void {
  const { f64, i32 } = out
  const power = 10 ** scale
  if (!wide) {
    // The i-th integer lies at or before the i-th double, which has been read by then.
    for (let i = 0; i < n; i++) i32[i] = Math.round(f64[i] * power)
    return
  }
  for (let i = 0; i < n; i++) {
    const value = Math.round(f64[i] * power)
    const high = Math.floor(value / 4294967296)
    i32[i * 2 + 1] = high
    i32[i * 2] = value - high * 4294967296
  }
}
