/**
 * The rows of one table in one memtable as a DuckDB row source. Whole blocks are copied straight out of shared memory; with a
 * restriction to some series their rows are collected first, along the links when they are few.
 */
import type bindings from '@duckdb/node-bindings'
import { before, highHalf, INT64_MIN, later, lowHalf } from '../../common/time.ts'
import { logicalType, type RowSource, type RowStream } from '../duckdb/duckdb.ts'
import { duckdb } from '../duckdb/native.ts'
import { allNull, copyValidity, copyValues, writeTexts, writeValues } from '../duckdb/vector-writer.ts'
import { contains, type Mask } from '../read/masks.ts'
import type { FieldDef } from '../threads/definitions.ts'
import { CHUNK_ROWS, NO_ROW, ROW_BITS } from '../threads/memtable-layout.ts'
import type { MemtablePart } from '../threads/state.ts'
import { BLOCK_ROWS, type ChunkView, timeOf, valueBytes } from './chunk-view.ts'
import { FieldViews } from './field-views.ts'
import { Gathered, GatheredColumn, heapBytes, putNumber } from './row-gather.ts'
import { Scatter, type ScatterTarget } from './scatter.ts'

const OFFSET = CHUNK_ROWS - 1
/** Following links costs about this many times what passing over a row in sequence does. */
const LINK_COST = 16
/** Of a chunk, that are not worth a block of their own. */
const FEW_ROWS = 256
/** Of the texts of a block: DuckDB has a copy of each and does not count it. */
const BLOCK_BYTES = 4 << 20
/** Rows of a block are a multiple of it: validity is a bit a row. */
const BYTE_ROWS = 8

interface MemtableScan {
  part: MemtablePart
  fields: FieldDef[]
  /** Inclusive. Blocks outside are skipped; rows of other blocks are not filtered by time. */
  lo: bigint
  hi: bigint
  /** Ascending; all series when absent. */
  series?: Int32Array
  /** The links lead through rows of this table only, so that they may be followed. */
  linked: boolean
  /** Added to each row's position to order it among all its duplicates. */
  order: bigint
}

export const SERIES_COLUMN = '_series'
export const TIME_COLUMN = '_time'
export const ORDER_COLUMN = '_order'
const FIXED_COLUMNS = 3

/** Columns: _series, _time, _order, then the fields under their SQL names. */
export function memtableSource(scan: MemtableScan): RowSource {
  const positions = scan.series === undefined ? undefined : memtablePositions(scan, scan.series)
  return {
    columns: [
      { name: SERIES_COLUMN, type: duckdb().create_logical_type(duckdb().Type.INTEGER) },
      { name: TIME_COLUMN, type: duckdb().create_logical_type(duckdb().Type.TIMESTAMP_NS) },
      { name: ORDER_COLUMN, type: duckdb().create_logical_type(duckdb().Type.BIGINT) },
      ...scan.fields.map((field) => ({ name: field.column, type: logicalType(field.type, field.scale) })),
    ],
    rows: positions?.length ?? scan.part.rows,
    unordered: (positions?.length ?? scan.part.rows) > BLOCK_ROWS,
    open: (projected) => {
      const views = new FieldViews(
        scan.part.chunks,
        projected.flatMap((column) => scan.fields[column - FIXED_COLUMNS]?.id ?? []),
      )
      const { part } = scan
      if (positions === undefined && !(views.isSparse && part.rows < part.chunks.length * FEW_ROWS)) return new BlockStream(scan, projected)
      return new PositionStream(scan, positions ?? sweep(scan, undefined), projected, views)
    },
  }
}

/** Copies blocks as they lie. */
class BlockStream implements RowStream {
  private readonly scan: MemtableScan
  private readonly projected: number[]
  private readonly texts: readonly FieldDef[]
  private readonly order = new BigInt64Array(BLOCK_ROWS)
  private readonly wide = new Gathered(BLOCK_ROWS, 8)
  private chunk = 0
  private row = 0

