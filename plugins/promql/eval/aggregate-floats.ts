/** Aggregations that keep a few numbers a group and step. Sums carry a compensation term (Neumaier), which an infinite sum resets. */
import { ABSENT, FLOAT, type VectorValue } from './value.ts'

/** Cells of series, a row after the other or one row used again. */
export type Rows = Pick<VectorValue, 'values' | 'kinds' | 'steps'>

export interface Accumulator {
  /** Takes the cells of one series, which begin at `from`, into those of its group, which begin at `to`. */
  add(from: number, to: number): void
  finish(): void
}

export type AccumulatingOp = 'sum' | 'avg' | 'min' | 'max' | 'count' | 'group' | 'stddev' | 'stdvar'

/** Histograms are passed over, but by count and group. */
export function floatAccumulator(op: AccumulatingOp, input: Rows, out: VectorValue): Accumulator {
  switch (op) {
    case 'sum':
      return sum(input, out)
    case 'avg':
      return mean(input, out)
    case 'count':
    case 'group':
      return count(op, input, out)
    case 'min':
    case 'max':
      return extreme(op === 'max', input, out)
    case 'stddev':
    case 'stdvar':
      return variance(op === 'stddev', input, out)
  }
}

function sum({ values, kinds, steps }: Rows, out: VectorValue): Accumulator {
  const sums = out.values
  const seen = out.kinds
  const lost = new Float64Array(sums.length)
  return {
    add(from, to) {
      for (let t = 0; t < steps; t++) {
        if (kinds[from + t] !== FLOAT) continue
        const cell = to + t
        const value = values[from + t]
        if (seen[cell] === ABSENT) {
          seen[cell] = FLOAT
          sums[cell] = value
          continue
        }
        const before = sums[cell]
        const next = before + value
        if (next === Infinity || next === -Infinity) lost[cell] = 0
        else lost[cell] += Math.abs(before) >= Math.abs(value) ? before - next + value : value - next + before
        sums[cell] = next
      }
    },
    finish() {
      for (let cell = 0; cell < sums.length; cell++) sums[cell] += lost[cell]
    },
  }
}

/** The sum divided at the end; from where the sum would be infinite on, the mean so far and a share of each new value. */
function mean({ values, kinds, steps }: Rows, out: VectorValue): Accumulator {
  const state = new MeanState(out.values, out.kinds)
  return {
    add(from, to) {
      for (let t = 0; t < steps; t++) if (kinds[from + t] === FLOAT) state.add(to + t, values[from + t])
    },
    finish() {
      for (let cell = 0; cell < out.values.length; cell++) if (out.kinds[cell] === FLOAT) out.values[cell] = state.mean(cell)
    },
  }
}

class MeanState {
  private readonly sums: Float64Array
  private readonly seen: Uint8Array
  private readonly lost: Float64Array
  private readonly counts: Float64Array
  private readonly incremental: Uint8Array

  /** @param sums, seen cells of the result: sums are kept in them, or means where `incremental` says so. */
  constructor(sums: Float64Array, seen: Uint8Array) {
    this.sums = sums
    this.seen = seen
    this.lost = new Float64Array(sums.length)
    this.counts = new Float64Array(sums.length)
    this.incremental = new Uint8Array(sums.length)
  }

  add(cell: number, value: number): void {
    const { sums, lost } = this
    const count = ++this.counts[cell]
    if (count === 1) {
      this.seen[cell] = FLOAT
      sums[cell] = value
      return
    }
    if (this.incremental[cell] === 0) {
      const before = sums[cell]
      const next = before + value
      if (next !== Infinity && next !== -Infinity) {
        lost[cell] += Math.abs(before) >= Math.abs(value) ? before - next + value : value - next + before
        sums[cell] = next
        return
      }
      this.incremental[cell] = 1
      sums[cell] /= count - 1
      lost[cell] /= count - 1
    }
    const shrink = (count - 1) / count
    const part = value / count
    const kept = shrink * sums[cell]
    const next = kept + part
    if (next === Infinity || next === -Infinity) lost[cell] = 0
    else lost[cell] = shrink * lost[cell] + (Math.abs(kept) >= Math.abs(part) ? kept - next + part : part - next + kept)
    sums[cell] = next
  }

  mean(cell: number): number {
    if (this.incremental[cell] === 1) return this.sums[cell] + this.lost[cell]
    return this.sums[cell] / this.counts[cell] + this.lost[cell] / this.counts[cell]
  }
}

/** Also of histograms. */
function count(op: 'count' | 'group', { kinds, steps }: Rows, out: VectorValue): Accumulator {
  const more = op === 'count' ? 1 : 0
  return {
    add(from, to) {
      for (let t = 0; t < steps; t++) {
        if (kinds[from + t] === ABSENT) continue
        const cell = to + t
        if (out.kinds[cell] === ABSENT) {
          out.kinds[cell] = FLOAT
          out.values[cell] = 1
        } else out.values[cell] += more
      }
    },
    finish() {},
  }
}

/** NaN only where there is nothing else. */
function extreme(max: boolean, { values, kinds, steps }: Rows, out: VectorValue): Accumulator {
  return {
    add(from, to) {
      for (let t = 0; t < steps; t++) {
        if (kinds[from + t] !== FLOAT) continue
        const cell = to + t
        const value = values[from + t]
        const best = out.values[cell]
        if (out.kinds[cell] === ABSENT) {
          out.kinds[cell] = FLOAT
          out.values[cell] = value
        } else if (Number.isNaN(best) || (max ? value > best : value < best)) out.values[cell] = value
      }
    },
    finish() {},
  }
}

/** Welford's running mean and sum of squared distances. */
function variance(root: boolean, { values, kinds, steps }: Rows, out: VectorValue): Accumulator {
  const squares = out.values
  const means = new Float64Array(squares.length)
  const counts = new Float64Array(squares.length)
  return {
    add(from, to) {
      for (let t = 0; t < steps; t++) {
        if (kinds[from + t] !== FLOAT) continue
        const cell = to + t
        const value = values[from + t]
        if (++counts[cell] === 1) {
          out.kinds[cell] = FLOAT
          means[cell] = value
          squares[cell] = Number.isFinite(value) ? 0 : NaN
          continue
        }
        const delta = value - means[cell]
        means[cell] += delta / counts[cell]
        squares[cell] += delta * (value - means[cell])
      }
    },
    finish() {
      for (let cell = 0; cell < squares.length; cell++) {
        if (counts[cell] === 0) continue
        squares[cell] /= counts[cell]
        if (root) squares[cell] = Math.sqrt(squares[cell])
      }
    },
  }
}
