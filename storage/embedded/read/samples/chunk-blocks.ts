/**
 * Memtable rows as blocks: a full chunk once and for all, the chunk that still grows anew for each state of it that is asked for. Rows of few series are found
 * by their links, and not kept.
 */

import { BLOCK_ROWS, type ChunkView, type ColumnView } from '../../memtable/chunk-view.ts'
import type { FieldDef } from '../../threads/definitions.ts'
import type { MemtablePart } from '../../threads/state.ts'
import { type BlockCache, OwnedBlocks } from './block-cache.ts'
import { type ChunkFrame, FrameSorter } from './chunk-frame.ts'
import { BlockRows, ChunkRows } from './chunk-rows.ts'
import { areNumbers, built, gatherNumbers } from './chunk-values.ts'
import { DecimalScale } from './decimal-scale.ts'
import { LinkedRows, type TablePart } from './linked-rows.ts'
import type { RowBlock } from './row-block.ts'
import { BLOCK_BYTES, blockBytes, EDGES_BYTES, type SampleBlock } from './sample-block.ts'

/** What a chunk's frame is kept as, beside its fields, and the bytes of a row and of a series of it. */
const FRAME = -1
const FRAME_ROW_BYTES = 12
const FRAME_SERIES_BYTES = 8 + EDGES_BYTES
/** The bytes of a row of a field that is kept, about. */
const KEPT_BYTES = 24

interface ChunkEntry {
  owned: OwnedBlocks
  /** Of the state of the chunk that was asked for last. */
  rows: number
  /** Kept as long as blocks that share it are, about. */
  frame: WeakRef<ChunkFrame> | undefined
  /** Fields whose values were gathered in that state, and for which question: asked for by another, they are worth keeping. */
  gathered: Map<number, number>
}

export class ChunkBlocks {
  private readonly cache: BlockCache
  private readonly owned = new WeakMap<ChunkView, ChunkEntry>()
  private readonly sorter = new FrameSorter()
  private readonly links = new LinkedRows()
  private readonly scale = new DecimalScale()

  constructor(cache: BlockCache) {
    this.cache = cache
  }

  /**
   * One field's rows of a chunk of a part; undefined when it has none of the range. Maybe only those of `series` (ascending).
   * @param passing others will take its place at once: it is not worth making small.
   */
  of(
    table: TablePart,
    c: number,
    field: FieldDef,
    [lo, hi]: readonly [bigint, bigint],
    series: Int32Array,
    question: number,
    passing = false,
  ): SampleBlock | undefined {
    const { part } = table
    const chunk = part.chunks[c]
    const rows = part.counts[c]
    const view = chunk.columns.get(field.id)
    if (rows === 0 || view === undefined || !intersects(chunk, rows, lo, hi)) return undefined
    const entry = this.entryOf(part, chunk, rows)
    const known = this.cache.get(entry.owned, field.id)
    if (known !== undefined) return known
    let frame = entry.frame?.deref()
    const few = frame === undefined ? this.links.of(table, c, series, [lo, hi], question) : undefined
    if (few !== undefined) {
      if (few.order.length === 0) return undefined
      const values = plainValues(chunk, view, few.order, field)
      return values === undefined ? built(part, chunk, view, few.order, field).build(false) : blockOf(few, values)
    }
    if (frame === undefined) entry.frame = new WeakRef((frame = this.sorter.frame(chunk, rows)))
    const values = plainValues(chunk, view, frame.order, field)
    if (values === undefined) {
      const builder = built(part, chunk, view, frame.order, field)
      const block = builder.build(true)
      this.cache.put(entry.owned, field.id, block, builder.bytes)
      return block
    }
    const gathered = blockOf(frame, values)
    const block = passing ? gathered : this.compact(chunk, rows, gathered)
    // Fields share what is not their own, and each counts it: they go one by one.
    this.cache.put(entry.owned, field.id, block, blockBytes(block))
    return block
  }

  /**
   * The rows of a chunk of a part; undefined when it has none of the range. Maybe only those of `series` (ascending).
   * @param sparse of the one field, rows without a value may be left out. @param question what the cache tells questions apart by.
   */
  rows(
    table: TablePart,
    c: number,
    fields: readonly FieldDef[],
    sparse: boolean,
    [lo, hi]: readonly [bigint, bigint],
    series: Int32Array,
    question: number,
  ): RowBlock | undefined {
    const { part } = table
    const chunk = part.chunks[c]
    const rows = part.counts[c]
    const views = fields.map(({ id }) => chunk.columns.get(id))
    if (rows === 0 || (sparse && views[0] === undefined) || !intersects(chunk, rows, lo, hi)) return undefined
    const entry = this.entryOf(part, chunk, rows)
    if (sparse && chunk.hasNulls(views[0] as ColumnView)) {
      const block = this.of(table, c, fields[0], [lo, hi], series, question)
      return block === undefined ? undefined : new BlockRows(block)
    }
    const frame = this.frameOf(entry, table, c, series, [lo, hi], question)
    if (frame.order.length === 0) return undefined
    // Of another state of the chunk as many rows may be kept as there are here.
    const isKept = (): boolean => frame.order.length === rows && entry.rows === rows
    return new ChunkRows(part, chunk, fields, frame, {
      get: (field) => (isKept() ? this.cache.get(entry.owned, field.id) : undefined),
      whole: (field) => (isKept() ? this.whole(entry, chunk, frame, field, question) : undefined),
    })
  }