  constructor(scan: MemtableScan, projected: number[]) {
    this.scan = scan
    this.projected = projected
    this.texts = textsOf(scan, projected)
  }

  next(vectors: bindings.Vector[]): number {
    const { part, lo, hi } = this.scan
    while (this.chunk < part.chunks.length) {
      const from = this.row
      const whole = Math.min(BLOCK_ROWS - (from % BLOCK_ROWS), part.counts[this.chunk] - from)
      if (whole <= 0) {
        this.chunk++
        this.row = 0
        continue
      }
      const chunk = part.chunks[this.chunk]
      if (!chunk.blockIntersects(from, whole, lo, hi)) {
        this.row += whole
        continue
      }
      const n = this.fitting(chunk, from, whole)
      this.row += n
      for (let i = 0; i < vectors.length; i++) this.copy(vectors[i], this.projected[i], chunk, from, n)
      return n
    }
    return 0
  }

  private fitting(chunk: ChunkView, from: number, rows: number): number {
    const lengths = this.texts.flatMap(({ id }) => chunk.columns.get(id)?.i32 ?? [])
    return fittingRows(rows, lengths.length > 0, (i) => lengths.reduce((bytes, text) => bytes + text[(from + i) * 2 + 1], 0))
  }

  private copy(vector: bindings.Vector, column: number, chunk: ChunkView, from: number, n: number): void {
    const { def } = chunk
    if (column === 0) copyValues(vector, def.buffer, def.seriesOffset + from * 4, n * 4)
    else if (column === 1) copyValues(vector, def.buffer, def.timeOffset + from * 8, n * 8)
    else if (column === 2) {
      const base = this.scan.order + BigInt((this.chunk << ROW_BITS) | from)
      for (let i = 0; i < n; i++) this.order[i] = base + BigInt(i)
      copyValues(vector, this.order.buffer, 0, n * 8)
    } else this.copyField(vector, this.scan.fields[column - FIXED_COLUMNS], chunk, from, n)
  }

  private copyField(vector: bindings.Vector, field: FieldDef | undefined, chunk: ChunkView, from: number, n: number): void {
    if (field === undefined) return // the row number that count(*) asks for
    const view = chunk.columns.get(field.id)
    if (view === undefined) {
      allNull(vector)
      return
    }
    const hasNulls = chunk.hasNulls(view)
    if (field.type === 'string' || field.type === 'histogram') {
      const { heap } = this.scan.part.memtable
      const { i32 } = view
      writeTexts(vector, n, hasNulls, view.validity.subarray(from >> 3), (i) => heapBytes(heap, i32[(from + i) * 2], i32[(from + i) * 2 + 1]))
      return
    }
    if (view.ints === undefined) copyValues(vector, chunk.def.buffer, view.offset + from * view.width, n * view.width)
    else {
      const { wide } = this
      for (let i = 0; i < n; i++) putNumber(view, from + i, wide, i)
      copyValues(vector, wide.buffer, 0, n * 8)
    }
    if (hasNulls) copyValidity(vector, chunk.def.buffer, view.validityOffset + (from >> 3), n)
  }
}

/** Collects chosen rows block by block. */
class PositionStream implements RowStream {
  private readonly scan: MemtableScan
  private readonly positions: Int32Array
  private readonly projected: number[]
  private readonly columns = new Map<number, GatheredColumn>()
  private readonly views: FieldViews
  /** By column, where chunks have few of the fields; empty where they do not. */
  private readonly targets = new Map<number, ScatterTarget>()
  private readonly scatter: Scatter | undefined
  private readonly texts: readonly FieldDef[]
  private readonly out = new Gathered()
  private at = 0

  constructor(scan: MemtableScan, positions: Int32Array, projected: number[], views: FieldViews) {
    this.scan = scan
    this.positions = positions
    this.projected = projected
    this.texts = textsOf(scan, projected)
    this.views = views
    if (!views.isSparse) return
    for (const column of projected) {
      const field = scan.fields[column - FIXED_COLUMNS]
      if (field === undefined) continue
      const width = valueBytes(field.type)
      this.targets.set(column, { field: field.id, width, power: undefined, out: new Gathered(BLOCK_ROWS, width) })
    }
    this.scatter = new Scatter(views, positions, undefined, [...this.targets.values()])
  }

