import t from 'tap'
import type { Expr } from '../ast.ts'
import { parse } from '../parser/parse.ts'
import { Looks } from '../testing/counted.ts'
import { stepReach } from './step-reach.ts'

const LOOKBACK = 300_000
const of = (query: string): number | undefined => stepReach(parse(query, { maxLength: 1000, maxDepth: 100 }), LOOKBACK)

t.test('a step reaches back as far as its windows and offsets', async (t) => {
  t.equal(of('1 + time()'), 0)
  t.equal(of('a'), LOOKBACK)
  t.equal(of('-(a offset 1m)'), LOOKBACK + 60_000)
  t.equal(of('rate(a[10m] offset 1h)'), 4_200_000)
  t.equal(of('sum by (x) (rate(a[1m])) / on (x) b'), LOOKBACK)
  t.equal(of('max_over_time(rate(a[2m])[10m:1m] offset 30s)'), 750_000)
  t.equal(of('max_over_time(a[10m:])'), LOOKBACK + 600_000)
  t.equal(of('clamp_max(topk(-3, a), scalar(b offset 1d))'), LOOKBACK + 86_400_000)
  t.equal(of('count_values("v", a)'), LOOKBACK)
  t.equal(of('a * rate(b[10m])'), 600_000)
})

t.test('of "or" where both sides keep the names of their series, or neither does', async (t) => {
  for (const query of [
    'a > 5 or a',
    'a or last_over_time(a[5m])',
    'a * 2 or rate(a[5m])',
    'sum by (x) (a) or -a',
    'rate(a[5m]) or vector(0)',
    'topk(2, a) or b or 1 < b',
    'a or vector(0)',
    '(a) or +a',
    'a and b or a',
    'a unless b or a',
    'sum without (__name__) (a) or -a',
    'a > bool 5 or rate(a[5m])',
    'vector(0) or a or b',
    'quantile(0.9, a) or -a',
    'label_replace(a, "x", "b", "", "") or a',
  ])
    t.equal(of(query), LOOKBACK, query)
})

t.test('of some expressions steps are not told apart', async (t) => {
  for (const query of [
    'a offset -1m',
    'a @ 100',
    'rate(a[5m] @ end())',
    'max_over_time(a[5m:1m] @ start())',
    'sum_over_time(a[5m:1m] offset -1m)',
    'info(a)',
    'topk(scalar(b), a)',
    'quantile(time() % 2, a)',
    'topk(-scalar(b), a)',
    'a + on (x) rate(b[5m] @ 7)',
    'max_over_time((a offset -1m)[5m:1m])',
    'max_over_time(a[5m:range() / 10])',
    'max_over_time(a[step() * 2:1m])',
    'vector(end())',
    'rate(a[step() * 2])',
    'rate(a[5m] anchored)',
    'a smoothed',
    'a > 5 or a * 0',
    'sum(rate(a[5m]) or a)',
    'last_over_time(a[5m]) or -a',
    'sum by (__name__) (a) or -a',
    'label_replace(-a, "__name__", "a", "", "") or a',
    'label_replace(a, "__name__", "b", "", "") or label_replace(b, "__name__", "a", "", "")',
    '+a or rate(a[5m])',
    'topk(2, a) or rate(a[5m])',
    'sum by (x, __name__) (a) or -a',
    'count_values("__name__", a) or -a',
    'a and b or rate(a[5m])',
    'a unless b or rate(a[5m])',
    'vector(0) or a or rate(b[5m])',
    'a or vector(0) or rate(b[5m])',
    'a * on (x) group_left (y, __name__) b or -a',
    'a > bool 5 or a',
    'a > on (x) b or a',
    '1 < a or rate(a[5m])',
    'time() < a or rate(a[5m])',
  ])
    t.equal(of(query), undefined, query)
})

t.test('each part of an expression is looked at a few times, however many an "or" is within', async (t) => {
  const levels = 64
  const looks = new Looks()
  for (const [first, next] of [
    ['a', 'b'],
    ['-a', '-b'],
    ['vector(0)', 'b'],
    ['a', '-b'],
  ]) {
    looks.count = 0
    let chain: Expr = looks.at(parse(first))
    for (let i = 0; i < levels; i++) chain = { ...parse(`(a) or (${next})`), lhs: chain } as Expr
    stepReach(chain, LOOKBACK)
    t.ok(looks.count > 0 && looks.count <= 8, `${first} in ${levels} of "or ${next}": ${looks.count} times`)
  }
})
