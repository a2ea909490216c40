import t from 'tap'
import { histogram } from '../histogram/testing.ts'
import { load, MemorySource, parseLabels } from '../testing/memory-source.ts'
import { at, over } from '../testing/run-query.ts'
import { Budget, Pacer } from './context.ts'

const MINUTE = 60_000
const TOO_MANY = { name: 'ExecutionError', message: 'query processing would load too many samples into memory in query execution' }

t.test('a budget is held and given back', async (t) => {
  const budget = new Budget(100)
  budget.take(60)
  budget.take(40)
  t.throws(() => budget.take(1), TOO_MANY)
  budget.give(101)
  t.throws(() => budget.expect(101), TOO_MANY)
  budget.expect(100)
  budget.take(100)
  t.equal(budget.peak, 100)
})

t.test('what is no number of bytes does not take the limit away', async (t) => {
  const budget = new Budget(100)
  for (const bytes of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
    t.throws(() => budget.take(bytes), RangeError)
    t.throws(() => budget.expect(bytes), RangeError)
    t.throws(() => budget.give(bytes), RangeError)
  }
  t.equal(budget.bytes, 0)
  t.throws(() => budget.take(101), TOO_MANY)
})

t.test('a query that would take too much memory is refused', async (t) => {
  const source = new MemorySource()
  for (let i = 0; i < 100; i++) source.add(parseLabels(`x{i="${i}"}`), [{ time: 0, value: i }])
  t.equal((await over(0, 4, 'x', source, { budgetBytes: 10_000 })).length, 100)
  for (const query of ['x', 'x * 2', 'x + x', 'x or x', 'rate(x[5m:1s])', 'topk(3, x)', 'count_values("v", x)', 'x @ 0']) {
    await t.rejects(over(0, 4, query, source, { budgetBytes: 4000 }), TOO_MANY, query)
  }
})

t.test('more steps than memory has room for are refused, whatever is evaluated at them', async (t) => {
  const source = load('x 1x10', MINUTE)
  const inner = ['vector(1)', 'vector(time())', 'hour()', 'sum(x)', 'sum(rate(x[5m]))', 'topk(1, x)', 'absent(y)', 'x + x', 'timestamp(x)', 'vector(scalar(x))']
  for (const expr of inner) {
    for (const window of ['[1y:1ms]', '[2h:1ms]']) await t.rejects(at(200, `count_over_time((${expr})${window})`, source, { budgetBytes: 1e7 }), TOO_MANY, expr)
  }
})

t.test('operands are given back: a long chain takes no more than a short one', async (t) => {
  const source = load('x 1x10', MINUTE)
  const query = `x${' + 1'.repeat(200)}`
  t.same(await over(0, 1, query, source, { budgetBytes: 200 }), ['{} 201 201'])
})

t.test('histograms count with their buckets', async (t) => {
  const source = new MemorySource()
  const samples = Array.from({ length: 20 }, (_, i) => ({ time: i * MINUTE, value: NaN, histogram: histogram({ count: i, sum: i, positive: { 1: i, 2: i } }) }))
  source.add(parseLabels('x'), samples)
  t.equal((await over(5, 19, 'x', source, { budgetBytes: 10_000 })).length, 1)
  for (const query of ['x', 'x * 1', 'rate(x[5m])']) await t.rejects(over(5, 19, query, source, { budgetBytes: 3000 }), TOO_MANY, query)
  await t.rejects(at(19, 'x[19m]', source, { budgetBytes: 3000 }), TOO_MANY)
})

t.test('rows that are aggregated as they come are not held', async (t) => {
  const source = new MemorySource()
  const samples = Array.from({ length: 60 }, (_, i) => ({ time: i * MINUTE, value: i }))
  for (let i = 0; i < 100; i++) source.add(parseLabels(`x{i="${i}",g="${i % 2}"}`), samples)
  const each = new Array(50).fill(50 * 5).join(' ')
  t.same(await over(10, 59, 'sum by (g) (increase(x[5m]))', source), [`{g="0"} ${each}`, `{g="1"} ${each}`])
  for (const query of ['sum by (g) (increase(x[5m]))', 'max(x)', 'count by (g) (last_over_time(x[5m]))']) {
    t.ok((await over(10, 59, query, source, { budgetBytes: 2000 })).length > 0, query)
  }
  await t.rejects(over(10, 59, 'increase(x[5m])', source, { budgetBytes: 2000 }), TOO_MANY)
})

