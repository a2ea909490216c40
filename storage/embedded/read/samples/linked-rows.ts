/** Rows of few series of a memtable, along their links: what that costs is their number, whatever else lies in the chunks. */
import type { ChunkView } from '../../memtable/chunk-view.ts'
import { followLinks } from '../../memtable/memtable-source.ts'
import { CHUNK_ROWS, ROW_BITS } from '../../threads/memtable-layout.ts'
import type { MemtablePart } from '../../threads/state.ts'
import { byTime, type ChunkFrame, framed } from './chunk-frame.ts'

const OFFSET = CHUNK_ROWS - 1
/** A step along a link misses the processor's cache, as ordering a row does: when less than one row in so many is wanted, following is cheaper for each question anew. */
const FEW_SHARE = 64

type Range = readonly [lo: bigint, hi: bigint]

/** The rows of one table in one memtable. */
export interface TablePart {
  part: MemtablePart
  /** Links lead through its rows only. */
  linked: boolean
}

interface Found {
  question: number
  part: MemtablePart
  range: Range
  series: Int32Array
  /** Rows of each chunk; undefined where they are not few. */
  rows: Int32Array[] | undefined
  frames: (ChunkFrame | undefined)[]
}

export class LinkedRows {
  /** What was asked for last: a question asks for chunk after chunk, and maybe for several fields. */
  private last: Found | undefined

  /** Rows of a chunk that are of these series (ascending) and in the range, maybe none; undefined where they are not few among all. */
  of({ part, linked }: TablePart, c: number, series: Int32Array, range: Range, question: number): ChunkFrame | undefined {
    if (!linked || series.length * FEW_SHARE > part.rows) return undefined
    let { last } = this
    if (last === undefined || last.question !== question || last.part !== part || !sameRange(last.range, range) || !same(last.series, series)) {
      const positions = followLinks({ part, lo: range[0], hi: range[1] }, series, Math.floor(part.rows / FEW_SHARE))
      this.last = last = { question, part, range, series, rows: positions === undefined ? undefined : byChunk(part.chunks, positions), frames: [] }
    }
    const rows = last.rows?.[c]
    return rows === undefined ? undefined : (last.frames[c] ??= framed(part.chunks[c], rows))
  }

  /** What is kept would keep a memtable that is gone. */
  forget(): void {
    this.last = undefined
  }
}

/** @param positions of one series after the other, each backwards. */
function byChunk(chunks: readonly ChunkView[], positions: Int32Array): Int32Array[] {
  const counts = new Int32Array(chunks.length)
  for (let i = 0; i < positions.length; i++) counts[positions[i] >>> ROW_BITS]++
  const out = chunks.map((_, c) => new Int32Array(counts[c]))
  // Backwards through all, each chunk is filled from its end: the series ascend, and rows as they came.
  for (let end = positions.length; end > 0; ) {
    const number = seriesAt(chunks, positions[end - 1])
    let from = end - 1
    while (from > 0 && seriesAt(chunks, positions[from - 1]) === number) from--
    for (let i = from; i < end; i++) {
      const c = positions[i] >>> ROW_BITS
      out[c][--counts[c]] = positions[i] & OFFSET
    }
    end = from
  }
  for (let c = 0; c < out.length; c++) byTime(chunks[c], out[c], 0, out[c].length)
  return out
}

const seriesAt = (chunks: readonly ChunkView[], position: number): number => chunks[position >>> ROW_BITS].series[position & OFFSET]

const sameRange = (a: Range, b: Range): boolean => a[0] === b[0] && a[1] === b[1]

function same(a: Int32Array, b: Int32Array): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
