/**
 * A statement whose answer lies at an end of the time (sql/time-order.ts) is run over one slice of the time after the other, beginning there: most often the first has all of
 * the answer, whatever history lies behind it. A slice has about eight times the rows of the one before it, so that an answer that needs them all takes little longer than at once.
 */
import type { SqlChunk, SqlCursor, SqlVector } from 'svcdb'
import { floorDiv } from '../../common/time.ts'
import { vectorSlice } from '../duckdb/vector-slice.ts'
import type { Bucket, OrderedRows, TimeOrder, ValuesAtEnds } from '../sql/index.ts'
import type { Interval, Source } from './sources.ts'

/** Rows of the first slice: a millisecond's work. */
const FIRST_ROWS = 8192
/** Of each column, for a LIMIT up to 5,000 (DuckDB 1.x, `TopNHeap`): 256 MiB were too little for 600 columns. Three times that. */
const KEPT_BYTES = 1_400_000
const LEAST_SORTED = 5001
/** Of more columns fewer rows are as much work, and as much memory. */
const FEW_COLUMNS = 64
const GROWTH = 8
/** For each row of an answer, of the first slice. */
const ROWS_EACH = 8
/** With no more than so many of the first slice, they are all read at once. */
const FEW = 4
const NS_PER_MS = 1_000_000n

interface SliceOptions {
  /** Of the answer. */
  rows: number
  /** Of the sources' rows, those that are of wanted series. */
  share: number
  newestFirst: boolean
  /** A slice begins with one of these. */
  bucket?: Bucket | undefined
  firstRows?: number | undefined
}

/** Of a source, milliseconds along the axis. */
interface Part {
  from: number
  to: number
  rows: number
}

/** @param columns of the answer. */
export const firstRowsOf = (columns: number): number => Math.ceil(FIRST_ROWS / Math.max(1, columns / FEW_COLUMNS))

/** How many rows of so many columns DuckDB must be asked for to sort all that it reads; 0 where it need not. For the first rows of an order it keeps ten thousand, and as many again, of whatever width. */
export const sortedRows = (columns: number, memoryLimit: number): number => (KEPT_BYTES * columns > memoryLimit ? LEAST_SORTED : 0)

/** Adjoining ranges that are the whole of `time`, in the order in which they are to be read; one where they would be worth nothing. Their bounds are whole milliseconds. */
export function timeSlices(sources: readonly Source[], time: Interval, { rows, share, newestFirst, bucket, firstRows = FIRST_ROWS }: SliceOptions): Interval[] {
  const parts = partsOf(sources, time, newestFirst)
  const rowsFrom = (start: number): number => parts.reduce((sum, { from, to, rows }) => sum + (rows * Math.max(0, to - Math.max(from, start))) / (to - from), 0)
  const least = parts.reduce((low, { from }) => Math.min(low, from), Number.POSITIVE_INFINITY)
  const most = parts.reduce((high, { to }) => Math.max(high, to), Number.NEGATIVE_INFINITY)
  const first = Math.max(firstRows, rows * ROWS_EACH) / share
  const total = rowsFrom(least)
  const slices: Interval[] = []
  let [low, high] = time
  if (total > first * FEW) {
    for (let wanted = first; wanted < total; wanted *= GROWTH) {
      const start = latestWith(wanted, least, most, rowsFrom)
      if (start <= least) break
      // Along the axis an instant is the millisecond that begins with it, against it the one that ends with it.
      const cut = BigInt(newestFirst ? beginOf(start, bucket) : -beginOf(start - 1, bucket && { step: bucket.step, anchor: -bucket.anchor })) * NS_PER_MS
      if (cut <= low || cut > high) continue
      slices.push(newestFirst ? [cut, high] : [low, cut - 1n])
      if (newestFirst) high = cut - 1n
      else low = cut
    }
  }
  slices.push([low, high])
  return slices
}

/** The last begin of a bucket that is no later. */
function beginOf(at: number, bucket: Bucket | undefined): number {
  return bucket === undefined ? at : Math.floor((at - bucket.anchor) / bucket.step) * bucket.step + bucket.anchor
}