  next(vectors: bindings.Vector[]): number {
    const from = this.at
    const n = this.fitting(from, Math.min(BLOCK_ROWS, this.positions.length - from))
    this.scatter?.collect(from, n)
    for (let i = 0; n > 0 && i < vectors.length; i++) this.copy(vectors[i], this.projected[i], from, n)
    this.at += n
    return n
  }

  private fitting(from: number, rows: number): number {
    return fittingRows(rows, this.texts.length > 0, (i) => {
      const position = this.positions[from + i]
      let bytes = 0
      for (const { view } of this.views.within[position >>> ROW_BITS]) if (isText(view)) bytes += view.i32[(position & OFFSET) * 2 + 1]
      return bytes
    })
  }

  private copy(vector: bindings.Vector, column: number, from: number, n: number): void {
    const { chunks } = this.scan.part
    const { positions, out } = this
    if (column < FIXED_COLUMNS) {
      if (column === 0) for (let i = 0; i < n; i++) out.i32[i] = chunks[positions[from + i] >>> ROW_BITS].series[positions[from + i] & OFFSET]
      else if (column === 1) gatherTimes(chunks, positions, from, n, out.i32)
      else {
        const order = new BigInt64Array(out.buffer, 0, n)
        for (let i = 0; i < n; i++) order[i] = this.scan.order + BigInt(positions[from + i])
      }
      copyValues(vector, out.buffer, 0, n * (column === 0 ? 4 : 8))
      return
    }
    const field = this.scan.fields[column - FIXED_COLUMNS]
    if (field === undefined) return
    const target = this.targets.get(column)
    if (target !== undefined) return writeValues(vector, field.type, target.out, 0, n, target.width, this.scan.part.memtable.heap)
    let source = this.columns.get(column)
    if (source === undefined) this.columns.set(column, (source = new GatheredColumn(this.views, field.id)))
    writeField(vector, field, source, this.scan.part.memtable.heap, positions, from, n, out)
  }
}

function textsOf({ fields }: MemtableScan, projected: readonly number[]): FieldDef[] {
  return projected.flatMap((column) => fields[column - FIXED_COLUMNS] ?? []).filter(isText)
}

const isText = ({ type }: { type: FieldDef['type'] }): boolean => type === 'string' || type === 'histogram'

/** How many of the rows have texts that fit into a block; a few at least. @param bytesOf the texts of a row. */
function fittingRows(rows: number, hasTexts: boolean, bytesOf: (row: number) => number): number {
  if (!hasTexts) return rows
  let bytes = 0
  for (let row = 0; row < rows; row++) {
    bytes += bytesOf(row)
    if (bytes > BLOCK_BYTES && row >= BYTE_ROWS) return row - (row % BYTE_ROWS)
  }
  return rows
}

export function gatherTimes(chunks: readonly ChunkView[], positions: Int32Array, from: number, n: number, out: Int32Array): void {
  for (let i = 0; i < n; i++) {
    const position = positions[from + i]
    const { time } = chunks[position >>> ROW_BITS]
    const at = (position & OFFSET) * 2
    out[i * 2] = time[at]
    out[i * 2 + 1] = time[at + 1]
  }
}

function writeField(
  vector: bindings.Vector,
  field: { type: FieldDef['type'] },
  source: GatheredColumn,
  heap: readonly Uint8Array[],
  positions: Int32Array,
  from: number,
  n: number,
  out: Gathered,
): void {
  const width = valueBytes(field.type)
  source.gather(positions, from, n, width, out)
  writeValues(vector, field.type, out, 0, n, width, heap)
}

/** What decides which rows are collected. */
type PositionScope = Pick<MemtableScan, 'part' | 'lo' | 'hi' | 'linked'>

