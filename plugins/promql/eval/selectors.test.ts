import t from 'tap'
import { load, MemorySource, parseLabels, StoredSource } from '../testing/memory-source.ts'
import { at, over } from '../testing/run-query.ts'
import { loadSeries } from '../testing/series-text.ts'
import { Annotations } from './annotations.ts'

const MINUTE = 60_000

t.test('the newest sample within the lookback, whose older end is open', async (t) => {
  const source = load('up 1', MINUTE)
  t.same(await at(0, 'up', source), ['up 1'])
  t.same(await at(4.999, 'up', source), ['up 1'])
  t.same(await at(5, 'up', source), [], 'a sample exactly as old as the lookback is too old')
  t.same(await over(0, 6, 'up', source), ['up 1 1 1 1 1 _ _'])
  t.same(await over(0, 3, 'up', source, { lookback: 2 }), ['up 1 1 _ _'])
})

t.test('the older end of the lookback is open beside staleness markers, for times, and where samples are read as they are stored', async (t) => {
  t.same(await over(0, 6, 'up', load('up 1 _x7 stale', MINUTE)), ['up 1 1 1 1 1 _ _'])
  t.same(await over(0, 9, 'up', load('up 1 _x7 stale', MINUTE)), ['up 1 1 1 1 1 _ _ _ _ _'])
  t.same(await over(0, 6, 'timestamp(up)', load('up 1', MINUTE)), ['{} 0 0 0 0 0 _ _'])
  for (const source of [load('up 1 _x7 2', MINUTE), new StoredSource(load('up 1 _x7 2', MINUTE), () => 0.5)])
    t.same(await at(8, 'count_over_time(up[9m:1m])', source), ['{} 6'], '5 steps see the first')
})

t.test('a staleness marker ends a series until its next sample', async (t) => {
  const source = load('up 1 stale _ 4', MINUTE)
  t.same(await over(0, 4, 'up', source), ['up 1 _ _ 4 4'])
  t.same(await at(1, 'up', source), [])
  t.same(await at(2, 'up', source), [])
})

t.test('offset looks at another time, also ahead', async (t) => {
  const source = load('x 0+1x20', MINUTE)
  t.same(await over(10, 12, 'x offset 3m', source), ['x 7 8 9'])
  t.same(await over(10, 12, 'x offset -3m', source), ['x 13 14 15'])
})

t.test('@ looks at one time from every step', async (t) => {
  const source = load('x 0+1x20', MINUTE)
  t.same(await over(10, 12, 'x @ 300', source), ['x 5 5 5'])
  t.same(await over(10, 12, 'x @ 300 offset 1m', source), ['x 4 4 4'])
  t.same(await over(10, 12, 'x @ start()', source), ['x 10 10 10'])
  t.same(await over(10, 12, 'x @ end()', source), ['x 12 12 12'])
  t.equal(
    source.requests.every(({ newestOnly }) => newestOnly),
    true,
    'one sample a series is enough',
  )
})

t.test('durations may be calculated, with the step and the range of the query', async (t) => {
  const source = load('x 0+1x40', MINUTE)
  t.same(await over(10, 12, 'x offset (1m + 2m)', source), ['x 7 8 9'])
  t.same(await over(10, 12, 'x offset step()', source), ['x 9 10 11'])
  t.same(await over(10, 12, 'x offset -range()', source), ['x 12 13 14'])
  t.same(await over(10, 12, 'count_over_time(x[max_of(step(), 3m)])', source), ['{} 3 3 3'])
  await t.rejects(over(10, 12, 'x offset (1m / (step() - 1m))', source), { message: /^\d+:\d+: division by zero$/ })
  await t.rejects(over(10, 12, 'rate(x[1m - 2m])', source), { message: '7:14: duration must be greater than 0' })
  await t.rejects(over(10, 12, 'rate(x[(step()) * 0])', source), { message: '8:19: duration must be greater than 0' }, 'parentheses do not count')
  await t.rejects(over(10, 12, 'rate(x[((0s) - 1m)])', source), { message: '8:17: duration must be greater than 0' }, 'but around a literal')
})

t.test('only what is needed is read, and once', async (t) => {
  const source = load('x 0+1x20\ny 1x20', MINUTE)
  await at(10, 'x', source)
  t.match(source.requests, [{ after: 5 * MINUTE, upTo: 10 * MINUTE, newestOnly: true }])
  source.requests.length = 0
  await over(10, 12, 'x + x - y * x', source)
  t.equal(source.requests.length, 2, 'x is read once')
  t.match(source.requests, [{ after: 5 * MINUTE, upTo: 12 * MINUTE, newestOnly: undefined }])
})

t.test('series in several blocks, and such without samples', async (t) => {
  const source = load(Array.from({ length: 10 }, (_, i) => `x{i="${i}"} ${i % 3 === 1 ? '_x5' : `${i}x5`}`).join('\n'), MINUTE, new MemorySource(3))
  const expected = [0, 2, 3, 5, 6, 8, 9].map((i) => `x{i="${i}"} ${i} ${i}`)
  t.same(await over(0, 1, 'x', source), expected)
})

