/** Memtable rows as blocks: a full chunk once and for all, the chunk that still grows anew for each state of it that is asked for. */

import { BLOCK_ROWS, type ChunkView, type ColumnView, timeBefore } from '../../memtable/chunk-view.ts'
import { heapBytes } from '../../memtable/row-gather.ts'
import type { FieldDef } from '../../threads/definitions.ts'
import type { MemtablePart } from '../../threads/state.ts'
import { contains } from '../masks.ts'
import { type BlockCache, OwnedBlocks } from './block-cache.ts'
import { type SampleBlock, SampleBlockBuilder } from './sample-block.ts'

/** With fewer wanted series than rows by this factor, picking their rows out of the growing chunk is cheaper than ordering all of them. */
const FEW_SHARE = 64

interface ChunkEntry {
  owned: OwnedBlocks
  /** Rows when the chunk's block of a field was made; it is void for any other number. */
  rows: Map<number, number>
  /** Rows when few series were picked out last: asked for again in that state, all of the chunk is worth ordering. */
  picked: number
}

export class ChunkBlocks {
  private readonly cache: BlockCache
  private readonly owned = new WeakMap<ChunkView, ChunkEntry>()

  constructor(cache: BlockCache) {
    this.cache = cache
  }

  /** One field's rows of a chunk of a part; undefined when it has none of the range. Of the growing chunk maybe only those of `series` (ascending). */
  of(part: MemtablePart, c: number, field: FieldDef, [lo, hi]: readonly [bigint, bigint], series: Int32Array): SampleBlock | undefined {
    const chunk = part.chunks[c]
    const rows = part.counts[c]
    const view = chunk.columns.get(field.id)
    if (rows === 0 || view === undefined || !intersects(chunk, rows, lo, hi)) return undefined
    let entry = this.owned.get(chunk)
    if (entry === undefined) this.owned.set(chunk, (entry = { owned: new OwnedBlocks(memtableOwner(part.memtable.id)), rows: new Map(), picked: 0 }))
    if (entry.rows.get(field.id) === rows) {
      const known = this.cache.get(entry.owned, field.id)
      if (known !== undefined) return known
    }
    if (rows < chunk.def.capacity && series.length * FEW_SHARE < rows && entry.picked !== rows) {
      entry.picked = rows
      const positions = sortedPositions(chunk, pick(chunk, rows, series))
      return built(part, chunk, view, positions, field).build(false)
    }
    const builder = built(part, chunk, view, sortedPositions(chunk, allPositions(chunk, rows)), field)
    const block = builder.build(true)
    entry.rows.set(field.id, rows)
    this.cache.put(entry.owned, field.id, block, builder.bytes)
    return block
  }
}

/** What the cache knows a memtable's chunks by; segments are known by their ids. */
export const memtableOwner = (memtable: number): number => -1 - memtable

function intersects(chunk: ChunkView, rows: number, lo: bigint, hi: bigint): boolean {
  for (let from = 0; from < rows; from += BLOCK_ROWS) if (chunk.blockIntersects(from, Math.min(BLOCK_ROWS, rows - from), lo, hi)) return true
  return false
}

/** Rows of the series wanted, in order of arrival. */
function pick(chunk: ChunkView, rows: number, wanted: Int32Array): Int32Array {
  const found: number[] = []
  const { series } = chunk
  const first = wanted[0]
  const last = wanted[wanted.length - 1]
  if (last - first + 1 === wanted.length) {
    for (let row = 0; row < rows; row++) if (series[row] >= first && series[row] <= last) found.push(row)
  } else for (let row = 0; row < rows; row++) if (series[row] >= first && series[row] <= last && contains(wanted, series[row])) found.push(row)
  return Int32Array.from(found)
}

function allPositions(chunk: ChunkView, rows: number): Int32Array {
  // A counting sort by series keeps the order of arrival.
  let max = 0
  let min = 0x7fffffff
  const { series } = chunk
  for (let row = 0; row < rows; row++) {
    if (series[row] > max) max = series[row]
    if (series[row] < min) min = series[row]
  }
  if (max - min > rows * 16) return Int32Array.from({ length: rows }, (_, row) => row)
  const next = new Int32Array(max - min + 2)
  for (let row = 0; row < rows; row++) next[series[row] - min + 1]++
  for (let i = 1; i < next.length; i++) next[i] += next[i - 1]
  const positions = new Int32Array(rows)
  for (let row = 0; row < rows; row++) positions[next[series[row] - min]++] = row
  return positions
}

/** By series, then time, then arrival. */
function sortedPositions(chunk: ChunkView, positions: Int32Array): Int32Array {
  const { series, time } = chunk
  let ordered = true
  for (let i = 1; i < positions.length && ordered; i++) {
    const a = positions[i - 1]
    const b = positions[i]
    ordered = series[a] < series[b] || (series[a] === series[b] && !timeBefore(time, b, time, a))
  }
  if (ordered) return positions
  return positions.sort((a, b) => series[a] - series[b] || (timeBefore(time, a, time, b) ? -1 : timeBefore(time, b, time, a) ? 1 : a - b))
}

function built(part: MemtablePart, chunk: ChunkView, view: ColumnView, positions: Int32Array, field: FieldDef): SampleBlockBuilder {
  const out = new SampleBlockBuilder(positions.length)
  const { series, time } = chunk
  const { i32, u8, validity } = view
  const nulls = chunk.hasNulls(view)
  const scale = 10 ** field.scale
  for (let i = 0; i < positions.length; i++) {
    const row = positions[i]
    const s = series[row]
    const low = time[row * 2]
    const high = time[row * 2 + 1]
    if (nulls && (validity[row >> 3] & (1 << (row & 7))) === 0) {
      out.skip()
      continue
    }
    switch (field.type) {
      case 'float64':
        out.addFloat(s, low, high, i32[row * 2], i32[row * 2 + 1])
        break
      case 'int64':
        out.addNumber(s, low, high, i32[row * 2 + 1] * 4294967296 + (i32[row * 2] >>> 0))
        break
      case 'uint64':
        out.addNumber(s, low, high, (i32[row * 2 + 1] >>> 0) * 4294967296 + (i32[row * 2] >>> 0))
        break
      case 'bool':
        out.addNumber(s, low, high, u8[row])
        break
      case 'decimal':
        out.addNumber(s, low, high, decimalOf(i32, row * 4) / scale)
        break
      case 'histogram':
        out.addBlob(s, low, high, heapBytes(part.memtable.heap, i32[row * 2], i32[row * 2 + 1]).slice())
        break
    }
  }
  return out
}

/** 128-bit two's complement, low half first. */
function decimalOf(i32: Int32Array, at: number): number {
  const word = (n: number): bigint => BigInt(i32[at + n] >>> 0)
  return Number((BigInt(i32[at + 3]) << 96n) | (word(2) << 64n) | (word(1) << 32n) | word(0))
}