/** Positions of the rows of these series, or of all, in no particular order; some may lie outside the range. */
export function memtablePositions(scan: PositionScope, series: Int32Array | undefined): Int32Array {
  const { part } = scan
  if (series !== undefined && scan.linked && series.length * LINK_COST < part.rows) {
    const linked = followLinks(scan, series, (Math.floor(part.rows / LINK_COST) + series.length) * 4)
    if (linked !== undefined) return linked
  }
  return sweep(scan, series)
}

/**
 * Follows the links of each series, backwards; only where they lead through rows of this table.
 * @returns undefined when that would be more than so many steps, or they lead to what this thread does not know yet.
 */
export function followLinks(scan: Omit<PositionScope, 'linked'>, series: Int32Array, maxSteps: number): Int32Array | undefined {
  const { part, lo, hi } = scan
  const { chunks, counts } = part
  const { heads } = part.memtable
  // The links lead to ever older times, but for late rows. Rows that came after the snapshot may be later still: none of theirs is wanted.
  const end = later(lo - part.lateness, INT64_MIN)
  // Halves of times: a BigInt for each row costs as much as the step to it.
  const [loLow, loHigh, hiLow, hiHigh, endLow, endHigh] = [lo, hi, end].flatMap((time) => [lowHalf(time), highHalf(time)])
  let out = new Int32Array(256)
  let n = 0
  let steps = 0
  for (const s of series) {
    let position = s < heads.length ? ~heads[s] : NO_ROW
    while (position !== NO_ROW) {
      if (++steps > maxSteps) return undefined
      const chunk = chunks[position >>> ROW_BITS]
      if (chunk === undefined) return undefined
      const row = position & OFFSET
      if (row >= chunk.def.capacity) return undefined
      if (row < counts[position >>> ROW_BITS]) {
        if (chunk.series[row] !== s) return undefined
        const low = chunk.time[row * 2]
        const high = chunk.time[row * 2 + 1]
        if (!before(low, high, loLow, loHigh) && !before(hiLow, hiHigh, low, high)) {
          if (n === out.length) {
            const grown = new Int32Array(n * 2)
            grown.set(out)
            out = grown
          }
          out[n++] = position
        } else if (before(low, high, endLow, endHigh)) break
        // A row that came after the snapshot: its link is there once it is published.
      } else if (row >= chunk.published()) return undefined
      position = chunk.prev[row]
    }
  }
  return out.subarray(0, n)
}

/** The positions without those of masked rows. */
export function unmasked(chunks: readonly ChunkView[], positions: Int32Array, masks: readonly Mask[]): Int32Array {
  let left = positions
  for (const { series, lo, hi } of masks) {
    left = left.filter((position) => {
      const chunk = chunks[position >>> ROW_BITS]
      const row = position & OFFSET
      if (series !== undefined && !contains(series, chunk.series[row])) return true
      const time = timeOf(chunk.time, row)
      return time < lo || time > hi
    })
  }
  return left
}

function sweep({ part, lo, hi }: PositionScope, series: Int32Array | undefined): Int32Array {
  if (series?.length === 0) return new Int32Array(0)
  const wanted = series === undefined ? undefined : new Uint8Array(series[series.length - 1] + 1)
  if (series !== undefined && wanted !== undefined) for (const s of series) wanted[s] = 1
  const out = new Int32Array(part.rows)
  let n = 0
  for (let c = 0; c < part.chunks.length; c++) {
    const chunk = part.chunks[c]
    for (let from = 0, rows = part.counts[c]; from < rows; from += BLOCK_ROWS) {
      const to = Math.min(rows, from + BLOCK_ROWS)
      if (!chunk.blockIntersects(from, to - from, lo, hi)) continue
      for (let row = from; row < to; row++) if (wanted === undefined || wanted[chunk.series[row]] === 1) out[n++] = (c << ROW_BITS) | row
    }
  }
  return out.subarray(0, n)
}
