import t from 'tap'
import { load } from '../testing/memory-source.ts'
import { at, over } from '../testing/run-query.ts'
import { Annotations } from './annotations.ts'

const MINUTE = 60_000

t.test('scalars', async (t) => {
  const source = load('', MINUTE)
  t.same(await at(0, '7 % 4 + 2 ^ 3 ^ 0', source), ['5'])
  t.same(await at(0, '1 > bool 2', source), ['0'])
  t.same(await at(0, '-1 % 0.6', source), ['-0.4'])
  t.same(await at(0, '1 / 0 - 1 / 0', source), ['NaN'])
  t.same(await at(0, '1 ^ NaN + 2 atan2 0 * 0', source), [String(1 + Math.atan2(2, 0) * 0)])
})

t.test('a vector and a scalar', async (t) => {
  const source = load('x{a="1"} 1 2 3\nx{a="2"} 3 2 1', MINUTE)
  t.same(await over(0, 2, 'x * 2', source), ['{a="1"} 2 4 6', '{a="2"} 6 4 2'])
  t.same(await over(0, 2, '6 / x', source), ['{a="1"} 6 3 2', '{a="2"} 2 3 6'])
  t.same(await over(0, 2, 'x > 1', source), ['x{a="1"} _ 2 3', 'x{a="2"} 3 2 _'], 'comparisons filter and keep the name')
  t.same(await over(0, 2, '2 < x', source), ['x{a="1"} _ _ 3', 'x{a="2"} 3 _ _'], 'the value is that of the vector')
  t.same(await over(0, 2, 'x >= bool 2', source), ['{a="1"} 0 1 1', '{a="2"} 1 1 0'])
  t.same(await over(0, 2, 'x == scalar(x{a="1"})', source), ['x{a="1"} 1 2 3', 'x{a="2"} _ 2 _'])
  t.same(await over(0, 2, '-x', source), ['{a="1"} -1 -2 -3', '{a="2"} -3 -2 -1'])
})

t.test('one to one', async (t) => {
  const source = load('x{a="1",b="1"} 1 2\nx{a="2",b="1"} 10 _\ny{a="1",b="2"} 5 5\ny{a="3",b="2"} 7 7', MINUTE)
  t.same(await over(0, 1, 'x + on(a) y', source), ['{a="1"} 6 7'])
  t.same(await over(0, 1, 'x + ignoring(b) y', source), ['{a="1"} 6 7'])
  t.same(await over(0, 1, 'x + y', source), [])
  t.same(await over(0, 1, 'x < on(a) y', source), ['{a="1"} 1 2'])
  t.same(await over(0, 1, 'x < ignoring(b) y', source), ['x{a="1"} 1 2'], 'a comparison keeps the name')
  t.same(await over(0, 1, 'x > bool ignoring(b) y', source), ['{a="1"} 0 0'])
  t.same(await over(0, 1, 'x - x', source), ['{a="1",b="1"} 0 0', '{a="2",b="1"} 0 0'])
})

t.test('several series of a group are an error only where they meet', async (t) => {
  const turns = load('x{a="1"} 1 stale\nx{a="2"} _ 2\ny 10 10', MINUTE)
  t.same(await over(0, 1, 'x + ignoring(a) y', turns), ['{} 11 12'], 'one after the other')
  t.same(await over(0, 1, 'y + ignoring(a) x', turns), ['{} 11 12'])
  const both = load('x{a="1"} 1 1\nx{a="2"} _ 2\ny 10 10', MINUTE)
  t.same(await at(0, 'x + ignoring(a) y', both), ['{} 11'])
  const message = 'multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)'
  await t.rejects(over(0, 1, 'x + ignoring(a) y', both), { message })
  await t.rejects(over(0, 1, 'y + ignoring(a) x', both), {
    message:
      'found duplicate series for the match group {} on the right hand-side of the operation: [{__name__="x", a="1"}, {__name__="x", a="2"}]' +
      ';many-to-many matching not allowed: matching labels must be unique on one side',
  })
  await t.rejects(over(0, 1, 'x + ignoring(a) group_right y', both), { message: /match group \{\} on the left hand-side/ })
  t.same(await over(0, 1, 'x + ignoring(a) nothing', both), [], 'nothing to match: nothing to complain about')
})

t.test('many to one', async (t) => {
  const source = load('x{a="1",b="1"} 1\nx{a="1",b="2"} 2\nx{a="2",b="1"} 3\ny{a="1",c="z"} 10', MINUTE)
  t.same((await at(0, 'x * on(a) group_left y', source)).sort(), ['{a="1",b="1"} 10', '{a="1",b="2"} 20'])
  t.same((await at(0, 'x * on(a) group_left(c) y', source)).sort(), ['{a="1",b="1",c="z"} 10', '{a="1",b="2",c="z"} 20'])
  t.same((await at(0, 'y - on(a) group_right(c) x', source)).sort(), ['{a="1",b="1",c="z"} 9', '{a="1",b="2",c="z"} 8'])
  t.same((await at(0, 'x < on(a) group_left(c) y', source)).sort(), ['x{a="1",b="1",c="z"} 1', 'x{a="1",b="2",c="z"} 2'])
  const message = 'multiple matches for labels: grouping labels must ensure unique matches'
  await t.rejects(at(0, 'x * on(a) group_left(b) y', source), { message })
})

