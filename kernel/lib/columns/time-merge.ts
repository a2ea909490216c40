/**
 * Rows of many series in the order of time, then series: each chunk is sorted already, a heap takes the earliest head.
 *
 * When only the first `keep` rows are wanted, what lies behind them in every order is let go while chunks still arrive, so that a
 * small limit over a large measurement holds few rows.
 */
import type { ColumnChunk, SeriesChunk } from './chunks.ts'

/** A part of a chunk: its rows at `rows[from, to)`, or, without `rows`, the rows [from, to). */
interface Run {
  chunk: SeriesChunk
  rows: Int32Array | undefined
  from: number
  to: number
  /** What the chunk takes in memory, as long as there is the run. */
  bytes: number
}

/** A typed array with its buffer, without what it holds: of chunks of a row or two that is nearly all. */
const ARRAY_BYTES = 256
/** A chunk or a column, with what knows it. */
const CHUNK_BYTES = 256
const COLUMN_BYTES = 64
/** A tag, whose texts others have as well. */
const TAG_BYTES = 24
/** A value that is an object of its own, without what it holds. */
const OBJECT_BYTES = 32

/** Puts the chunks of a scan in the order of time, then series. */
export class TimeMerge {
  private runs: Run[] = []
  private readonly keep: number
  private readonly maxBytes: number
  /** Rows held now. */
  held = 0
  /** What their chunks take in memory, about. */
  bytes = 0

  /** @param keep how many rows will be asked for at most. @param maxBytes what chunks may take in memory. */
  constructor(keep: number, maxBytes = Number.POSITIVE_INFINITY) {
    this.keep = keep
    this.maxBytes = maxBytes
  }

  /** Adds the next chunk; rows without any value are left out. @returns false when what has to be held takes more than `maxBytes`: nothing may be asked of the merge then. */
  add(chunk: SeriesChunk): boolean {
    const rows = presentRows(chunk)
    const length = Math.min(rows === undefined ? chunk.times.length : rows.length, this.keep)
    if (length === 0) return true
    const run: Run = { chunk, rows, from: 0, to: length, bytes: 0 }
    shrink(run)
    this.runs.push(run)
    this.held += length
    this.bytes += run.bytes
    const full = this.bytes > this.maxBytes
    if (this.held > this.keep * 2 + 1024 || (full && this.held > this.keep)) this.trim()
    return this.bytes <= this.maxBytes
  }

  /** Calls `row` for each row in order until it returns false. */
  async each(row: (chunk: SeriesChunk, index: number) => boolean | Promise<boolean>): Promise<void> {
    const heap = this.runs
    for (let i = (heap.length >> 1) - 1; i >= 0; i--) sink(heap, i)
    while (heap.length > 0) {
      const run = heap[0]
      const answer = row(run.chunk, indexOf(run, run.from))
      if (!(typeof answer === 'boolean' ? answer : await answer)) return
      if (++run.from === run.to) {
        const last = heap.pop() as Run
        if (heap.length === 0) return
        if (last !== run) heap[0] = last
      }
      sink(heap, 0)
    }
  }

  /** Drops rows that lie behind the last one wanted. */
  private trim(): void {
    const times = new BigInt64Array(this.held)
    let n = 0
    for (const run of this.runs) for (let i = run.from; i < run.to; i++) times[n++] = run.chunk.times[indexOf(run, i)]
    const latest = times.sort()[this.keep - 1]
    const last: Run[] = []
    for (const run of this.runs) {
      let low = run.from
      let high = run.to
      while (low < high) {
        const middle = (low + high) >> 1
        if (run.chunk.times[indexOf(run, middle)] <= latest) low = middle + 1
        else high = middle
      }
      run.to = low
      if (low > run.from && run.chunk.times[indexOf(run, low - 1)] === latest) last.push(run)
    }
    // Of the last time the first series are wanted: all series may have a row of it.
    last.sort((a, b) => a.chunk.series - b.chunk.series)
    for (const run of last.slice(this.keep - times.indexOf(latest))) run.to--
    this.held = this.runs.reduce((sum, { from, to }) => sum + to - from, 0)
    this.runs = this.runs.filter((run) => run.to > run.from)
    for (const run of this.runs) shrink(run)
    this.bytes = this.runs.reduce((sum, { bytes }) => sum + bytes, 0)
  }
}

/** Lets go of the rows of a chunk that lie behind the run, where they are half of it or more, and says what it takes then. */
function shrink(run: Run): void {
  const { chunk, rows, to, bytes } = run
  const end = rows === undefined ? to : rows[to - 1] + 1
  const small = end * 2 > chunk.times.length
  if (!small) {
    run.chunk = { ...chunk, times: chunk.times.slice(0, end), columns: chunk.columns.map((column) => headOf(column, end)) }
    run.rows = rows?.slice(0, to)
  }
  if (!small || bytes === 0) run.bytes = bytesOf(run.chunk)
}

function headOf(column: ColumnChunk, end: number): ColumnChunk {
  const { values, validity } = column
  return { ...column, values: values.slice(0, end), ...(validity === undefined ? {} : { validity: validity.slice(0, end) }) }
}

function bytesOf({ times, columns, tags }: SeriesChunk): number {
  const own = times.byteLength + ARRAY_BYTES + CHUNK_BYTES + Object.keys(tags).length * TAG_BYTES
  return columns.reduce((sum, column) => sum + columnBytes(column), own)
}

function columnBytes({ values, validity }: ColumnChunk): number {
  let bytes = ARRAY_BYTES + COLUMN_BYTES + (validity === undefined ? 0 : ARRAY_BYTES + validity.byteLength)
  if (ArrayBuffer.isView(values)) return bytes + values.byteLength
  for (const value of values) {
    if (typeof value === 'string') bytes += OBJECT_BYTES + value.length * 2
    else bytes += OBJECT_BYTES + (value instanceof Uint8Array ? value.byteLength : 0)
  }
  return bytes
}

function indexOf(run: Run, i: number): number {
  return run.rows === undefined ? i : run.rows[i]
}

function before(a: Run, b: Run): boolean {
  const ta = a.chunk.times[indexOf(a, a.from)]
  const tb = b.chunk.times[indexOf(b, b.from)]
  return ta < tb || (ta === tb && a.chunk.series < b.chunk.series)
}

function sink(heap: Run[], at: number): void {
  for (;;) {
    let least = at
    for (let child = at * 2 + 1; child <= at * 2 + 2; child++) if (child < heap.length && before(heap[child], heap[least])) least = child
    if (least === at) return
    const run = heap[at]
    heap[at] = heap[least]
    heap[least] = run
    at = least
  }
}

/** The rows with a value in some column, undefined when that is all. */
function presentRows(chunk: SeriesChunk): Int32Array | undefined {
  const { columns, times } = chunk
  if (columns.some((column) => column.validity === undefined)) return undefined
  const rows = new Int32Array(times.length)
  let n = 0
  for (let i = 0; i < times.length; i++) if (columns.some((column) => column.validity?.[i] === 1)) rows[n++] = i
  return rows.subarray(0, n)
}