/** @param along false: the axis goes backwards. */
function partsOf(sources: readonly Source[], [low, high]: Interval, along: boolean): Part[] {
  return sources.map(({ minTime, maxTime, segment, memtable }) => {
    const all = Number(maxTime - minTime) + 1
    const first = minTime > low ? minTime : low
    const last = maxTime < high ? maxTime : high
    const from = Number(floorDiv(first, NS_PER_MS))
    const to = Number(floorDiv(last, NS_PER_MS))
    const rows = ((segment?.rows ?? memtable?.part.rows ?? 0) * (Number(last - first) + 1)) / all
    return along ? { from, to: to + 1, rows } : { from: -to, to: 1 - from, rows }
  })
}

/** The latest start behind which there are so many rows. */
function latestWith(wanted: number, least: number, most: number, rowsFrom: (start: number) => number): number {
  let [low, high] = [least, most]
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (rowsFrom(middle) >= wanted) low = middle
    else high = middle
  }
  return low
}

/** @param leastRows as of `sortedRows`. @param run answers the statement over rows of the times given; with a number the first rows, in place of those that its LIMIT and OFFSET choose. @param slices of the time, from its newest end on, or from its oldest. */
export async function inSlices(
  order: TimeOrder,
  slices: (newestFirst: boolean) => readonly Interval[],
  run: (times: Interval, firstRows?: number) => Promise<SqlCursor>,
  leastRows = 0,
): Promise<SqlCursor> {
  if (order.kind === 'values') return valuesIn(order, slices, run)
  const [first, ...rest] = slices(order.newestFirst)
  const rows = order.offset + order.limit
  const isMore = rows < leastRows
  if (rest.length === 0 && !isMore) return run(first)
  const most = order.offset === 0 && !isMore ? undefined : Math.max(rows, leastRows)
  const cursor = await run(first, most)
  return { ...cursor, [Symbol.asyncIterator]: () => rowsIn(order, cursor, rest, (slice) => run(slice, most)) }
}

async function* rowsIn(
  { limit, offset }: OrderedRows,
  first: SqlCursor,
  rest: readonly Interval[],
  run: (times: Interval) => Promise<SqlCursor>,
): AsyncGenerator<SqlChunk> {
  let at = 0
  for (const slice of [undefined, ...rest]) {
    for await (const chunk of slice === undefined ? first : await run(slice)) {
      // A statement that is read to its end, which its LIMIT has near, leaves its connection to the next one.
      const wanted = rowsFrom(chunk, offset - at, offset + limit - at)
      if (wanted.rows > 0) yield wanted
      at += chunk.rows
    }
    if (at >= offset + limit) return
  }
}

function rowsFrom(chunk: SqlChunk, first: number, end: number): SqlChunk {
  const from = Math.max(first, 0)
  const rows = Math.min(end, chunk.rows) - from
  return rows === chunk.rows ? chunk : { rows, columns: rows <= 0 ? [] : chunk.columns.map((vector) => vectorSlice(vector, from, from + rows)) }
}

async function valuesIn(
  { newest }: ValuesAtEnds,
  slices: (newestFirst: boolean) => readonly Interval[],
  run: (times: Interval) => Promise<SqlCursor>,
): Promise<SqlCursor> {
  const ends = [true, false].filter((end) => newest.includes(end)).map((end) => ({ end, slices: slices(end) }))
  const first = await run(ends[0].slices[0])
  const found: SqlVector[] = []
  const read = async (end: boolean, cursor: SqlCursor): Promise<boolean> => {
    for await (const { columns } of cursor) for (const [i, vector] of columns.entries()) if (newest[i] === end && !isValue(found[i])) found[i] = vector
    return newest.every((each, i) => each !== end || isValue(found[i]))
  }
  return {
    ...first,
    async *[Symbol.asyncIterator]() {
      let cursor: SqlCursor | undefined = first
      for (const { end, slices } of ends) {
        for (const slice of slices) {
          if (await read(end, cursor ?? (await run(slice)))) break
          cursor = undefined
        }
        cursor = undefined
      }
      yield { rows: 1, columns: found }
    },
  }
}

/** Of the only row. */
function isValue(vector: SqlVector | undefined): boolean {
  return vector !== undefined && vector.validity?.[0] !== 0 && vector.values[0] !== null
}
