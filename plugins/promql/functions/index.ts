/** What every function does, by name; signatures.ts says what each takes and gives. */
import type { PromqlFunction, RangeFn, RangeFunction, VectorFn } from './contract.ts'
import { HISTOGRAMS } from './histogram-functions.ts'
import { info } from './info.ts'
import * as aggregate from './range-aggregate.ts'
import { AverageRows, CountRows, LargestRows, SmallestRows, SumRows } from './range-aggregate-rows.ts'
import { StoredAverage, StoredCount, StoredMaximum, StoredMinimum, StoredSum } from './range-aggregate-stored.ts'
import { changes, resets } from './range-changes.ts'
import { instantDelta, instantRate } from './range-instant.ts'
import { integral } from './range-integral.ts'
import { medianDeviation, quantileOverTime } from './range-order.ts'
import { checkCounterNames, delta, increase, rate } from './range-rate.ts'
import { DifferenceRows } from './range-rate-rows.ts'
import { derivative, doubleExponentialSmoothing, predictLinear } from './range-regression.ts'
import { labelJoin, labelReplace } from './vector-labels.ts'
import { MATH } from './vector-math.ts'
import { absenceOf, PRESENCE } from './vector-presence.ts'
import { SORT } from './vector-sort.ts'
import { TIME } from './vector-time.ts'

const range = (window: RangeFn, more: Partial<RangeFunction> = {}): RangeFunction => ({ kind: 'range', window, ...more })

const RANGE: Record<string, RangeFunction> = {
  rate: range(rate, { rows: (plan) => new DifferenceRows(plan, true, true), edges: true, anchored: true, smoothed: true, annotate: checkCounterNames }),
  increase: range(increase, {
    rows: (plan) => new DifferenceRows(plan, true, false),
    edges: true,
    anchored: true,
    smoothed: true,
    annotate: checkCounterNames,
  }),
  delta: range(delta, { rows: (plan) => new DifferenceRows(plan, false, false), edges: true, anchored: true, smoothed: true }),
  irate: range(instantRate),
  idelta: range(instantDelta),
  changes: range(changes, { anchored: true }),
  resets: range(resets, { edges: true, anchored: true }),
  deriv: range(derivative),
  predict_linear: range(predictLinear),
  integral: range(integral),
  double_exponential_smoothing: range(doubleExponentialSmoothing),
  avg_over_time: range(aggregate.avgOverTime, { rows: (plan) => new AverageRows(plan), stored: () => new StoredAverage() }),
  sum_over_time: range(aggregate.sumOverTime, { rows: (plan) => new SumRows(plan), stored: () => new StoredSum() }),
  min_over_time: range(aggregate.minOverTime, { rows: (plan) => new SmallestRows(plan), stored: () => new StoredMinimum() }),
  max_over_time: range(aggregate.maxOverTime, { rows: (plan) => new LargestRows(plan), stored: () => new StoredMaximum() }),
  count_over_time: range(aggregate.countOverTime, { rows: (plan) => new CountRows(plan), stored: () => new StoredCount(), edges: true }),
  present_over_time: range(aggregate.presentOverTime, { edges: true, newest: true }),
  absent_over_time: range(aggregate.presentOverTime, { newest: true, finish: absenceOf }),
  first_over_time: range(aggregate.firstOverTime, { edges: true, keepsName: true }),
  last_over_time: range(aggregate.lastOverTime, { edges: true, newest: true, keepsName: true }),
  stddev_over_time: range(aggregate.deviationOverTime),
  stdvar_over_time: range(aggregate.varianceOverTime),
  ts_of_min_over_time: range(aggregate.timeOfMin),
  ts_of_max_over_time: range(aggregate.timeOfMax),
  ts_of_first_over_time: range(aggregate.timeOfFirst),
  ts_of_last_over_time: range(aggregate.timeOfLast, { newest: true }),
  quantile_over_time: range(quantileOverTime),
  mad_over_time: range(medianDeviation),
}

const VECTOR: Record<string, VectorFn> = { ...MATH, ...TIME, ...PRESENCE, ...SORT, ...HISTOGRAMS }

export const IMPLEMENTATIONS: ReadonlyMap<string, PromqlFunction> = new Map<string, PromqlFunction>([
  ...Object.entries(RANGE),
  ...Object.entries(VECTOR).map(([name, apply]): [string, PromqlFunction] => [name, { kind: 'vector', apply }]),
  ['label_replace', labelReplace],
  ['label_join', labelJoin],
  ['info', { kind: 'vector', apply: info, argsUpTo: 1 }],
])

/** @throws for a name the parser would not have let through. */
export function implementationOf(name: string): PromqlFunction {
  const implementation = IMPLEMENTATIONS.get(name)
  if (implementation === undefined) throw new Error(`cannot call function "${name}": it does not exist`)
  return implementation
}
