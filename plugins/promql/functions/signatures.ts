/** The functions and aggregations of the language: what the parser checks calls against. */
import type { AggregateOp, ValueType } from '../ast.ts'

export interface Signature {
  name: string
  /** Types of the arguments; with `variadic`, the last one may be left out or repeated. */
  args: readonly ValueType[]
  /** 0: exactly `args`; n > 0: at most n in the place of the last one, none included; -1: any number of them. */
  variadic: number
  returns: ValueType
  /** Prometheus has it behind a feature flag. */
  experimental: boolean
}

const SIGNATURES = new Map<string, Signature>()

function define(names: string, args: readonly ValueType[], returns: ValueType, more: { variadic?: number; experimental?: boolean } = {}): void {
  for (const name of names.split(' ')) SIGNATURES.set(name, { name, args, variadic: more.variadic ?? 0, returns, experimental: more.experimental ?? false })
}

define('abs absent ceil exp floor ln log10 log2 sgn sort sort_desc sqrt timestamp', ['vector'], 'vector')
define('acos acosh asin asinh atan atanh cos cosh deg rad sin sinh tan tanh', ['vector'], 'vector')
define('histogram_avg histogram_count histogram_sum histogram_stddev histogram_stdvar', ['vector'], 'vector')
define('days_in_month day_of_month day_of_week day_of_year hour minute month year', ['vector'], 'vector', { variadic: 1 })
define('clamp', ['vector', 'scalar', 'scalar'], 'vector')
define('clamp_max clamp_min', ['vector', 'scalar'], 'vector')
define('round', ['vector', 'scalar'], 'vector', { variadic: 1 })
define('histogram_fraction', ['scalar', 'scalar', 'vector'], 'vector')
define('histogram_quantile', ['scalar', 'vector'], 'vector')
define('histogram_quantiles', ['vector', 'string', 'scalar', 'scalar'], 'vector', { variadic: 9, experimental: true })
define('label_replace', ['vector', 'string', 'string', 'string', 'string'], 'vector')
define('label_join', ['vector', 'string', 'string', 'string'], 'vector', { variadic: -1 })
define('sort_by_label sort_by_label_desc', ['vector', 'string'], 'vector', { variadic: -1, experimental: true })
define('info', ['vector', 'vector'], 'vector', { variadic: 1, experimental: true })
define('start_timestamp', ['vector'], 'vector', { experimental: true })
define('scalar', ['vector'], 'scalar')
define('vector', ['scalar'], 'vector')
define('pi time', [], 'scalar')
define('start end step range', [], 'scalar', { experimental: true })
define('max_of min_of', ['scalar', 'scalar'], 'scalar', { experimental: true })
define('absent_over_time avg_over_time changes count_over_time delta deriv first_over_time idelta increase irate', ['matrix'], 'vector')
define('last_over_time max_over_time min_over_time present_over_time rate resets stddev_over_time stdvar_over_time sum_over_time', ['matrix'], 'vector')
define('mad_over_time ts_of_first_over_time ts_of_last_over_time ts_of_max_over_time ts_of_min_over_time', ['matrix'], 'vector', { experimental: true })
define('predict_linear', ['matrix', 'scalar'], 'vector')
define('integral', ['matrix', 'scalar'], 'vector', { variadic: 1, experimental: true })
define('quantile_over_time', ['scalar', 'matrix'], 'vector')
define('double_exponential_smoothing', ['matrix', 'scalar', 'scalar'], 'vector', { experimental: true })

/** Every function by name. */
export const FUNCTIONS: ReadonlyMap<string, Signature> = SIGNATURES

/** Every aggregation, with the type of the parameter that stands before the vector. */
export const AGGREGATES: Readonly<Record<AggregateOp, { param?: 'scalar' | 'string'; experimental?: true }>> = {
  sum: {},
  avg: {},
  min: {},
  max: {},
  count: {},
  group: {},
  stddev: {},
  stdvar: {},
  topk: { param: 'scalar' },
  bottomk: { param: 'scalar' },
  quantile: { param: 'scalar' },
  count_values: { param: 'string' },
  limitk: { param: 'scalar', experimental: true },
  limit_ratio: { param: 'scalar', experimental: true },
}