t.test('fill modifiers', async (t) => {
  const source = load('x{a="1"} 1 1\nx{a="2"} 2 stale\ny{a="1"} 10 stale\ny{a="3"} 30 30', MINUTE)
  t.same(await over(0, 1, 'x + fill(0) y', source), ['{a="1"} 11 1', '{a="2"} 2 _', '{a="3"} 30 30'])
  t.same(await over(0, 1, 'x + fill_right(100) y', source), ['{a="1"} 11 101', '{a="2"} 102 _'])
  t.same(await over(0, 1, 'x + fill_left(100) y', source), ['{a="1"} 11 _', '{a="3"} 130 130'])
})

t.test('fill modifiers are those of the sides as they are written, with group_right too', async (t) => {
  const source = load('many{a="1",b="1"} 1\nmany{a="2",b="1"} 2\none{a="1"} 100\none{a="3"} 300', MINUTE)
  const asked = async (query: string) => (await at(0, query, source)).sort()
  t.same(await asked('one - on(a) group_right fill_left(5) many'), ['{a="1",b="1"} 99', '{a="2",b="1"} 3'])
  t.same(await asked('one - on(a) group_right fill_right(7) many'), ['{a="1",b="1"} 99', '{a="3"} 293'])
  t.same(await asked('one - on(a) group_right fill_left(5) fill_right(7) many'), ['{a="1",b="1"} 99', '{a="2",b="1"} 3', '{a="3"} 293'])
  t.same(await asked('many - on(a) group_left fill_left(7) fill_right(5) one'), ['{a="1",b="1"} -99', '{a="2",b="1"} -3', '{a="3"} -293'])
})

t.test('and, or, unless', async (t) => {
  const source = load('x{a="1"} 1 1 stale\nx{a="2"} 2 2 2\ny{a="1"} _ 5 5\nz{a="1",b="1"} 7 7 7', MINUTE)
  t.same(await over(0, 2, 'x and y', source), ['x{a="1"} _ 1 _'])
  t.same(await over(0, 2, 'x unless y', source), ['x{a="1"} 1 _ _', 'x{a="2"} 2 2 2'])
  t.same(await over(0, 2, 'x or y', source), ['x{a="1"} 1 1 _', 'x{a="2"} 2 2 2', 'y{a="1"} _ _ 5'])
  t.same(await over(0, 2, 'x and on() vector(1)', source), ['x{a="1"} 1 1 _', 'x{a="2"} 2 2 2'])
  t.same(await over(0, 2, '-x > 0 or x', source), ['x{a="1"} 1 1 _', 'x{a="2"} 2 2 2'], 'the name goes with the side of the first sample')
  t.same(await over(0, 2, 'x or on(a) z', source), ['x{a="1"} 1 1 _', 'x{a="2"} 2 2 2', 'z{a="1",b="1"} _ _ 7'])
  t.same(await over(0, 2, 'sum_over_time((x{a="2"} and on() y or x{a="2"})[3m:1m])', source), ['{a="2"} 2 4 6'], 'one series of both sides')
})

t.test('names that go later must not make series the same', async (t) => {
  const source = load('x{a="1"} 1 stale\ny{a="1"} _ 2\nz{a="1"} 3 3', MINUTE)
  t.same(await over(0, 1, 'rate({__name__=~"x|y"}[1m]) or x + 1', source), ['{a="1"} 2 _'])
  t.same(await over(0, 1, 'abs({__name__=~"x|y"})', source), ['{a="1"} 1 2'], 'two series in turn are one')
  await t.rejects(over(0, 1, 'abs({__name__=~"x|z"})', source), { message: 'vector cannot contain metrics with the same labelset' })
  t.same(
    await over(0, 1, 'sum by (__name__) (abs({__name__=~"x|z"}))', source).catch((error) => error.message),
    'vector cannot contain metrics with the same labelset',
  )
  t.same(await over(0, 1, 'count(abs({__name__=~"x|z"}))', source), ['{} 2 1'], 'not before the end')
})

t.test('samples that no operator takes', async (t) => {
  const annotations = new Annotations()
  t.same(await at(0, 'x </ 3', load('x 1', MINUTE), { annotations }), [])
  t.same(annotations.texts('x </ 3', 0).infos, ['PromQL info: incompatible sample types encountered for binary operator "</": float </ float (1:1)'])
})

t.test('many series that are matched step by step leave turns to others within a step', async (t) => {
  const series = 8000
  const source = load(Array.from({ length: series }, (_, i) => `x{a="${i}"} ${i}`).join('\n'), MINUTE)
  const { now } = performance
  t.teardown(() => (performance.now = now))
  // Each look at the clock is a slice later: whoever looks has had its turn.
  let looks = 0
  performance.now = () => ++looks * 20
  const turns = async (query: string): Promise<number> => {
    let [count, counting] = [0, true]
    const next = (): void => {
      count++
      if (counting) setImmediate(next)
    }
    setImmediate(next)
    t.equal((await at(0, query, source)).length, series)
    counting = false
    return count
  }
  const selected = await turns('x')
  t.ok((await turns('x * on() group_left fill(0) vector(1)')) - selected > 10, 'several within the step')
})
