/**
 * Divides a merge into slices by the order of its output, (measurement,) series, time: each is sorted by itself in little memory and read from a part of
 * every input, as the inputs have the same order. Where to cut is taken from the statistics of row groups; a cut in a worse place makes slices uneven,
 * and nothing else. Slices are disjoint and hold everything, so that duplicates meet in one slice.
 */
import { join } from 'node:path'
import { type Duck, sqlText } from '../duckdb/duckdb.ts'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import { MEASUREMENT_COLUMN } from '../segment/segment-source.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'

/** The first parts of a row's key: rows with these are behind it, whatever follows. */
export type Cut = readonly bigint[]

/** Rows from one cut up to the next; undefined = no bound. */
export interface MergeSlice {
  from: Cut | undefined
  to: Cut | undefined
}

const WHOLE: readonly MergeSlice[] = [{ from: undefined, to: undefined }]

interface RowGroup {
  key: Cut
  rows: number
}

/** @param sliceRows about what a slice holds. @returns in order, at least one. */
export async function mergeSlices(
  duck: Duck,
  dataDir: string,
  inputs: readonly SegmentMeta[],
  shared: boolean,
  sliceRows: number,
): Promise<readonly MergeSlice[]> {
  if (inputs.reduce((sum, { rows }) => sum + rows, 0) <= sliceRows) return WHOLE
  const files = inputs.map(({ file }) => sqlText(join(dataDir, file)))
  const wanted = keyColumns(shared).map(sqlText).join(', ')
  const columns = await duck.run(
    `SELECT file_name AS f, row_group_id AS g, path_in_schema AS c, row_group_num_rows::DOUBLE AS n, stats_min_value AS lo, stats_max_value AS hi, ` +
      `coalesce(stats_null_count, 0)::DOUBLE AS nulls FROM parquet_metadata([${files.join(', ')}]) WHERE path_in_schema IN (${wanted})`,
  )
  const groups = new Map<string, Map<string, Record<string, unknown>>>()
  for (const column of columns) {
    // Rows that carry no measurement belong where others of their series lie.
    if (Number(column.nulls) > 0) return WHOLE
    const id = `${column.g} ${column.f}`
    const known = groups.get(id)
    if (known === undefined) groups.set(id, new Map([[String(column.c), column]]))
    else known.set(String(column.c), column)
  }
  return slicesOf(
    [...groups.values()].map((group) => rowGroup(group, shared)),
    sliceRows,
  )
}

function keyColumns(shared: boolean): string[] {
  return shared ? [MEASUREMENT_COLUMN, SERIES_COLUMN, TIME_COLUMN] : [SERIES_COLUMN, TIME_COLUMN]
}

/** Where a row group begins, as far as its statistics tell: a column's least value is the first row's where those before it have one value only. */
function rowGroup(columns: ReadonlyMap<string, Record<string, unknown>>, shared: boolean): RowGroup {
  const key: bigint[] = []
  let rows = 0
  for (const name of keyColumns(shared)) {
    const column = columns.get(name)
    const [lo, hi] = [column?.lo, column?.hi].map((value) => (name === TIME_COLUMN ? nanoseconds(value) : integer(value)))
    rows = Number(column?.n ?? rows)
    if (lo === undefined) break
    key.push(lo)
    if (lo !== hi) break
  }
  return { key, rows }
}

function integer(value: unknown): bigint | undefined {
  return /^-?\d+$/.test(String(value)) ? BigInt(String(value)) : undefined
}

/** "2026-11-22 10:11:12.123456789", in UTC; undefined for what is not written so. */
function nanoseconds(value: unknown): bigint | undefined {
  const [, seconds, fraction = ''] = /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))?$/.exec(String(value)) ?? []
  if (seconds === undefined) return undefined
  return BigInt(Date.parse(`${seconds.replace(' ', 'T')}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
}

function slicesOf(groups: RowGroup[], sliceRows: number): MergeSlice[] {
  groups.sort((a, b) => compareCuts(a.key, b.key))
  const slices: MergeSlice[] = []
  let from: Cut | undefined
  let rows = 0
  for (const { key, rows: n } of groups) {
    if (rows + n > sliceRows && rows > 0 && key.length > 0 && (from === undefined || compareCuts(key, from) > 0)) {
      slices.push({ from, to: key })
      from = key
      rows = 0
    }
    rows += n
  }
  slices.push({ from, to: undefined })
  return slices
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
    out.push(`${columns[same]} = ${literal(columns[same], from[same])}`)
    same++
  }
  if (from !== undefined && from.length > same) out.push(`${columns[same]} >= ${literal(columns[same], from[same])}`, behind(columns, from, same, '>'))
  if (to !== undefined && to.length > same) out.push(`${columns[same]} <= ${literal(columns[same], to[same])}`, behind(columns, to, same, '<'))
  return out
}

/** A row is at or behind the cut, or before it. */
function behind(columns: readonly string[], cut: Cut, i: number, side: '>' | '<'): string {
  const value = literal(columns[i], cut[i])
  if (i === cut.length - 1) return `${columns[i]} ${side === '>' ? '>=' : '<'} ${value}`
  return `(${columns[i]} ${side} ${value} OR (${columns[i]} = ${value} AND ${behind(columns, cut, i + 1, side)}))`
}

function literal(column: string, value: bigint): string {
  return column === TIME_COLUMN ? `make_timestamp_ns(${value})` : String(value)
}
