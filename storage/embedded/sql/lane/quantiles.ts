/**
 * Quantiles between values, as DuckDB's quantile_cont has them: the values of a field are collected as they come, and in the end each group's are put in order as far as a quantile needs.
 * What there is no room for is DuckDB's, which can spill.
 */
import type { Turn } from 'svcdb/lib/event-loop'
import { nthElement } from 'svcdb/lib/numbers'
import { IntList } from '../../memtable/int-list.ts'
import { pushRun, RUN } from '../../memtable/runs.ts'
import type { Cells } from './accumulate.ts'
import type { LaneValues } from './host.ts'

/** Of a field: some 40 ms of work for each quantile. */
const MAX_VALUES = 1 << 22
const FIRST_VALUES = 8192
/** Values put in order between two looks at the clock. */
const LOOK_VALUES = 65_536
/** Of a value: as it came, and among those of its group. */
const VALUE_BYTES = 16
const RUN_BYTES = RUN * Int32Array.BYTES_PER_ELEMENT

/** Bytes that all statements of this thread collect. */
let collected = 0

/** The values of one field, and the cells of the quantiles that are asked of it. */
export class Quantiles {
  private readonly cells: readonly Cells[]
  private readonly room: number
  private readonly runs = new IntList(1024)
  private values = new Float64Array(FIRST_VALUES)
  private length = 0
  private bytes = 0

  /** @param room bytes for all statements of this thread. */
  constructor(cells: readonly Cells[], room: number) {
    this.cells = cells.toSorted((a, b) => (a.fraction as number) - (b.fraction as number))
    this.room = room
  }

  /** Adds the values of runs (runs.ts); what is not finite is no value. @returns false where there is no room for them. */
  add({ values: runs, length }: IntList, { values, divisor = 1 }: LaneValues): boolean {
    let rows = 0
    for (let r = 0; r < length; r += RUN) rows += runs[r + 2] - runs[r + 1]
    if (!this.reserve(rows, length / RUN)) return false
    const out = this.values
    for (let r = 0; r < length; r += RUN) {
      const first = this.length
      for (let i = runs[r + 1]; i < runs[r + 2]; i++) if (values[i] - values[i] === 0) out[this.length++] = values[i] / divisor
      if (this.length > first) pushRun(this.runs, runs[r], first, this.length)
    }
    return true
  }

  /** Fills in the cells. @param turn of the thread, which others wait for. */
  async finish(turn: Turn): Promise<void> {
    const ends = new Int32Array(this.cells[0].values.length + 1)
    const { values: runs, length } = this.runs
    for (let r = 0; r < length; r += RUN) ends[runs[r] + 1] += runs[r + 2] - runs[r + 1]
    for (let cell = 1; cell < ends.length; cell++) ends[cell] += ends[cell - 1]
    const byCell = new Float64Array(this.length)
    // Begins become ends while the cells fill up.
    for (let r = 0; r < length; r += RUN) {
      const part = this.values.subarray(runs[r + 1], runs[r + 2])
      byCell.set(part, ends[runs[r]])
      ends[runs[r]] += part.length
    }
    let looked = 0
    for (let cell = 0, from = 0; cell + 1 < ends.length; from = ends[cell++]) {
      if (ends[cell] === from) continue
      const values = byCell.subarray(from, ends[cell])
      let placed = 0
      for (const each of this.cells) {
        placed = fill(each, cell, values, placed)
        looked += values.length - placed
        if (looked > LOOK_VALUES && turn.isOver) await turn.next()
        if (looked > LOOK_VALUES) looked = 0
      }
    }
  }

  /** Safe twice. */
  release(): void {
    collected -= this.bytes
    this.bytes = 0
    this.values = new Float64Array(0)
  }

  private reserve(rows: number, runs: number): boolean {
    const wanted = this.length + rows
    if (wanted > MAX_VALUES) return false
    const bytes = wanted * VALUE_BYTES + (this.runs.length / RUN + runs) * RUN_BYTES
    if (bytes > this.bytes) {
      if (collected + bytes - this.bytes > this.room) return false
      collected += bytes - this.bytes
      this.bytes = bytes
    }
    if (wanted > this.values.length) {
      const larger = new Float64Array(Math.min(MAX_VALUES, Math.max(wanted, this.values.length * 2)))
      larger.set(this.values.subarray(0, this.length))
      this.values = larger
    }
    return true
  }
}

/** @param placed what lies before it is no greater than the quantile. @returns its place. */
function fill({ fraction, values: out }: Cells, cell: number, values: Float64Array, placed: number): number {
  const place = (values.length - 1) * (fraction as number)
  const at = Math.floor(place)
  nthElement(values, placed, values.length - 1, at)
  out[cell] = at === place ? values[at] : between(values[at], least(values, at + 1), place - at)
  return at
}

function between(low: number, high: number, share: number): number {
  return low * (1 - share) + high * share
}

function least(values: Float64Array, from: number): number {
  let found = values[from]
  for (let i = from + 1; i < values.length; i++) if (values[i] < found) found = values[i]
  return found
}
