/**
 * The functions, as docs/reference/sql-functions.md defines each: what SQL can say as SQL, and what follows a recursion or needs a whole series by a module
 * over columns.
 */
import type { SqlArgument, SqlFunction } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'

const SERIES = moduleUrl('./series-functions.ts', import.meta.url)
const FORECASTS = moduleUrl('./forecast-functions.ts', import.meta.url)
const ANOMALIES = moduleUrl('./anomaly-expressions.ts', import.meta.url)
const DIFFERENCES = moduleUrl('./differences.ts', import.meta.url)
const MAX_ROWS = 1_000_000
/** Steps that a forecast may reach ahead: a year of hours. */
const MAX_HORIZON = 8760

const value = (name: string): SqlArgument => ({ name, type: 'DOUBLE' })
const width: SqlArgument = { name: 'width', type: 'INTEGER', constant: { min: 1, max: MAX_ROWS } }
const threshold: SqlArgument = { name: 'threshold', type: 'DOUBLE', constant: { above: 0 } }
const season: readonly SqlArgument[] = [
  value('v'),
  { name: 'period', type: 'INTEGER', constant: { min: 2, max: MAX_ROWS } },
  { name: 'robust', type: 'BOOLEAN', constant: true, default: false },
]
const TRAILING = 'OVER (ordered ROWS BETWEEN width - 1 PRECEDING AND CURRENT ROW)'

type Declared = Omit<SqlFunction, 'kind'>
const window = (name: string, args: readonly SqlArgument[], summary: string, body: Partial<Declared>): SqlFunction => ({
  name,
  kind: 'window',
  args,
  summary,
  ...body,
})
const overSeries = { module: SERIES, returns: 'DOUBLE' } as const
/** Samples of groups come as they lie and are sorted by the modules: an aggregate that sorts takes 64 KB a group, and a statement has thousands of them. */
const counter = { kind: 'aggregate', args: [value('v'), { name: 'ts', type: 'TIMESTAMP_NS' }], ...overSeries } as const

const time: SqlArgument = { name: 'ts', type: 'TIMESTAMP_NS' }
const horizon: SqlArgument = { name: 'horizon', type: 'INTEGER', constant: { min: 1, max: MAX_HORIZON } }
const byModel: SqlArgument = { name: 'model', type: 'VARCHAR', constant: true, default: 'ses' }
/** A level of 1 would have no ends. */
const level: SqlArgument = { name: 'level', type: 'DOUBLE', constant: { above: 0, max: 0.999999 }, default: 0.95 }
const ahead = { kind: 'aggregate', module: FORECASTS, returns: 'DOUBLE[]' } as const
const detector = (name: string): SqlArgument => ({ name: 'detector', type: 'VARCHAR', constant: true, default: name })
const byDetector = { module: ANOMALIES, makesExpression: true } as const

export const functions: readonly SqlFunction[] = [
  {
    name: 'forecast',
    summary: 'The next values of a series, by exponential smoothing or a model by name',
    args: [value('v'), time, horizon, byModel],
    ...ahead,
  },
  ...(['lower', 'upper'] as const).map((edge) => ({
    name: `forecast_${edge}`,
    summary: `The ${edge} ends of the intervals of a forecast`,
    args: [value('v'), time, horizon, byModel, level],
    ...ahead,
  })),
  {
    name: 'forecast_interval',
    kind: 'aggregate',
    summary: 'A forecast with its intervals',
    args: [value('v'), time, horizon, byModel, level],
    expression:
      'struct_pack(forecast := forecast(v, ts, horizon, model), lower := forecast_lower(v, ts, horizon, model, level), upper := forecast_upper(v, ts, horizon, model, level))',
  },
  { name: 'auto_forecast', summary: 'The next values of a series, by the model that would have forecast it best', args: [value('v'), time, horizon], ...ahead },
  {
    name: 'multivariate_forecast',
    summary: 'The next values of a series, from its own past and that of another',
    args: [value('target'), value('predictor'), time, horizon],
    ...ahead,
  },
  { name: 'rate', summary: 'Increase of a counter per second', ...counter },
  { name: 'irate', summary: 'Increase of a counter per second over its last two samples', ...counter },
  window('diff', [value('v'), { name: 'order', type: 'INTEGER', constant: { min: 1, max: 16 }, default: 1 }], 'Difference to the sample before', {
    module: DIFFERENCES,
    makesExpression: true,
  }),
  window('pct_change', [value('v')], 'Change relative to the sample before', { expression: 'v / lag(v, 1 IGNORE NULLS) OVER ordered - 1' }),
  window('rolling_mean', [value('v'), width], 'Mean of the last rows', { expression: `avg(v) ${TRAILING}` }),
  window('rolling_std', [value('v'), width], 'Sample standard deviation of the last rows', { expression: `stddev_samp(v) ${TRAILING}` }),
  window('rolling_corr', [value('a'), value('b'), width], 'Pearson correlation over the last rows', { expression: `corr(a, b) ${TRAILING}` }),
  // A constant series has no spread: its scores are 0, not a division by zero.
  window('zscore', [value('v')], 'Distance from the mean in standard deviations', {
    expression: 'CASE WHEN stddev_samp(v) OVER whole = 0 THEN v * 0 ELSE (v - avg(v) OVER whole) / stddev_samp(v) OVER whole END',
  }),
  window(
    'anomaly_score',
    [value('v'), threshold, detector('zscore')],
    'Score of a detector, by default the absolute z-score, relative to a threshold',
    byDetector,
  ),
  window(
    'detect_anomalies',
    [value('v'), detector('zscore'), { name: 'threshold', type: 'DOUBLE', constant: { min: 0 }, default: 0 }],
    'Whether a detector finds the sample unusual',
    byDetector,
  ),
  window('_detector_score', [value('v'), detector('zscore')], 'Score of a detector of one series', overSeries),
  window('_detector_score_of_two', [value('a'), value('b'), detector('pca')], 'Score of a detector of rows', overSeries),
  window('ewm', [value('v'), { name: 'alpha', type: 'DOUBLE', constant: { above: 0, max: 1 } }], 'Exponentially weighted mean', overSeries),
  window('stl_trend', season, 'Trend of a series by STL', overSeries),
  window('stl_seasonal', season, 'Seasonal part of a series by STL', overSeries),
  window('stl_residual', season, 'What STL leaves of a series', overSeries),
  window('stl_decompose', [{ name: 'v' }, ...season.slice(1)], 'All three parts of a series by STL', {
    expression: `struct_pack(${['trend', 'seasonal', 'residual'].map((part) => `${part} := stl_${part}(v, period, robust) OVER ordered`).join(', ')})`,
  }),
  window('correlation', [value('a'), value('b')], 'Pearson correlation over the partition', { expression: 'corr(a, b) OVER whole' }),
  window(
    'cross_correlation',
    [value('a'), value('b'), { name: 'lag', type: 'INTEGER', constant: { min: -MAX_ROWS, max: MAX_ROWS } }],
    'Correlation with another series some rows before',
    overSeries,
  ),
  { name: '_mahalanobis', kind: 'scalar', summary: 'Distance of two z-scores', args: ['za', 'zb', 'r'].map(value), bounded: true, ...overSeries },
  window(
    'multivariate_anomaly',
    [value('a'), value('b'), threshold, detector('mahalanobis')],
    'Score of a detector of rows, by default the Mahalanobis distance, relative to a threshold',
    byDetector,
  ),
]
