/** What the storage is asked to aggregate, and what becomes of its answer. */
import t from 'tap'
import { LabelList, Labels } from '../labels.ts'
import { load, type MemorySource } from '../testing/memory-source.ts'
import { at, over } from '../testing/run-query.ts'
import { Annotations } from './annotations.ts'
import type { AggregateSelection, AggregateSelectRequest, SampleSource } from './source.ts'

const MINUTE = 60_000

class Aggregating implements SampleSource {
  readonly asked: AggregateSelectRequest[] = []
  private readonly samples: MemorySource
  private readonly answer: AggregateSelection | undefined

  constructor(answer?: AggregateSelection) {
    this.samples = load('x{host="a",region="r"} 0+60x20\nx{host="b",region="r"} 0+120x20\nx_total{host="a"} 0+60x20', MINUTE)
    this.answer = answer
  }

  select(request: Parameters<SampleSource['select']>[0]): ReturnType<SampleSource['select']> {
    return this.samples.select(request)
  }

  async aggregate(request: AggregateSelectRequest): Promise<AggregateSelection | undefined> {
    this.asked.push(request)
    return this.answer
  }
}

t.test('what is asked for', async (t) => {
  for (const [query, expected] of [
    [
      'sum by (region) (rate(x[5m]))',
      { window: 'rate', group: 'sum', tags: ['region'], without: false, windows: { first: 600_000, interval: MINUTE, count: 3, range: 300_000 } },
    ],
    [
      'avg without (host) ((increase((x[90s] offset 1m))))',
      { window: 'increase', group: 'avg', tags: ['host', '__name__'], without: true, after: 450_000, upTo: 660_000 },
    ],
    ['max(x)', { window: 'last', group: 'max', tags: [], windows: { first: 600_000, interval: MINUTE, count: 3, range: 300_000 } }],
    ['group(irate(x[5m] @ 120))', { window: 'irate', group: 'count', windows: { first: 120_000, interval: MINUTE, count: 1, range: 300_000 } }],
    ['min(idelta(x{host=~"a|b"}[5m]))', { window: 'idelta', group: 'min', matchers: [{ name: 'host', op: '=~', value: 'a|b' }, { name: '__name__' }] }],
    [
      'max_over_time(count(delta(x[5m]))[4m:2m] @ 600)',
      { window: 'delta', group: 'count', windows: { first: 480_000, interval: 2 * MINUTE, count: 2, range: 300_000 }, upTo: 600_000 },
    ],
  ] as const) {
    const source = new Aggregating()
    const found = await over(10, 12, query, source)
    t.match(source.asked, [expected], query)
    t.equal(source.asked.length, 1, query)
    t.same(found, await over(10, 12, query, load('x{host="a",region="r"} 0+60x20\nx{host="b",region="r"} 0+120x20', MINUTE)), `${query}, declined`)
  }
})

t.test('what is not', async (t) => {
  for (const query of [
    'sum by (__name__) (x)',
    'stddev(x)',
    'topk(1, x)',
    'quantile(0.5, rate(x[5m]))',
    'sum(rate(x[5m] anchored))',
    'sum(x smoothed)',
    'sum(rate(x[5m:1m]))',
    'sum(max_over_time(x[5m]))',
    'sum(-x)',
    'sum(x) / count(x)',
    'histogram_count(sum(x))',
  ]) {
    const source = new Aggregating()
    await over(10, 12, query, source)
    t.same(source.asked, [], query)
  }
})

const answer = (present: number[], metric = 'x'): AggregateSelection => ({
  labels: new LabelList([Labels.of({ region: 'r' }), Labels.of({ region: 's' })]),
  values: Float64Array.of(1, 2, 3, 4),
  present: Uint8Array.from(present),
  metric,
  samples: 7,
})

t.test('the answer is the vector', async (t) => {
  t.same(await over(10, 11, 'sum by (region) (x)', new Aggregating(answer([1, 0, 1, 1]))), ['{region="r"} 1 _', '{region="s"} 3 4'])
  t.same(await over(10, 11, 'group by (region) (x)', new Aggregating(answer([1, 0, 1, 1]))), ['{region="r"} 1 _', '{region="s"} 1 1'])
  t.same(await over(10, 11, '2 * sum by (region) (rate(x[5m]))', new Aggregating(answer([1, 1, 0, 0]))), ['{region="r"} 2 4'])
})

t.test('it says what the evaluator would have said of the name', async (t) => {
  for (const [query, present, metric, infos] of [
    ['sum(rate(x[5m]))', [1, 0, 0, 0], 'x', 1],
    ['sum(increase(x_total[5m]))', [1, 0, 0, 0], 'x_total', 0],
    ['sum(rate(x[5m]))', [0, 0, 0, 0], 'x', 0],
    ['sum(delta(x[5m]))', [1, 0, 0, 0], 'x', 0],
  ] as const) {
    const annotations = [new Annotations(), new Annotations()]
    await over(10, 11, query, new Aggregating(answer([...present], metric)), { annotations: annotations[0] })
    const [found] = annotations.map((one) => one.texts(query, 0))
    t.equal(found.infos.length, infos, query)
    if (infos === 0) continue
    await over(10, 11, query, new Aggregating(), { annotations: annotations[1] })
    t.same(found, annotations[1].texts(query, 0), 'the same text and place')
  }
})

t.test('no more cells are wanted than the budget has room for', async (t) => {
  const source = new Aggregating()
  await at(10, 'sum(x)', source, { budgetBytes: 900 })
  t.match(source.asked, [{ maxCells: 100 }])
})
