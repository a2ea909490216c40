import t from 'tap'
import { load, type MemorySource, StoredSource } from '../testing/memory-source.ts'
import { at, over } from '../testing/run-query.ts'

const MINUTE = 60_000

t.test('windows are open at their older end', async (t) => {
  const source = load('x 0+1x20', MINUTE)
  t.same(await over(3, 5, 'count_over_time(x[2m])', source), ['{} 2 2 2'])
  t.same(await over(3, 5, 'sum_over_time(x[2m])', source), ['{} 5 7 9'])
  t.same(await over(3, 5, 'last_over_time(x[2m])', source), ['x 3 4 5'], 'keeps the name')
  t.same(await over(0, 2, 'count_over_time(x[2m])', source), ['{} 1 2 2'])
})

t.test('windows further apart than they are long', async (t) => {
  const source = load('x 0+1x40', MINUTE)
  t.same(await over(2, 32, 'sum_over_time(x[2m])', source, { step: 10 }), ['{} 3 23 43 63'])
})

t.test('windows that do not overlap end where they should over samples as they are stored, too', async (t) => {
  const even = load('x 0+1x40', MINUTE)
  const uneven = load('x 1 _ 1 1 1 1 1', MINUTE)
  for (const kept of [(source: MemorySource) => source, (source: MemorySource) => new StoredSource(source, () => 0.5)]) {
    t.same(await over(2, 22, 'sum_over_time(x[9m])', kept(even), { step: 10 }), ['{} 3 72 162'])
    t.same(await over(2, 5, 'sum_over_time(x[1m])', kept(even)), ['{} 2 3 4 5'])
    t.same(await over(2, 6, 'count_over_time(x[2m])', kept(uneven), { step: 2 }), ['{} 1 2 2'], 'more than in the one before')
    t.same(await over(2, 4, 'count_over_time(x[3m])', kept(even)), ['{} 3 3 3'], 'nor those that do')
  }
})

t.test('a large window that stays is there for all steps', async (t) => {
  const [answer] = await over(50, 90, 'quantile_over_time(time() * 0 + 1, x[50m] @ 3000)', load('x 0+1x3000', 1000))
  t.equal(answer, `{}${' 3000'.repeat(41)}`)
})

t.test('windows of series with holes hold what lies in them', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  let state = seed
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
  const SCRAPE = 10_000
  for (let round = 0; round < 30; round++) {
    const holes = round % 3 === 0 ? 0 : random() * 0.9
    const samples = Array.from({ length: 200 }, () => (random() < holes ? undefined : Math.floor(random() * 100)))
    const source = load(`x ${samples.map((value) => value ?? '_').join(' ')}`, SCRAPE)
    for (const [range, step] of [
      [2, 3],
      [3, 3],
      [5, 2],
      [1, 7],
    ]) {
      const expected: (number | string)[] = []
      for (let minute = 0; minute <= 35; minute += step) {
        const inside = samples.filter((_, i) => i * SCRAPE <= minute * MINUTE && i * SCRAPE > (minute - range) * MINUTE).filter((value) => value !== undefined)
        expected.push(inside.length === 0 ? '_' : inside.reduce((sum, value) => sum + value, 0))
      }
      const result = await over(0, Math.floor(35 / step) * step, `sum_over_time(x[${range}m])`, source, { step })
      t.same(result, expected.every((value) => value === '_') ? [] : [`{} ${expected.join(' ')}`], `[${range}m] every ${step}m`)
    }
  }
})

t.test('stale samples are not in windows, and steps without samples have no result', async (t) => {
  const source = load('x 1 stale 3 _ _ _ 7', MINUTE)
  t.same(await over(0, 7, 'sum_over_time(x[2m])', source), ['{} 1 1 3 3 _ _ 7 7'])
})

t.test('@ gives all steps one window, whatever else changes', async (t) => {
  const source = load('x 0+1x20', MINUTE)
  t.same(await over(10, 12, 'sum_over_time(x[2m] @ 300)', source), ['{} 9 9 9'])
  t.same(await over(10, 12, 'quantile_over_time(scalar(x) / 12, x[5m] @ 300)', source), [`{} ${1 + (4 * 10) / 12} ${1 + (4 * 11) / 12} 5`])
})