t.test('a signal ends a query', async (t) => {
  const source = load('x 1x10', MINUTE)
  await t.rejects(at(0, 'x', source, { signal: AbortSignal.abort() }), { name: 'QueryStoppedError', message: 'query was canceled in expression evaluation' })
  const late = AbortSignal.abort(new DOMException('late', 'TimeoutError'))
  await t.rejects(at(0, 'x', source, { signal: late }), { reason: 'timeout', message: 'query timed out in expression evaluation' })
})

t.test('a signal that comes in the middle is heard between blocks', async (t) => {
  const source = new MemorySource(1)
  for (let i = 0; i < 10; i++) source.add(parseLabels(`x{i="${i}"}`), [{ time: 0, value: i }])
  const controller = new AbortController()
  let blocks = 0
  const slow = {
    async select(request: Parameters<MemorySource['select']>[0]) {
      const selection = await source.select(request)
      return {
        labels: selection.labels,
        async *blocks() {
          for await (const block of selection.blocks()) {
            if (++blocks === 3) controller.abort()
            yield block
          }
        },
      }
    },
  }
  for (const query of ['x', 'rate(x[5m])', 'x smoothed']) await t.rejects(at(0, query, slow, { signal: controller.signal }), { name: 'QueryStoppedError' })
  t.equal(blocks, 3)
})

t.test('long loops let the event loop run', async (t) => {
  const pacer = new Pacer(new AbortController().signal)
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  for (let i = 0; i < 1e8 && turns === 0; i++) if (pacer.due(100)) await pacer.pause()
  clearInterval(timer)
  t.ok(turns > 0)
})

t.test('a signal ends a series whose windows hold many samples', async (t) => {
  const source = new MemorySource()
  const samples = Array.from({ length: 100_000 }, (_, i) => ({ time: i, value: i }))
  source.add(parseLabels('x'), samples)
  for (const query of ['sum_over_time(x[2h])', 'sum(predict_linear(x[2h] @ 100, time()))']) {
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 20)
    const ended = over(0, 100, query, source, { step: 1 / 200, signal: controller.signal })
    await t.rejects(ended, { name: 'QueryStoppedError' }, query)
  }
})

t.test('labels that are made count as memory', async (t) => {
  const source = new MemorySource(100)
  for (let i = 0; i < 100; i++) source.add(parseLabels(`x{i="${i}"}`), [{ time: 0, value: i }])
  t.equal((await at(0, 'count_values("v", x)', source, { budgetBytes: 40_000 })).length, 100)
  await t.rejects(at(0, 'count_values("v", x)', source, { budgetBytes: 20_000 }), TOO_MANY)
})

t.test('rows that info() makes count while they are made', async (t) => {
  const source = new MemorySource()
  const samples = Array.from({ length: 50 }, (_, i) => ({ time: i * MINUTE, value: i }))
  for (const instance of ['a', 'b']) source.add(parseLabels(`x{instance="${instance}"}`), samples)
  for (let i = 0; i < 50; i++) source.add(parseLabels(`v_info{instance="a",v="${i}"}`), [{ time: i * MINUTE, value: 1 }])
  for (const i of [1, 2]) source.add(parseLabels(`w${i}_info{instance="b",w="${i}"}`), samples)
  const query = 'info(x, {__name__=~".+_info"})'
  await t.rejects(over(0, 49, query, source), { message: 'conflicting label: w' }, 'of the second series')
  await t.rejects(over(0, 49, query, source, { budgetBytes: 32_000 }), TOO_MANY, 'of the first')
})

t.test('quantiles that change with each step are refused before their series are made', async (t) => {
  const source = load('x_bucket{le="1"} 1x100\nx_bucket{le="+Inf"} 2x100', MINUTE)
  const query = 'count(histogram_quantiles(x_bucket, "q", time() / 1e4))'
  t.same(await over(0, 99, query, source, { budgetBytes: 200_000 }), [`{} ${new Array(100).fill(1).join(' ')}`])
  await t.rejects(over(0, 99, query, source, { budgetBytes: 100_000 }), TOO_MANY)
})
