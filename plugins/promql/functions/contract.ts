/**
 * Between the evaluator and the functions: what a function is given, and what it hands back.
 *
 * A range function turns one window of one series into at most one sample and is called for every series and step, so that its call object is
 * made once and its fields are overwritten: nothing of it may be kept. A vector function is called once with all steps of its arguments.
 */
import type { StoredSamples } from 'svcdb/lib/columns'
import type { CallExpr, Expr, Pos, VectorSelector } from '../ast.ts'
import type { Budget, Pacer } from '../eval/context.ts'
import type { Steps, Value, VectorValue } from '../eval/value.ts'
import type { WindowPlan } from '../eval/window-plan.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { LabelSets } from '../labels.ts'
import { ResetCursor } from './reset-cursor.ts'

/** Where functions leave their warnings and infos. Texts without "PromQL warning: " or position; the same text counts once a query. */
export interface AnnotationSink {
  warning(text: string, pos: Pos): void
  info(text: string, pos: Pos): void
  /** A classic histogram whose counts fell at step time `time` (ms); merged into one info a query and metric name. */
  forcedMonotonicity(metricName: string, pos: Pos, time: number, minBucket: number, maxBucket: number, maxDiff: number): void
}

/**
 * One window. The evaluator sets all fields but the results before each call (those that stay the same only once).
 *
 * The window is [lo, hi) of the sample arrays: samples in (rangeStart, rangeEnd], never empty, stale markers left out. For a selector with
 * `anchored` it reaches back by the lookback besides: samples in (rangeStart - lookback, rangeEnd]; for `smoothed` both ways:
 * (rangeStart - lookback, rangeEnd + lookback].
 */
export class RangeCall {
  times: Float64Array = EMPTY
  values: Float64Array = EMPTY
  /** SAMPLE_FLOAT or SAMPLE_HISTOGRAM; undefined when all samples of the window's block are floats. */
  kinds: Uint8Array | undefined
  histograms: readonly (FloatHistogram | undefined)[] | undefined
  lo = 0
  hi = 0
  /** Where samples were left out, which is done for functions of `edges` alone: the place of each among all of its series. */
  ordinals: Int32Array | undefined
  /** Milliseconds: step time less offset less range, step time less offset (or as @ says), the range, the step. */
  rangeStart = NaN
  rangeEnd = NaN
  range = NaN
  time = NaN
  /** The scalar arguments at this step, in their order, the range vector left out. */
  scalars: Float64Array = EMPTY
  modifier: 'anchored' | 'smoothed' | undefined
  /** The series among those of `labels`. */
  series = 0
  labels: LabelSets | undefined
  readonly expr: CallExpr
  /** Where the range vector stands. */
  readonly pos: Pos
  readonly annotations: AnnotationSink

  /** Results: FLOAT leaves `value`, HISTOGRAM `histogram` (owned by the caller from then on). */
  value = NaN
  histogram: FloatHistogram | undefined

  /** A function's own: what it has found out about the series so far. The evaluator goes through a series once, in the order of time. */
  readonly resets = new ResetCursor()

  constructor(expr: CallExpr, pos: Pos, annotations: AnnotationSink) {
    this.expr = expr
    this.pos = pos
    this.annotations = annotations
  }

  /** Samples of the window, those left out too. */
  get count(): number {
    const { lo, hi, ordinals } = this
    return ordinals === undefined ? hi - lo : ordinals[hi - 1] - ordinals[lo] + 1
  }

  /** For messages. */
  metricName(): string {
    return this.labels?.at(this.series).get('__name__') ?? ''
  }
}
const EMPTY = new Float64Array(0)

/** Returns ABSENT, FLOAT or HISTOGRAM (eval/value.ts). */
export type RangeFn = (call: RangeCall) => number

/** All windows of a series at once: the short way where all of its samples are floats, and of no modifier. Gives what `window` gives, bit by bit. */
export interface RangeRows {
  /** Fills a row, of which `kinds` is ABSENT, with the results of the plan's series: its values are those from `from` on. @returns whether there are any. */
  fill(values: Float64Array, from: number, row: { values: Float64Array; kinds: Uint8Array; base: number }): boolean
}

/** One window after the other, of floats that are added in ascending time. Gives what RangeFunction.window gives, bit by bit. */
export interface StoredWindow {
  begin(): void
  /** Samples [from, to), at least one. */
  add(samples: StoredSamples, from: number, to: number): void
  /** Of a window with samples. */
  result(): number
}

export interface RangeFunction {
  kind: 'range'
  window: RangeFn
  /** Made once a call; absent where only windows are known. */
  rows?(plan: WindowPlan): RangeRows
  /** Made once a call; where windows do not overlap, samples are added where they are stored. */
  stored?(): StoredWindow
  /** Of a window of floats only its first and last sample, the number of samples, and where values fall, matter. */
  edges?: true
  /** Nothing of a window matters but its newest sample. */
  newest?: true
  /** Series keep their metric name; else the evaluator marks them in `dropName`. */
  keepsName?: true
  /** Takes selectors with these modifiers. */
  anchored?: true
  smoothed?: true
  /** Called once after all series with a byte for each series of `labels` that gave a float at any step. */
  annotate?(labels: LabelSets, gaveFloat: Uint8Array, call: RangeCall): void
  /** absent_over_time: called with the evaluator's result, hands back what takes its place. `arg` is the range vector's expression. */
  finish?(result: VectorValue, arg: Expr): VectorValue
}

/** The arguments of a vector function, evaluated; strings as StringValue. */
export interface VectorCall {
  expr: CallExpr
  args: readonly Value[]
  steps: Steps
  annotations: AnnotationSink
  /** timestamp() of a plain selector only: the time in ms of the sample in each cell of args[0]. */
  sampleTimes?: Float64Array
  /** The query's own start, end and step in ms, also inside subqueries; step 0 of an instant query. */
  query: { start: number; end: number; step: number }
  /** Long loops ask it whether to pause; texts that are made anew count in the budget. */
  pacer: Pacer
  budget: Budget
  /** Evaluates a selector of the function's own at the same steps, with the times in ms of its samples: info() reads its series so. */
  instants(selector: VectorSelector): Promise<{ value: VectorValue; times: Float64Array }>
}

/**
 * Vector values handed back may share arrays with the arguments; arguments are never changed. Result series never repeat a label set
 * at one step (the function throws ExecutionError), and keep their metric names, with `dropName` set where they are to go.
 */
export type VectorFn = (call: VectorCall) => Value | Promise<Value>

export interface VectorFunction {
  kind: 'vector'
  /** Called before the arguments are evaluated: refuses literals among them that make no sense. */
  check?(expr: CallExpr): void
  apply: VectorFn
  /** The evaluator does not evaluate arguments from this one on: the function reads them from `expr.args` (info). `args` ends before it. */
  argsUpTo?: number
}

export type PromqlFunction = RangeFunction | VectorFunction
