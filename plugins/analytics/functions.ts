/**
 * The functions, as docs/reference/sql-functions.md defines each: what SQL can say as SQL, and what follows a recursion or needs a whole series by a module
 * over columns.
 */
import type { SqlArgument, SqlFunction } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'

const SERIES = moduleUrl('./series-functions.ts', import.meta.url)
const DIFFERENCES = moduleUrl('./differences.ts', import.meta.url)
const MAX_ROWS = 1_000_000

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
const counter = { kind: 'aggregate', args: [value('v'), { name: 'ts', type: 'TIMESTAMP_NS' }], orderedBy: 'ts', ...overSeries } as const

export const functions: readonly SqlFunction[] = [
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
  window('anomaly_score', [value('v'), threshold], 'Absolute z-score relative to a threshold', { expression: 'abs(zscore(v) OVER whole) / threshold' }),
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
  window('multivariate_anomaly', [value('a'), value('b'), threshold], 'Mahalanobis distance relative to a threshold', {
    expression: '_mahalanobis(zscore(a) OVER whole, zscore(b) OVER whole, coalesce(corr(a, b) OVER whole, 0)) / threshold',
  }),
]
