/**
 * Row groups are bounded by what their rows take decoded, too: whoever writes or reads one has it in memory, several times while it is written. Texts of a
 * kilobyte would make 32 MiB of a row group of the usual number of rows, and DuckDB fail at its limit.
 */
import type { FieldType } from 'svcdb'
import { type ChunkView, valueBytes } from '../memtable/chunk-view.ts'
import { FieldViews } from '../memtable/field-views.ts'
import type { OrderedRows } from '../memtable/row-order.ts'
import { CHUNK_ROWS, ROW_BITS } from '../threads/memtable-layout.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import type { SegmentColumn } from '../threads/segment-entry.ts'

const OFFSET = CHUNK_ROWS - 1
/** Of the memory that a statement may use: DuckDB has the rows, the pages that they are encoded to, and copies of these as they grow. */
const SHARE = 1 / 8
/** DuckDB takes rows by so many. */
const LEAST_ROWS = 2048
/** What a row takes beside its values. */
const KEY_BYTES = 16

/** Bytes that the rows of a row group may take decoded. */
export function rowGroupBytes({ memoryLimitBytes }: Pick<WorkerConfig, 'memoryLimitBytes'>): number {
  return memoryLimitBytes * SHARE
}

export const hasLength = (type: FieldType): boolean => type === 'string' || type === 'histogram'

/** What a row takes without its texts. */
export function fixedBytes(columns: readonly Pick<SegmentColumn, 'type'>[]): number {
  return columns.reduce((sum, { type }) => sum + (hasLength(type) ? 2 : 1) * valueBytes(type), KEY_BYTES)
}

/** Rows of a row group whose rows have about so many bytes. */
export function rowGroupRows(config: Pick<WorkerConfig, 'memoryLimitBytes' | 'rowGroupRows'>, rowBytes: number): number {
  return Math.min(config.rowGroupRows, Math.max(LEAST_ROWS, Math.floor(rowGroupBytes(config) / rowBytes)))
}

interface OutputRows {
  chunks: readonly ChunkView[]
  ordered: OrderedRows
  /** As groupDuplicates makes them; undefined when no row duplicates another. */
  groups: Int32Array | undefined
  rows: number
}

/** How the rows of a flush are divided. */
interface Parts {
  /** Where each ends. */
  ends: number[]
  /** Of the largest row that takes more than a row group may, and is a part by itself; 0 = there is none. */
  rowBytes: number
}

/** Divides the rows of a flush: each row group of a part has room, but for a row that has none by itself. */
export function partsOf(output: OutputRows, columns: readonly SegmentColumn[], config: Pick<WorkerConfig, 'memoryLimitBytes' | 'rowGroupRows'>): Parts {
  const { rows } = output
  const most = rowGroupBytes(config)
  const fixed = fixedBytes(columns)
  const texts = textBytes(output, columns)
  if (fixed * Math.min(rows, config.rowGroupRows) + (texts?.total ?? 0) <= most) return { ends: [rows], rowBytes: 0 }
  const ends: number[] = []
  let largest = 0
  let [inGroup, bytes] = [0, 0]
  for (let row = 0; row < rows; row++) {
    const size = fixed + (texts === undefined ? 0 : texts.of[row])
    // A row group ends by itself, or the part does.
    if (inGroup === config.rowGroupRows) [inGroup, bytes] = [0, 0]
    else if (inGroup > 0 && bytes + size > most) {
      ends.push(row)
      ;[inGroup, bytes] = [0, 0]
    }
    if (size > largest) largest = size
    inGroup++
    bytes += size
  }
  ends.push(rows)
  return { ends, rowBytes: largest > most ? largest : 0 }
}

/** Bytes of each row's texts: of all that were written for it, of which one each is kept. Undefined when there are none. */
function textBytes({ chunks, ordered, groups, rows }: OutputRows, columns: readonly SegmentColumn[]): { of: Float64Array; total: number } | undefined {
  const texts = columns.filter(({ type }) => hasLength(type))
  if (texts.length === 0) return undefined
  const of = new Float64Array(rows)
  const { within } = new FieldViews(
    chunks,
    texts.map(({ field }) => field),
  )
  let total = 0
  for (let row = 0; row < rows; row++) {
    const end = groups === undefined ? row + 1 : groups[row + 1]
    for (let i = groups === undefined ? row : groups[row]; i < end; i++) {
      const position = ordered.rows[i]
      const at = position & OFFSET
      for (const { view, mayBeNull } of within[position >>> ROW_BITS]) {
        if (mayBeNull && (view.validity[at >> 3] & (1 << (at & 7))) === 0) continue
        const length = view.i32[at * 2 + 1]
        of[row] += length
        total += length
      }
    }
  }
  return { of, total }
}
