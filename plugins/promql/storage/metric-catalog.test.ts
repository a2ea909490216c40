import type { MeasurementFields } from 'svcdb'
import t from 'tap'
import type { LabelMatcher } from '../ast.ts'
import { Labels } from '../labels.ts'
import { KeptLabels, MetricCatalog, splitMatchers } from './metric-catalog.ts'

const schema = (measurements: Record<string, Record<string, string>>): MeasurementFields[] =>
  Object.entries(measurements).map(
    ([name, fields]) => ({ name, fields: Object.entries(fields).map(([field, type]) => ({ name: field, type })) }) as MeasurementFields,
  )

const SCHEMA = schema({
  up: { value: 'float64', note: 'string' },
  cpu: { usage: 'float64', idle: 'int64' },
  cpu_usage: { value: 'float64' },
  latency: { value: 'histogram' },
  latency_count: { value: 'float64' },
  both: { 'value:float': 'float64', 'value:histogram': 'histogram' },
})
const catalog = MetricCatalog.of(SCHEMA)
const select = (...conditions: [LabelMatcher['op'], string][]) =>
  catalog
    .select(conditions.map(([op, value]) => ({ name: '__name__', op, value })))
    .map(({ name, measurement, field, part }) => `${name} = ${measurement}.${field}${part === undefined ? '' : ` ${part}`}`)

t.test('fields have names, texts have none', async (t) => {
  t.same(
    catalog.metrics.map(({ name }) => name),
    ['both', 'both', 'cpu_idle', 'cpu_usage', 'cpu_usage', 'latency', 'latency_count', 'up'],
  )
  t.equal(MetricCatalog.of(SCHEMA), catalog, 'made once a schema')
  t.not(MetricCatalog.of([...SCHEMA]), catalog)
})

t.test('conditions on the name', async (t) => {
  t.same(select(['=', 'up']), ['up = up.value'])
  t.same(select(['=', 'cpu']), [])
  t.same(select(['=', '']), [])
  t.same(select(['=', 'cpu_usage']), ['cpu_usage = cpu.usage', 'cpu_usage = cpu_usage.value'])
  t.same(select(['=~', 'cpu_.*'], ['!=', 'cpu_usage']), ['cpu_idle = cpu.idle'])
  t.same(select(['=~', 'u.|lat.*'], ['!~', '.*_count']), ['latency = latency.value', 'up = up.value'])
  t.same(select(['=', 'up'], ['!~', 'u.*']), [])
  t.same(select(['=', 'up'], ['=', 'latency']), [])
  t.equal(select().length, catalog.metrics.length)
})

t.test('native histograms answer to classic names that nothing else has', async (t) => {
  t.same(select(['=', 'latency_bucket']), ['latency_bucket = latency.value bucket'])
  t.same(select(['=', 'latency_sum']), ['latency_sum = latency.value sum'])
  t.same(select(['=', 'latency_count']), ['latency_count = latency_count.value'])
  t.same(select(['=~', 'latency_(sum|bucket)']), [], 'they are not listed')
  t.same(select(['=', 'up_count']), [])
  t.same(select(['=', 'both_sum']), ['both_sum = both.value:histogram sum'], 'floats beside them have none')
  t.equal(catalog.select([{ name: '__name__', op: '=', value: 'latency_sum' }])[0], catalog.select([{ name: '__name__', op: '=', value: 'latency_sum' }])[0])
})

t.test('matchers on the name are told from the others', async (t) => {
  const matchers: LabelMatcher[] = ['__name__', 'a', '__name__'].map((name) => ({ name, op: '=', value: 'x' }))
  const { names, others } = splitMatchers(matchers)
  t.same([names.length, others.map(({ name }) => name)], [2, ['a']])
})

t.test('label sets are made once, and kept up to a number of all metrics', async (t) => {
  const [metric] = catalog.select([{ name: '__name__', op: '=', value: 'up' }])
  let made = 0
  const make = () => {
    made++
    return Labels.of({ a: 'b' })
  }
  t.equal(metric.labelsOf(7, make), metric.labelsOf(7, make))
  t.equal(made, 1)
  const kept = new KeptLabels(3)
  const maps = [new Map<number, Labels>(), new Map<number, Labels>()]
  for (let i = 0; i < 4; i++) {
    kept.room(maps[i % 2])
    maps[i % 2].set(i, Labels.EMPTY)
  }
  t.same(
    maps.map((map) => [...map.keys()]),
    [[], [3]],
  )
})
