import t from 'tap'
import type { Expr, LabelMatcher } from '../ast.ts'
import { apply, argument, buckets, lines, vector } from '../testing/calls.ts'

const MIXED = vector([{ __name__: 'm', a: '1' }, -2.5, 4, undefined], [{ __name__: 'm', a: '2' }, buckets([3]), NaN, 0.25])

t.test('each float by itself; histograms are left out, names go', async (t) => {
  t.same(lines(await apply('abs', [MIXED])), ['-{__name__=m,a=1} 2.5 4 _', '-{__name__=m,a=2} _ NaN 0.25'])
  t.same(lines(await apply('sgn', [MIXED])), ['-{__name__=m,a=1} -1 1 _', '-{__name__=m,a=2} _ NaN 1'])
  t.same(lines(await apply('ceil', [MIXED])), ['-{__name__=m,a=1} -2 4 _', '-{__name__=m,a=2} _ NaN 1'])
  t.same(MIXED.values[0], -2.5, 'the argument stays as it was')
})

t.test('trigonometry and angles', async (t) => {
  const one = vector([{}, 180])
  t.same(lines(await apply('rad', [one])), [`-{} ${Math.PI}`])
  t.same(lines(await apply('deg', [vector([{}, Math.PI])])), ['-{} 180'])
  t.same(lines(await apply('rad', [vector([{}, 1.5e308])])), [`-{} ${1.5e308 * (Math.PI / 180)}`], 'finite')
  t.same(lines(await apply('deg', [vector([{}, 3e306])])), [`-{} ${3e306 * (180 / Math.PI)}`], 'finite')
  for (const fn of ['sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'sinh', 'cosh', 'tanh', 'asinh', 'atanh', 'exp', 'sqrt', 'log2', 'log10'] as const) {
    t.same(lines(await apply(fn, [vector([{}, 0.5])])), [`-{} ${Math[fn](0.5)}`], fn)
  }
  t.same(lines(await apply('ln', [vector([{}, 10])])), [`-{} ${Math.log(10)}`])
  t.same(lines(await apply('acosh', [vector([{}, 2])])), [`-{} ${Math.acosh(2)}`])
})

t.test('rounding goes to the nearest multiple, ties upwards', async (t) => {
  const values = vector([{}, 2.5, -2.5, 0.44])
  t.same(lines(await apply('round', [values])), ['-{} 3 -2 0'])
  t.same(lines(await apply('round', [values, argument([0.1, 5, 0.25])])), ['-{} 2.5 0 0.5'])
})

t.test('clamping, with bounds that change from step to step', async (t) => {
  const values = vector([{ a: '1' }, 1, 5, 9, NaN])
  t.same(lines(await apply('clamp', [values, argument([2, 2, 2, 2]), argument([4, 4, 4, 4])])), ['-{a=1} 2 4 4 NaN'])
  t.same(lines(await apply('clamp', [values, argument([2, 6, 2, 0]), argument([4, 4, 4, 1])])), ['-{a=1} 2 _ 4 NaN'], 'nothing where the bounds cross')
  t.same(lines(await apply('clamp_min', [values, argument(4, 4)])), ['-{a=1} 4 5 9 NaN'])
  t.same(lines(await apply('clamp_max', [values, argument(4, 4)])), ['-{a=1} 1 4 4 NaN'])
  t.same(lines(values), ['{a=1} 1 5 9 NaN'], 'the argument stays as it was')
})

t.test('the larger and the smaller of two scalars', async (t) => {
  t.same(lines(await apply('max_of', [argument([1, 5]), argument([3, 2])], { steps: 2 })), ['3 5'])
  t.same(lines(await apply('min_of', [argument([1, NaN]), argument([3, 2])], { steps: 2 })), ['1 NaN'])
})

t.test('scalar takes the only float of each step', async (t) => {
  const values = vector([{ a: '1' }, 1, undefined, 3, undefined], [{ a: '2' }, buckets([1]), 2, 4, undefined])
  t.same(lines(await apply('scalar', [values])), ['1 2 NaN NaN'])
  t.same(lines(await apply('vector', [argument([1, 2])], { steps: 2 })), ['{} 1 2'])
})

t.test('absent says which labels are missing', async (t) => {
  const pos = { start: 0, end: 1 }
  const matchers: LabelMatcher[] = [
    { name: '__name__', op: '=', value: 'm' },
    { name: 'job', op: '=', value: 'a' },
    { name: 'twice', op: '=', value: 'x' },
    { name: 'twice', op: '=', value: 'y' },
    { name: 'like', op: '=~', value: 'z' },
    // What only takes away is looked at last, what does not in the order it stands in.
    { name: 'not', op: '!=', value: 'x' },
    { name: 'not', op: '=', value: 'x' },
    { name: 'some', op: '=~', value: '.+' },
    { name: 'some', op: '=', value: 's' },
  ]
  const expr: Expr = { kind: 'vector', name: 'm', matchers, offset: 0, pos }
  const exprs = [{ kind: 'paren', expr, pos } satisfies Expr]
  t.same(lines(await apply('absent', [vector([{ job: 'a' }, 1, undefined, 3])], { exprs })), ['{job=a,some=s} _ 1 _'])
  t.same(lines(await apply('absent', [vector([{ job: 'a' }, 1, 2])], { exprs })), [])
})
