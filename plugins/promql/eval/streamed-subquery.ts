/**
 * Subqueries of a selector, or of one compared with a number, series by series: they have many more steps than their query, and their value over all series would
 * take more memory than all that is read for it.
 */
import type { ComparisonOp, Expr, Pos, SubqueryExpr, VectorSelector } from '../ast.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { LabelSets } from '../labels.ts'
import { comparisonFilter, type Filter } from './binary.ts'
import type { Evaluation } from './context.ts'
import { isComparison, type Notes, onHistograms } from './operators.ts'
import type { RowSink } from './row-sink.ts'
import { fillRow, fillStoredRow, openInstants } from './selectors.ts'
import { selectorKey } from './shared.ts'
import { BLOCK_CELLS, subquerySteps, withoutResetHint } from './subquery.ts'
import { unwrap } from './unwrap.ts'
import { ABSENT, FLOAT, HISTOGRAM, SAMPLE_FLOAT, SAMPLE_HISTOGRAM, type SampleBlock, type Steps, shaped } from './value.ts'

/** A selector whose samples are compared with a number. */
interface Comparison {
  selector: VectorSelector
  op: ComparisonOp
  pos: Pos
  bound: number
  /** The number stands on the left. */
  swapped: boolean
}

interface StreamedSubquery {
  labels: LabelSets
  /** Can be read once; a block's arrays are used again once the next one is asked for. */
  blocks(): AsyncIterable<SampleBlock>
}

/** @returns undefined where the subquery's value has to be there as a whole. */
export async function streamedSubquery(subquery: SubqueryExpr, outer: Steps, evaluation: Evaluation): Promise<StreamedSubquery | undefined> {
  const inner = unwrap(subquery.expr)
  const comparison = comparisonOf(inner)
  const selector = comparison?.selector ?? inner
  if (selector.kind !== 'vector' || !isStreamed(selector, evaluation)) return undefined
  const steps = subquerySteps(subquery, outer, evaluation)
  if (steps.count === 0) return undefined
  const { context, pacer } = evaluation
  const bytes = bytesOf(steps, comparison !== undefined)
  // Refused before anything is read: arrays of so many steps could not even be made.
  context.budget.expect(bytes)
  const { labels, blocks, stored = blocks, reference } = await openInstants(selector, steps, evaluation)
  return {
    labels,
    async *blocks() {
      context.budget.take(bytes)
      const row = new SeriesRow(steps.count)
      const test = comparison === undefined ? undefined : new RowTest(comparison, steps.count, { sink: context.annotations, pos: comparison.pos })
      const cells = new CellBlock(steps)
      for await (const read of stored()) {
        pacer.check()
        const block = 'runs' in read ? read : shaped(read)
        for (let i = 0; i + 1 < block.starts.length; i++) {
          const [from, to] = [block.starts[i], block.starts[i + 1]]
          if (from === to) continue
          if (cells.isFull) yield cells.take()
          row.kinds.fill(ABSENT)
          const any =
            'runs' in block
              ? fillStoredRow(block, i, steps, reference, context.lookbackMs, row)
              : fillRow(block, from, to, steps, reference, context.lookbackMs, row)
          if (any) cells.add(block.first + i, row, test?.passing(row) ?? row.kinds)
          if (pacer.due(steps.count)) await pacer.pause()
        }
      }
      yield cells.take()
      context.budget.give(bytes)
    },
  }
}

/** A cell in a row, and in the row of a comparison's bounds. */
const ROW_BYTES = 9
/** A sample in a block. */
const SAMPLE_BYTES = 17

/** What one series takes, and a block where it needs more than others have. */
function bytesOf({ count }: Steps, compared: boolean): number {
  return count * (compared ? 2 * ROW_BYTES : ROW_BYTES) + (count > BLOCK_CELLS ? count * SAMPLE_BYTES : 0)
}

function isStreamed(selector: VectorSelector, { statsOnly, repeated }: Evaluation): boolean {
  if (selector.modifier !== undefined || selector.at !== undefined || statsOnly.has(selector)) return false
  return repeated.size === 0 || !repeated.has(selectorKey(selector))
}

function comparisonOf(expr: Expr): Comparison | undefined {
  if (expr.kind !== 'binary' || expr.returnBool || !isComparison(expr.op)) return undefined
  const { op, pos } = expr
  const [lhs, rhs] = [unwrap(expr.lhs), unwrap(expr.rhs)]
  const swapped = rhs.kind === 'vector'
  const selector = swapped ? rhs : lhs
  const bound = numberOf(swapped ? lhs : rhs)
  return selector.kind === 'vector' && bound !== undefined ? { selector, op, pos, bound, swapped } : undefined
}

