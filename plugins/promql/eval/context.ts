/** What an evaluation runs in: where samples come from, the query's own times, and the limits that end it. */
import { Turn } from 'svcdb/lib/event-loop'
import type { Expr, VectorSelector } from '../ast.ts'
import { ExecutionError, QueryStoppedError, TOO_MANY_SAMPLES } from '../errors.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { Annotations } from './annotations.ts'
import type { SampleSource } from './source.ts'
import type { Steps, Value } from './value.ts'

export interface EvalContext {
  source: SampleSource
  /** How far an instant selector looks back for a sample. */
  lookbackMs: number
  /** The step of subqueries that name none. */
  defaultStepMs: number
  budget: Budget
  annotations: Annotations
  signal: AbortSignal
  /** The whole query's start, end and step in ms, for `@ start()`, `@ end()`, `step()` and `range()`; step 0 of an instant query. */
  query: { start: number; end: number; step: number }
}

/** Bytes of the values an evaluation holds at a time. */
export class Budget {
  readonly limit: number
  private held = 0
  private most = 0

  constructor(limitBytes: number) {
    this.limit = limitBytes
  }

  /** Held now. */
  get bytes(): number {
    return this.held
  }

  /** The most that was held at a time. */
  get peak(): number {
    return this.most
  }

  /** Bytes that may still be taken. */
  get left(): number {
    return this.limit - this.held
  }

  /** Refuses what would not fit, before it is made. */
  expect(bytes: number): void {
    requireFinite(bytes)
    if (this.held + bytes > this.limit) throw new ExecutionError(TOO_MANY_SAMPLES)
  }

  take(bytes: number): void {
    requireFinite(bytes)
    this.held += bytes
    this.expect(0)
    if (this.held > this.most) this.most = this.held
  }

  give(bytes: number): void {
    requireFinite(bytes)
    this.held -= bytes
  }
}

/** Beside NaN any limit would hold. */
function requireFinite(bytes: number): void {
  if (!Number.isFinite(bytes)) throw new RangeError(`cannot count ${bytes} bytes of a query`)
}

/** A step of any value. */
export const STEP_BYTES = 8
const CELL_BYTES = 9
const POINTER_BYTES = 8

export function vectorBytes(series: number, steps: number, histograms: boolean): number {
  return series * steps * (histograms ? CELL_BYTES + POINTER_BYTES : CELL_BYTES)
}

/** A histogram without its buckets, with the objects it is made of. */
const HISTOGRAM_BYTES = 240
/** Its index and its count. */
const BUCKET_BYTES = 12

export function histogramBytes({ positive, negative }: FloatHistogram): number {
  return HISTOGRAM_BYTES + BUCKET_BYTES * (positive.counts.length + negative.counts.length)
}

/** What a value counts in the budget. A histogram that stays over several steps counts once. */
export function valueBytes(value: Value): number {
  if (value.type === 'string') return 0
  if (value.type === 'scalar') return value.values.byteLength
  const { histograms } = value
  let bytes = vectorBytes(value.labels.length, value.steps, histograms !== undefined)
  let previous: FloatHistogram | undefined
  for (const histogram of histograms ?? []) {
    if (histogram === undefined || histogram === previous) continue
    bytes += histogramBytes(histogram)
    previous = histogram
  }
  return bytes
}

/** Cells between two looks at the clock. */
const CELLS = 4096

/** Keeps long loops from holding the event loop, which brings the signal that ends them. */
export class Pacer {
  private readonly signal: AbortSignal
  private readonly turn = new Turn()
  private cells = 0

  constructor(signal: AbortSignal) {
    this.signal = signal
  }

  /** To be asked after each stretch of work, of about `cells` cells; when it says yes, await `pause`. */
  due(cells: number): boolean {
    this.cells += cells
    if (this.cells < CELLS) return false
    this.cells = 0
    return this.turn.isOver
  }

  async pause(): Promise<void> {
    await this.turn.next()
    this.check()
  }

  check(): void {
    if (!this.signal.aborted) return
    const reason: unknown = this.signal.reason
    throw new QueryStoppedError(reason instanceof Error && reason.name === 'TimeoutError' ? 'timeout' : 'canceled')
  }
}

/** One evaluation under way. */
export interface Evaluation {
  readonly context: EvalContext
  readonly pacer: Pacer
  /** Of whose histograms only count and sum are used. */
  readonly statsOnly: ReadonlySet<VectorSelector>
  /** Instant selectors that the query has more than once, by what they select (shared.ts). */
  readonly repeated: ReadonlySet<string>
  /** The dispatcher, handed down so that no part imports it. */
  evaluate(expr: Expr, steps: Steps): Promise<Value>
  /** Operands are not needed any more, for `result` was made of them. */
  release(operands: readonly Value[], result?: Value): void
}
