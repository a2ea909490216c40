/**
 * Rows of a batch in parts that lie next to each other, each with those of the columns that have a value there: a chunk has room for a value of each of its rows
 * in each of its columns, so that rows which set few of very many fields would take many times what they hold.
 *
 * Invariant: rows stay in order of arrival, by which the value that counts is found among rows of one series and time.
 */
import { bytesPerValue, type Column } from 'svcdb/lib/columns'
import { ROW_BYTES, SPARSE } from './chunk.ts'
import type { AppendedRows } from './memtable.ts'

export interface RowPart {
  from: number
  rows: number
  /** Places of the columns that have a value in these rows. */
  columns: number[]
}

/** Rows that are not taken apart. */
const BLOCK = 16
/** A batch that has more blocks has larger ones: a memtable has few addresses for chunks. */
const MOST_BLOCKS = 4096
/** What a column of a chunk takes beside its values: what each thread has to find it. */
const COLUMN_BYTES = 512

/** At least one. */
export function rowParts(batch: AppendedRows): RowPart[] {
  const { rows, columns } = batch
  const used: number[] = []
  let rowBytes = ROW_BYTES
  let set = rows * ROW_BYTES
  for (let i = 0; i < columns.length; i++) {
    const count = valuesIn(columns[i], 0, rows)
    if (count === 0) continue
    const bytes = bytesPerValue(columns[i].type)
    used.push(i)
    rowBytes += bytes
    set += count * bytes
  }
  if (rows <= BLOCK || rows * rowBytes <= SPARSE * set) return [{ from: 0, rows, columns: used }]
  return apart(batch, used)
}

/** Bytes of the rows without their texts, numbers counted at 8. */
export function bytesOfParts({ columns }: AppendedRows, parts: readonly RowPart[]): number {
  return parts.reduce((sum, part) => sum + part.rows * part.columns.reduce((bytes, i) => bytes + bytesPerValue(columns[i].type), ROW_BYTES), 0)
}

/** Block by block, where a block goes with the rows before it if together they take no more than each for itself. */
function apart({ rows, columns }: AppendedRows, used: readonly number[]): RowPart[] {
  const size = Math.max(BLOCK, Math.ceil(rows / MOST_BLOCKS))
  const parts: RowPart[] = []
  const inPart = new Uint8Array(columns.length)
  let part: RowPart = { from: 0, rows: 0, columns: [] }
  let partBytes = ROW_BYTES
  for (let from = 0; from < rows; from += size) {
    const n = Math.min(size, rows - from)
    const own = used.filter((i) => valuesIn(columns[i], from, n) > 0)
    const fresh = own.filter((i) => inPart[i] === 0)
    const ownBytes = ROW_BYTES + widthOf(columns, own)
    const joined = partBytes + widthOf(columns, fresh)
    const more = part.rows * (joined - partBytes) + n * (joined - ownBytes)
    if (part.rows > 0 && more > (own.length - fresh.length) * COLUMN_BYTES) {
      parts.push(part)
      inPart.fill(0)
      part = { from, rows: n, columns: own }
      partBytes = ownBytes
    } else {
      part.rows += n
      part.columns.push(...fresh)
      partBytes = joined
    }
    for (const i of own) inPart[i] = 1
  }
  parts.push(part)
  return parts
}

const widthOf = (columns: readonly Column[], places: readonly number[]): number => places.reduce((sum, i) => sum + bytesPerValue(columns[i].type), 0)

/** How many of n rows have a value. */
function valuesIn({ next, validity }: Column, from: number, n: number): number {
  const end = Math.min(next, from + n)
  if (validity === undefined) return Math.max(0, end - from)
  let count = 0
  for (let row = from; row < end; row++) count += validity[row]
  return count
}