t.test('timestamp() of a selector is the time of its samples', async (t) => {
  const source = load('x 5 _ _ 7', MINUTE)
  t.same(await over(0, 4, 'timestamp(x)', source), ['{} 0 0 0 180 180'])
  t.same(await over(0, 4, 'timestamp(x + 0)', source), ['{} 0 60 120 180 240'])
})

t.test('smoothed selectors', async (t) => {
  const source = load('x 0 _ _ 30 _ _ _ _ _ _', MINUTE)
  t.same(await over(0, 5, 'x smoothed', source), ['x 0 10 20 30 30 30'])
  t.same(await over(8, 9, 'x smoothed', source), [])
  t.same(await at(1, 'x smoothed', load('x _ _ 3', MINUTE)), [], 'nothing before')
  const apart = load('x 0 _x9 10', MINUTE)
  t.same(await over(4, 6, 'x smoothed', apart), ['x 0 _ _'], 'one exactly as old as the lookback is too old')
  t.same(await over(4, 6, 'x smoothed', load('x _ 1 _x8 10', MINUTE)), ['x 1 5 _'], 'one ahead by as much is not')
})

t.test('smoothed selectors of native histograms go along the line between two, from zero behind a reset', async (t) => {
  const sized = (sum: number, hint = '') => `{{schema:0 sum:${sum} count:${sum} buckets:[${sum}]${hint && ` counter_reset_hint:${hint}`}}}`
  const sums = async (samples: string, annotations = new Annotations()) =>
    over(0, 5, 'histogram_sum(h smoothed)', loadSeries([`h ${samples}`], MINUTE), { annotations })
  t.same(await sums(`${sized(0)} _ _ _ ${sized(12)}`), ['{} 0 3 6 9 12 12'])
  t.same(await sums(`${sized(20)} _ _ _ ${sized(8)}`), ['{} 20 2 4 6 8 8'])
  t.same(await sums(`${sized(20, 'gauge')} _ _ _ ${sized(8, 'gauge')}`), ['{} 20 17 14 11 8 8'], 'a gauge may fall')
  for (const [from, to] of [
    ['gauge', ''],
    ['', 'gauge'],
  ])
    t.same(await sums(`${sized(20, from)} _ _ _ ${sized(8, to)}`), ['{} 20 2 4 6 8 8'], 'one of the two is a counter')
  for (const [samples, expected] of [
    [`7 ${sized(1)} ${sized(2)}`, '{} _ _ _ _ _ 2'],
    [`${sized(20)} _ {{schema:-53 sum:1 count:1 custom_values:[1] buckets:[1 0]}}`, '{} 20 _ 1 1 1 1'],
  ]) {
    const annotations = new Annotations()
    t.same(await sums(samples, annotations), [expected], 'there is no line between two kinds')
    t.equal(annotations.texts('', 10).warnings.length, 1)
  }
})

t.test('smoothed selectors look past staleness markers, and subqueries at steps of theirs see what they do', async (t) => {
  const source = load('x 0 stale _ 30', MINUTE)
  t.same(await over(0, 3, 'x smoothed', source), ['x 0 10 20 30'])
  t.same(await at(3, 'sum_over_time((x smoothed)[3m:1m])', source), ['{} 60'])
  for (const same of [load('x 0 10 20 30', MINUTE), new StoredSource(load('x 0 10 20 30', MINUTE), () => 0.5)])
    t.same(await at(3, 'sum_over_time((x @ 60)[3m:1m])', same), ['{} 30'], 'at one time from each')
})

t.test('subqueries of comparisons with a number have what passes, of each series', async (t) => {
  const source = loadSeries(['x -10 -3 -7 8', `h ${'{{schema:0 sum:1 count:1 buckets:[1]}}'}x4`], MINUTE)
  t.same(await at(3, 'count_over_time((x > -(5))[3m:1m])', source), ['{} 2'])
  t.same(await at(3, 'sum_over_time((x > bool -5)[3m:1m])', source), ['{} 2'])
  for (const op of ['>', '!=', '<=']) t.same(await at(3, `count_over_time((h ${op} 0)[3m:1m])`, source), [], 'no histogram compares with a number')
  const many = new MemorySource(1000)
  for (let i = 0; i < 300; i++) many.add(parseLabels(`x{i="${i}"}`), [{ time: 0, value: i }])
  t.same(await at(4, 'sum(sum_over_time(x[4m:1s]))', many), [`{} ${((299 * 300) / 2) * 240}`], 'whatever the steps of all come to')
})

t.test('many series over several blocks', async (t) => {
  const source = new MemorySource(1000)
  for (let i = 0; i < 2500; i++) source.add(parseLabels(`x{i="${i}"}`), [{ time: 0, value: i }])
  t.same(await at(0, 'sum(x)', source), [`{} ${(2499 * 2500) / 2}`])
  t.same(await over(0, 1, 'count(x)', source), ['{} 2500 2500'])
})
