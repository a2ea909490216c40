/**
 * Divides a merge into slices by the order of its output, (measurement,) series, time: each is sorted by itself in little memory and read from a part of
 * every input, as the inputs have the same order. Where to cut is taken from the statistics of row groups; a cut in a worse place makes slices uneven,
 * and nothing else. Slices are disjoint and hold everything, so that duplicates meet in one slice.
 */
import { join } from 'node:path'
import { comparedTime } from '../duckdb/compared-time.ts'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import type { Footer } from '../parquet/footer.ts'
import { footerOf } from '../parquet/parquet-file.ts'
import { hasLength } from '../segment/row-group-bytes.ts'
import { MEASUREMENT_COLUMN } from '../segment/segment-source.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'

/** The first parts of a row's key: rows with these are behind it, whatever follows. */
export type Cut = readonly bigint[]

/** Rows from one cut up to the next; undefined = no bound. */
export interface MergeSlice {
  from: Cut | undefined
  to: Cut | undefined
}

const WHOLE: MergePlan = { slices: [{ from: undefined, to: undefined }], rowBytes: 0, keyBytes: 0, sliceBytes: 0 }

interface RowGroup {
  key: Cut
  rows: number
  bytes: number
}

/** About what a slice holds: rows, and bytes of their columns of any length, before compression. */
export interface SliceSize {
  rows: number
  bytes: number
}

/** A merge's slices, and bytes of its inputs in columns of any length, before compression. */
interface MergePlan {
  slices: readonly MergeSlice[]
  /** A row's, on average. */
  rowBytes: number
  /** More than the rows of one key take: one row group of each input. */
  keyBytes: number
  /** Of the texts of the largest slice; 0 = none are known. */
  sliceBytes: number
}

/**
 * @param time of the rows that are merged, inclusive.
 * @param apart bytes of columns of any length that lie beside an input, encrypted.
 * @returns slices in order, at least one.
 */
export function mergeSlices(
  dataDir: string,
  inputs: readonly SegmentMeta[],
  shared: boolean,
  size: SliceSize,
  time?: readonly [bigint, bigint],
  apart: (input: SegmentMeta) => number = () => 0,
): MergePlan {
  const anyTexts = inputs.some(({ columns }) => columns.some(({ type }) => hasLength(type)))
  if (!anyTexts && inputs.reduce((sum, { rows }) => sum + rows, 0) <= size.rows) return WHOLE
  const groups: RowGroup[] = []
  let keyBytes = 0
  for (const input of inputs) {
    const footer = footerOf(join(dataDir, input.file), input.bytes)
    const columns = keyColumns(shared).map((name) => footer?.column(name) ?? -1)
    if (footer === undefined || columns.includes(-1)) return WHOLE
    const texts = input.columns.filter(({ type }) => hasLength(type)).map(({ name }) => footer.column(name))
    const apartBytes = anyTexts ? apart(input) / Math.max(1, input.rows) : 0
    let largest = 0
    for (let group = 0; group < footer.groups; group++) {
      if (time !== undefined && liesOutside(footer, group, time)) continue
      // Rows that carry no measurement belong where others of their series lie.
      if (columns.some((column) => footer.nulls[group * footer.columns.length + column] > 0)) return WHOLE
      const stored = texts.reduce((sum, column) => sum + (column < 0 ? 0 : footer.unpacked[group * footer.columns.length + column]), 0)
      const bytes = stored + apartBytes * footer.rows[group]
      groups.push({ key: keyOf(footer, group, columns), rows: footer.rows[group], bytes })
      if (bytes > largest) largest = bytes
    }
    keyBytes += largest
  }
  const [rows, bytes] = groups.reduce((sum, group) => [sum[0] + group.rows, sum[1] + group.bytes], [0, 0])
  return { ...slicesOf(groups, size), rowBytes: bytes / Math.max(1, rows), keyBytes }
}

function liesOutside(footer: Footer, group: number, [lo, hi]: readonly [bigint, bigint]): boolean {
  const bounds = footer.integers(group, footer.column(TIME_COLUMN))
  return bounds !== undefined && (bounds.max < lo || bounds.min > hi)
}

export function keyColumns(shared: boolean): string[] {
  return shared ? [MEASUREMENT_COLUMN, SERIES_COLUMN, TIME_COLUMN] : [SERIES_COLUMN, TIME_COLUMN]
}

/** Where a row group begins, as far as its statistics tell: a column's least value is the first row's where those before it have one value only. */
function keyOf(footer: Footer, group: number, columns: readonly number[]): Cut {
  const key: bigint[] = []
  for (const column of columns) {
    const bounds = footer.numbers(group, column) ?? footer.integers(group, column)
    if (bounds === undefined) break
    key.push(BigInt(bounds.min))
    if (bounds.min !== bounds.max) break
  }
  return key
}

function slicesOf(groups: RowGroup[], size: SliceSize): Pick<MergePlan, 'slices' | 'sliceBytes'> {
  groups.sort((a, b) => compareCuts(a.key, b.key))
  const slices: MergeSlice[] = []
  let from: Cut | undefined
  let [rows, bytes, sliceBytes] = [0, 0, 0]
  for (const { key, rows: n, bytes: b } of groups) {
    if ((rows + n > size.rows || bytes + b > size.bytes) && rows > 0 && key.length > 0 && (from === undefined || compareCuts(key, from) > 0)) {
      slices.push({ from, to: key })
      from = key
      ;[rows, bytes] = [0, 0]
    }
    rows += n
    bytes += b
    if (bytes > sliceBytes) sliceBytes = bytes
  }
  slices.push({ from, to: undefined })
  return { slices, sliceBytes }
}

/** A cut stands before all longer ones that begin with it. */
function compareCuts(a: Cut, b: Cut): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1
  return a.length - b.length
}

/** Holds for the rows of a slice; the plain bounds among them are those that row groups are left out by. */
export function sliceConditions({ from, to }: MergeSlice, shared: boolean): string[] {
  const columns = keyColumns(shared)
  const out: string[] = []
  let same = 0
  while (from !== undefined && to !== undefined && same < from.length && same < to.length && from[same] === to[same]) {
    out.push(compared(columns[same], '=', from[same]))
    same++
  }
  if (from !== undefined && from.length > same) out.push(compared(columns[same], '>=', from[same]), behind(columns, from, same, '>'))
  if (to !== undefined && to.length > same) out.push(compared(columns[same], '<=', to[same]), behind(columns, to, same, '<'))
  return out
}

/** A row is at or behind the cut, or before it. */
function behind(columns: readonly string[], cut: Cut, i: number, side: '>' | '<'): string {
  if (i === cut.length - 1) return compared(columns[i], side === '>' ? '>=' : '<', cut[i])
  return `(${compared(columns[i], side, cut[i])} OR (${compared(columns[i], '=', cut[i])} AND ${behind(columns, cut, i + 1, side)}))`
}

function compared(column: string, operator: '=' | '<' | '<=' | '>' | '>=', value: bigint): string {
  return column === TIME_COLUMN ? comparedTime(column, operator, value) : `${column} ${operator} ${value}`
}
