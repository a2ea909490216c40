/** Windows over histograms: beside staleness markers, and read without their buckets. */
import t from 'tap'
import { histogram } from '../histogram/testing.ts'
import { MemorySource, parseLabels } from '../testing/memory-source.ts'
import { over } from '../testing/run-query.ts'
import { Annotations } from './annotations.ts'

const MINUTE = 60_000
const of = (minute: number, count: number) => ({ time: minute * MINUTE, value: Number.NaN, histogram: histogram({ positive: { 1: count } }) })

t.test('histograms beside staleness markers are in windows', async (t) => {
  const source = new MemorySource()
  source.add(parseLabels('x'), [of(0, 1), { time: MINUTE, value: Number.NaN, stale: true }, of(2, 3), of(3, 7)])
  t.same(await over(0, 3, 'count_over_time(x[3m])', source), ['{} 1 1 2 2'])
  t.same(await over(0, 3, 'histogram_count(last_over_time(x[3m]))', source), ['{} 1 1 3 7'])
  t.same(await over(0, 3, 'histogram_quantile(0.5, last_over_time(x[1m]))', source), [`{} ${2 ** 0.5} _ ${2 ** 0.5} ${2 ** 0.5}`])
})

t.test('whether a counter was reset at the first sample of a window shows without buckets, too', async (t) => {
  const source = new MemorySource()
  source.add(parseLabels('x'), [of(0, 9), of(1, 4), of(2, 5)])
  const warnings = async (range: string): Promise<string[]> => {
    const query = `histogram_count(sum_over_time(x[${range}]))`
    const annotations = new Annotations()
    t.same(await over(2, 2, query, source, { annotations }), ['{} 9'])
    return annotations.texts(query, 10).warnings
  }
  t.match(await warnings('2m'), [/conflicting counter resets/], 'the sample before lies at the open end of the window')
  t.same(await warnings('119s'), [], 'it lies further back')
})
