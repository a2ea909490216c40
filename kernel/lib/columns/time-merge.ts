/**
 * Rows of many series in the order of time, then series: each chunk is sorted already, a heap takes the earliest head.
 *
 * When only the first `keep` rows are wanted, what lies behind them in every order is let go while chunks still arrive, so that a
 * small limit over a large measurement holds few rows.
 */
import type { SeriesChunk } from './chunks.ts'

/** A part of a chunk: its rows at `rows[from, to)`, or, without `rows`, the rows [from, to). */
interface Run {
  chunk: SeriesChunk
  rows: Int32Array | undefined
  from: number
  to: number
}

export class TimeMerge {
  private runs: Run[] = []
  private readonly keep: number
  /** Rows held now. */
  held = 0

  /** @param keep how many rows will be asked for at most */
  constructor(keep: number) {
    this.keep = keep
  }

  /** Adds the next chunk; rows without any value are left out. */
  add(chunk: SeriesChunk): void {
    const rows = presentRows(chunk)
    const length = Math.min(rows === undefined ? chunk.times.length : rows.length, this.keep)
    if (length === 0) return
    this.runs.push({ chunk, rows, from: 0, to: length })
    this.held += length
    if (this.held > this.keep * 2 + 1024) this.trim()
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

  /** Drops rows that are later than the last one wanted. */
  private trim(): void {
    const times = new BigInt64Array(this.held)
    let n = 0
    for (const run of this.runs) for (let i = run.from; i < run.to; i++) times[n++] = run.chunk.times[indexOf(run, i)]
    const latest = times.sort()[this.keep - 1]
    this.held = 0
    for (const run of this.runs) {
      let low = run.from
      let high = run.to
      while (low < high) {
        const middle = (low + high) >> 1
        if (run.chunk.times[indexOf(run, middle)] <= latest) low = middle + 1
        else high = middle
      }
      run.to = low
      this.held += low - run.from
    }
    this.runs = this.runs.filter((run) => run.to > run.from)
  }
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