function numberOf(expr: Expr): number | undefined {
  const plain = unwrap(expr)
  if (plain.kind === 'number') return plain.value
  if (plain.kind !== 'unary') return undefined
  const value = numberOf(plain.expr)
  return value === undefined || plain.op === '+' ? value : -value
}

/** The steps of one series, used again for the next. */
class SeriesRow implements RowSink {
  readonly values: Float64Array
  readonly kinds: Uint8Array
  readonly base = 0
  readonly histograms: (FloatHistogram | undefined)[] = []

  constructor(steps: number) {
    this.values = new Float64Array(steps)
    this.kinds = new Uint8Array(steps)
  }

  float(step: number, value: number): void {
    this.values[step] = value
    this.kinds[step] = FLOAT
  }

  histogram(step: number, value: FloatHistogram): void {
    this.histograms[step] = value
    this.kinds[step] = HISTOGRAM
  }

  keep(): void {}
}

/** Which cells of a row a comparison holds for. */
class RowTest {
  private readonly comparison: Comparison
  private readonly filter: Filter
  private readonly bounds: Float64Array
  private readonly kinds: Uint8Array
  private readonly notes: Notes

  constructor(comparison: Comparison, steps: number, notes: Notes) {
    const { op, bound, swapped } = comparison
    this.comparison = comparison
    this.filter = comparisonFilter(op, swapped)
    this.bounds = new Float64Array(steps).fill(bound)
    this.kinds = new Uint8Array(steps)
    this.notes = notes
  }

  /** @returns the kinds of the cells that pass, ABSENT where one does not. */
  passing({ values, kinds, histograms }: SeriesRow): Uint8Array {
    const { kinds: passing } = this
    passing.fill(ABSENT)
    this.filter(values, kinds, this.bounds, 0, passing)
    if (histograms.length === 0) return passing
    const { op, bound, swapped } = this.comparison
    for (let t = 0; t < kinds.length; t++) {
      if (kinds[t] !== HISTOGRAM) continue
      const [a, b] = swapped ? [undefined, histograms[t]] : [histograms[t], undefined]
      const { valid, keep } = onHistograms(op, bound, a, bound, b, this.notes)
      passing[t] = valid && keep ? HISTOGRAM : ABSENT
    }
    return passing
  }
}

/** Cells as samples. Its arrays are used again. */
class CellBlock {
  private readonly steps: Steps
  private readonly times: Float64Array
  private readonly values: Float64Array
  private kinds: Uint8Array | undefined
  private histograms: (FloatHistogram | undefined)[] = []
  /** The series that the block begins with, and where the samples of those in it begin. */
  private first = 0
  private starts: number[] = []
  private length = 0

  constructor(steps: Steps) {
    this.steps = steps
    const room = Math.max(BLOCK_CELLS, steps.count)
    this.times = new Float64Array(room)
    this.values = new Float64Array(room)
  }

  /** Another series may have no room. */
  get isFull(): boolean {
    return this.length + this.steps.count > this.times.length
  }

  add(series: number, row: SeriesRow, passing: Uint8Array): void {
    if (this.starts.length === 0) this.first = series
    // Those left out have no samples.
    while (this.starts.length <= series - this.first) this.starts.push(this.length)
    const { times, values } = this
    const { start, interval } = this.steps
    if (row.histograms.length > 0) this.addMixed(row, passing)
    else {
      let n = this.length
      for (let t = 0; t < passing.length; t++) {
        if (passing[t] === ABSENT) continue
        times[n] = start + t * interval
        values[n++] = row.values[t]
      }
      this.length = n
    }
  }

  /** The block so far; another one begins. */
  take(): SampleBlock {
    const { first, starts, length } = this
    const block: SampleBlock = {
      first,
      starts: Int32Array.from([...starts, length]),
      times: this.times.subarray(0, length),
      values: this.values.subarray(0, length),
    }
    if (this.kinds !== undefined) {
      block.kinds = this.kinds.subarray(0, length)
      block.histograms = this.histograms
    }
    this.kinds = undefined
    this.histograms = []
    this.starts = []
    this.length = 0
    return block
  }

  private addMixed({ values, histograms }: SeriesRow, passing: Uint8Array): void {
    const { start, interval } = this.steps
    this.kinds ??= new Uint8Array(this.times.length)
    for (let t = 0; t < passing.length; t++) {
      if (passing[t] === ABSENT) continue
      const at = this.length++
      const histogram = passing[t] === HISTOGRAM ? withoutResetHint(histograms[t]) : undefined
      this.times[at] = start + t * interval
      this.values[at] = passing[t] === HISTOGRAM ? 0 : values[t]
      this.kinds[at] = passing[t] === HISTOGRAM ? SAMPLE_HISTOGRAM : SAMPLE_FLOAT
      this.histograms[at] = histogram
    }
  }
}
