import t from 'tap'
import { Annotations } from './annotations.ts'

t.test('a text counts once, where it came up last', async (t) => {
  const annotations = new Annotations()
  t.equal(annotations.empty, true)
  annotations.warning('same', { start: 0, end: 1 })
  annotations.warning('same', { start: 2, end: 3 })
  annotations.info('same', { start: 1, end: 2 })
  t.equal(annotations.empty, false)
  t.same(annotations.texts('a+b', 10), { warnings: ['PromQL warning: same (1:3)'], infos: ['PromQL info: same (1:2)'] })
})

t.test('what is over the limit is counted', async (t) => {
  const annotations = new Annotations()
  for (let i = 0; i < 12; i++) annotations.info(`no ${i}`, { start: 0, end: 1 })
  const { warnings, infos } = annotations.texts('x', 10)
  t.same(warnings, [])
  t.equal(infos.length, 11)
  t.equal(infos[9], 'PromQL info: no 9 (1:1)')
  t.equal(infos[10], '2 more info annotations omitted')
  t.equal(annotations.texts('x', 0).infos.length, 12)
})

t.test('forced monotonicity is merged', async (t) => {
  const annotations = new Annotations()
  const pos = { start: 24, end: 27 }
  annotations.forcedMonotonicity('x', pos, 60_000, 1, 2, 0.000123)
  annotations.forcedMonotonicity('x', pos, 0, 0.5, 1.5, 0.01)
  annotations.forcedMonotonicity('x', pos, 120_999, 1, Infinity, 12)
  annotations.forcedMonotonicity('', pos, 0, 1, 2_000_000, 123)
  const text =
    'PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)'
  t.same(annotations.texts('histogram_quantile(0.9, abc)', 0).infos, [
    `${text} for metric name "x", from buckets 0.5 to +Inf, with a max diff of 12, over 3 samples from 1970-01-01T00:00:00Z to 1970-01-01T00:02:00Z (1:25)`,
    `${text}, from buckets 1 to 2e+06, with a max diff of 1.2e+02, over 1 samples from 1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z (1:25)`,
  ])
})