  /** A field's values of all rows, kept from the second question on; undefined where they are not to be. */
  private whole(entry: ChunkEntry, chunk: ChunkView, frame: ChunkFrame, field: FieldDef, question: number): SampleBlock | undefined {
    const view = chunk.columns.get(field.id)
    if (view === undefined || !this.cache.admits(BLOCK_BYTES + frame.order.length * KEPT_BYTES, question)) return undefined
    const before = entry.gathered.get(field.id)
    entry.gathered.set(field.id, question)
    if (before === undefined || before === question) return undefined
    const values = plainValues(chunk, view, frame.order, field)
    if (values === undefined) return undefined
    const block = this.compact(chunk, entry.rows, blockOf(frame, values))
    this.cache.put(entry.owned, field.id, block, blockBytes(block), question)
    return block
  }

  /** A chunk that grows is gathered anew for each of its states: what is kept of it is not worth more work. */
  private compact(chunk: ChunkView, rows: number, block: SampleBlock): SampleBlock {
    return rows === chunk.def.capacity ? this.scale.narrowed(block) : block
  }

  private frameOf(entry: ChunkEntry, table: TablePart, c: number, series: Int32Array, range: readonly [bigint, bigint], question: number): ChunkFrame {
    const frames = entry.owned as OwnedBlocks<unknown> as OwnedBlocks<ChunkFrame>
    const known = this.cache.get(frames, FRAME) ?? entry.frame?.deref()
    if (known !== undefined) return known
    const chunk = table.part.chunks[c]
    const rows = table.part.counts[c]
    const few = this.links.of(table, c, series, range, question)
    if (few !== undefined) return few
    const frame = this.sorter.frame(chunk, rows)
    entry.frame = new WeakRef(frame)
    this.cache.put(frames, FRAME, frame, BLOCK_BYTES + rows * FRAME_ROW_BYTES + frame.series.length * FRAME_SERIES_BYTES)
    return frame
  }

  /** A job has ended. */
  jobEnded(): void {
    this.links.forget()
  }

  /** Lets the blocks of a chunk go that others have taken the place of. */
  drop(part: MemtablePart, c: number, field: FieldDef): void {
    const entry = this.owned.get(part.chunks[c])
    if (entry !== undefined) this.cache.remove(entry.owned, field.id)
  }

  private entryOf(part: MemtablePart, chunk: ChunkView, rows: number): ChunkEntry {
    let entry = this.owned.get(chunk)
    if (entry === undefined) {
      entry = { owned: new OwnedBlocks(memtableOwner(part.memtable.id)), rows, frame: undefined, gathered: new Map() }
      this.owned.set(chunk, entry)
    } else if (entry.rows !== rows) {
      for (const field of [...entry.owned.entries.keys()]) this.cache.remove(entry.owned, field)
      entry.rows = rows
      entry.frame = undefined
      entry.gathered.clear()
    }
    return entry
  }
}

/** What the cache knows a memtable's chunks by; segments are known by their ids. */
export const memtableOwner = (memtable: number): number => -1 - memtable

function intersects(chunk: ChunkView, rows: number, lo: bigint, hi: bigint): boolean {
  for (let from = 0; from < rows; from += BLOCK_ROWS) if (chunk.blockIntersects(from, Math.min(BLOCK_ROWS, rows - from), lo, hi)) return true
  return false
}

function blockOf({ series, starts, times, rests, duplicates, minTime, maxTime }: ChunkFrame, values: Float64Array): SampleBlock {
  return { series, starts, times, ...(rests === undefined ? {} : { rests }), values, ...(duplicates ? { duplicates: true as const } : {}), minTime, maxTime }
}

/** The values of a column that has one in every row, and nothing but numbers among them; undefined for others. */
function plainValues(chunk: ChunkView, view: ColumnView, order: Int32Array, field: FieldDef): Float64Array | undefined {
  if (chunk.hasNulls(view) || !areNumbers(field, chunk, view)) return undefined
  const out = new Float64Array(order.length)
  gatherNumbers(view, field, order, 0, order.length, out)
  return out
}