t.test('subqueries are evaluated at multiples of their step', async (t) => {
  const source = load('x 0+1x40', MINUTE)
  t.same(await at(10.5, 'x[3m:1m]', source), ['x 8@480 9@540 10@600'])
  t.same(await at(10, 'x[4m:2m]', source), ['x 8@480 10@600'], 'without the older end')
  t.same(await at(10, 'x[3m:]', source), ['x 8@480 9@540 10@600'], 'the default step')
  t.same(await at(10, 'x[3m:1m] offset 2m', source), ['x 6@360 7@420 8@480'])
  t.same(await at(10, 'x[3m:1m] @ 300', source), ['x 3@180 4@240 5@300'])
  t.same(await over(10, 12, 'sum_over_time(x[2m:1m])', source), ['{} 19 21 23'])
  t.same(await over(10, 12, 'max_over_time(sum_over_time(x[2m:1m])[3m:1m])', source), ['{} 19 21 23'])
  t.same(await over(10, 12, 'max_over_time((x @ 300)[3m:1m])', source), ['{} 5 5 5'])
  t.same(await over(10, 12, 'sum_over_time(vector(1)[3m:1m])', source), ['{} 3 3 3'])
})

t.test('a bare range selector gives the samples themselves', async (t) => {
  const source = load('x 0+1x20\ny 1 stale 3', MINUTE)
  t.same(await at(3, 'x[2m]', source), ['x 2@120 3@180'])
  t.same(await at(2, 'y[5m]', source), ['y 1@0 3@120'])
  t.same(await at(12, 'rate(x[2m])[2m:1m]', source), [`{} ${1 / 60}@660 ${1 / 60}@720`])
})

t.test('anchored and smoothed ranges', async (t) => {
  const source = load('c_total 0+10x20', MINUTE)
  t.same(await at(10.5, 'increase(c_total[2m] anchored)', source), ['{} 20'])
  t.same(await at(10.5, 'increase(c_total[2m] smoothed)', source), ['{} 20'])
  t.same(await at(10.5, 'c_total[1m] anchored', source), ['c_total 90@570 100@600 100@630'])
  t.same(await at(10.5, 'c_total[1m] smoothed', source), ['c_total 95@570 100@600 105@630'])
  const message = 'anchored modifier can only be used with: changes, delta, increase, rate, resets - not with sum_over_time'
  await t.rejects(at(10, 'sum_over_time(c_total[2m] anchored)', source), { message })
  await t.rejects(at(10, 'resets(c_total[2m] smoothed)', source), {
    message: 'smoothed modifier can only be used with: delta, increase, rate - not with resets',
  })
})

t.test('absent_over_time', async (t) => {
  const source = load('x{a="b"} _ _ 3', MINUTE)
  t.same(await over(0, 4, 'absent_over_time(x{a="b"}[1m])', source), ['{a="b"} 1 1 _ 1 1'])
})

t.test('what only follows the time is evaluated at every step', async (t) => {
  const source = load('x 0+1x20', MINUTE)
  t.same(await over(10, 12, 'time()', source), ['600 660 720'])
  t.same(await over(10, 12, 'x @ 300 + time()', source), ['{} 605 665 725'])
  t.same(await over(10, 12, 'end() - start() + step()', source), ['180 180 180'])
})

t.test('of one window nothing but the newest sample is read by functions of it alone', async (t) => {
  const source = load('x{a="1"} 1 2 3 4\nx{a="2"} 5 6 _ _\ny{a="1"} 1 2 stale _\ny{a="2"} 7 _ _ 8\ny{a="3"} 9 stale _ _ stale', MINUTE)
  const newest = (): boolean[] => source.requests.splice(0).map(({ newestOnly }) => newestOnly === true)
  t.same(await at(3, 'last_over_time(x[3m])', source), ['x{a="1"} 4', 'x{a="2"} 6'])
  t.same(await at(3, 'ts_of_last_over_time(x[3m])', source), ['{a="1"} 180', '{a="2"} 60'])
  t.same(await at(3, 'present_over_time(x[90s])', source), ['{a="1"} 1'])
  t.same(await at(3, 'absent_over_time(x{a="2"}[90s])', source), ['{a="2"} 1'])
  t.same(await over(2, 3, 'last_over_time(x[1m] @ 60)', source), ['x{a="1"} 2 2', 'x{a="2"} 6 6'])
  t.same(newest(), [true, true, true, true, true])
  t.same(await at(3, 'last_over_time(y[4m])', source), ['y{a="1"} 2', 'y{a="2"} 8', 'y{a="3"} 9'])
  t.same(newest(), [true, false], 'what is before a staleness marker has to be read')
  t.same(await over(2, 3, 'last_over_time(x[3m])', source), ['x{a="1"} 3 4', 'x{a="2"} 6 6'])
  t.same(await at(3, 'first_over_time(x[3m])', source), ['x{a="1"} 2', 'x{a="2"} 6'])
  t.same(newest(), [false, false])
})
