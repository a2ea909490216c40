import t from 'tap'
import { parse } from '../parser/parse.ts'
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
})

t.test('of "or" where both sides keep the names of their series, or neither does', async (t) => {
  for (const query of [
    'a > 5 or a',
    'a or last_over_time(a[5m])',
    'a * 2 or rate(a[5m])',
    'sum by (x) (a) or -a',
    'rate(a[5m]) or vector(0)',
    'topk(2, a) or b or 1 < b',
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
    'a + on (x) rate(b[5m] @ 7)',
    'vector(end())',
    'rate(a[step() * 2])',
    'rate(a[5m] anchored)',
    'a smoothed',
    'a > 5 or a * 0',
    'sum(rate(a[5m]) or a)',
    'last_over_time(a[5m]) or -a',
    'sum by (__name__) (a) or -a',
    'label_replace(-a, "__name__", "a", "", "") or a',
  ])
    t.equal(of(query), undefined, query)
})
