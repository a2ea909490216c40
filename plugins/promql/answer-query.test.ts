import type { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { answerQuery, type QueryArgs } from './answer-query.ts'
import { FloatHistogram } from './histogram/float-histogram.ts'
import { LabelList, Labels } from './labels.ts'
import { DEFAULT_LIMITS } from './parser/cursor.ts'
import { load, MemorySource } from './testing/memory-source.ts'

const source = load(
  `up{job="b"} 1+1x9
   up{job="a"} 10 20 NaN _ stale 50
   gap 1 _ _ _ _ _ _ 8
   big{q="a\\"b"} 0.25`,
  60_000,
)

interface Answer {
  json: { status: string; data: { resultType: string; result: unknown; stats?: Record<string, Record<string, number>> }; warnings?: string[]; infos?: string[] }
  text: string
  fragments: number
  truncated: boolean
}

async function ask(
  query: string,
  change: Partial<QueryArgs> = {},
  from: MemorySource = source,
  signal = new AbortController().signal,
  fragments: Buffer[] = [],
): Promise<Answer> {
  const args: QueryArgs = {
    namespace: 'default',
    query,
    steps: { start: 300_000, interval: 0, count: 1 },
    end: 300_000,
    lookbackMs: 300_000,
    defaultStepMs: 60_000,
    seriesLimit: 10_000,
    maxResultBytes: 1e8,
    memoryBytes: 1e8,
    parseLimits: DEFAULT_LIMITS,
    stats: '',
    ...change,
  }
  const { truncated } = await answerQuery(from, args, { signal, emit: async (bytes) => void fragments.push(Buffer.from(bytes)) })
  const text = Buffer.concat(fragments).toString()
  return { json: JSON.parse(text), text, fragments: fragments.length, truncated }
}

const range = (start: number, interval: number, count: number): Partial<QueryArgs> => ({
  steps: { start, interval, count },
  end: start + (count - 1) * interval,
})

async function failure(query: string, change: Partial<QueryArgs> = {}, from?: MemorySource, sent?: Buffer[]): Promise<{ type: unknown; message: string }> {
  const error = await ask(query, change, from, undefined, sent).then(
    () => undefined,
    (thrown: SvcError) => thrown,
  )
  return { type: error?.detail?.errorType, message: error?.message ?? 'nothing was thrown' }
}

t.test('instant queries: vector, scalar, string, range vector', async (t) => {
  t.equal(
    (await ask('big', { steps: { start: 60_500, interval: 0, count: 1 } })).text,
    '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"big","q":"a\\"b"},"value":[60.500,"0.25"]}]}}',
  )
  t.same((await ask('up')).json.data.result, [
    { metric: { __name__: 'up', job: 'b' }, value: [300, '6'] },
    { metric: { __name__: 'up', job: 'a' }, value: [300, '50'] },
  ])
  t.same((await ask('nothing')).json.data, { resultType: 'vector', result: [] })
  t.same((await ask('1/0', { steps: { start: 1234, interval: 0, count: 1 } })).json.data, { resultType: 'scalar', result: [1.234, '+Inf'] })
  t.same((await ask('"a ☃"')).json.data, { resultType: 'string', result: [300, 'a ☃'] })
  const samples = await ask('up[5m]')
  t.same(
    samples.json.data,
    {
      resultType: 'matrix',
      result: [
        {
          metric: { __name__: 'up', job: 'a' },
          values: [
            [60, '20'],
            [120, 'NaN'],
            [300, '50'],
          ],
        },
        { metric: { __name__: 'up', job: 'b' }, values: [1, 2, 3, 4, 5].map((i) => [i * 60, String(i + 1)]) },
      ],
    },
    'in the order of the labels, without staleness markers',
  )
})

t.test('range queries: a matrix in the order of the labels, gaps left out, scalars as a series', async (t) => {
  t.same((await ask('up', range(180_000, 60_000, 3))).json.data, {
    resultType: 'matrix',
    result: [
      {
        metric: { __name__: 'up', job: 'a' },
        values: [
          [180, 'NaN'],
          [300, '50'],
        ],
      },
      {
        metric: { __name__: 'up', job: 'b' },
        values: [
          [180, '4'],
          [240, '5'],
          [300, '6'],
        ],
      },
    ],
  })
  t.same((await ask('time()', range(0, 500, 2))).json.data.result, [
    {
      metric: {},
      values: [
        [0, '0'],
        [0.5, '0.5'],
      ],
    },
  ])
  t.same((await ask('up > 100', range(0, 60_000, 3))).json.data.result, [], 'series without points are no series')
})

t.test('the end of a query is the one that was asked for', async (t) => {
  const { json } = await ask('end()', { ...range(0, 60_000, 2), end: 100_000 })
  t.same(json.data.result, [
    {
      metric: {},
      values: [
        [0, '100'],
        [60, '100'],
      ],
    },
  ])
})

t.test('a limit of series cuts, and says so', async (t) => {
  for (const [query, change] of [
    ['up', {}],
    ['up', range(0, 60_000, 3)],
    ['up[5m]', {}],
  ] as const) {
    const cut = await ask(query, { ...change, seriesLimit: 1 })
    t.equal((cut.json.data.result as unknown[]).length, 1)
    t.same(cut.json.warnings, ['results truncated due to limit'])
    t.ok(cut.truncated)
    const whole = await ask(query, { ...change, seriesLimit: 2 })
    t.equal((whole.json.data.result as unknown[]).length, 2)
    t.notOk('warnings' in whole.json || 'infos' in whole.json || whole.truncated)
  }
})

t.test('warnings and infos name the place', async (t) => {
  const { json } = await ask('quantile(2, rate(up[5m]))')
  t.match(json.warnings, ['PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)'])
  t.match(json.infos, [/^PromQL info: metric might not be a counter, name does not end in _total\/_sum\/_count\/_bucket: "up" \(1:18\)$/])
})

t.test('histograms', async (t) => {
  const histogram = new FloatHistogram()
  Object.assign(histogram, { count: 3, sum: 1.5, positive: { index: Int32Array.of(0, 1), counts: Float64Array.of(1, 2) } })
  const own = new MemorySource()
  own.add(Labels.of({ __name__: 'h' }), [
    { time: 60_000, value: 0, histogram },
    { time: 120_000, value: 7 },
  ])
  const wanted = {
    count: '3',
    sum: '1.5',
    buckets: [
      [0, '0.5', '1', '1'],
      [0, '1', '2', '2'],
    ],
  }
  t.same((await ask('h', { steps: { start: 60_000, interval: 0, count: 1 } }, own)).json.data.result, [{ metric: { __name__: 'h' }, histogram: [60, wanted] }])
  const both = [{ metric: { __name__: 'h' }, values: [[120, '7']], histograms: [[60, wanted]] }]
  t.same((await ask('h', range(60_000, 60_000, 2), own)).json.data.result, both)
  t.same((await ask('h[5m]', {}, own)).json.data.result, both)
})

t.test('what cannot be asked is bad_data, what cannot be answered is execution', async (t) => {
  t.same(await failure(''), { type: 'bad_data', message: 'invalid parameter "query": unknown position: parse error: no expression found in input' })
  t.match(await failure('up{'), { type: 'bad_data', message: /^invalid parameter "query": 1:4: parse error: / })
  t.match(await failure('nope(up)'), { type: 'bad_data', message: 'invalid parameter "query": 1:1: parse error: unknown function with name "nope"' })
  t.same(await failure('up[5m]', range(0, 1000, 2)), {
    type: 'bad_data',
    message: 'invalid parameter "query": invalid expression type "range vector" for range query, must be Scalar or instant Vector',
  })
  t.match(await failure('("x")', range(0, 1000, 2)), { type: 'bad_data', message: /invalid expression type "string"/ })
  t.match(await failure('label_replace(up, "job", "x", "", "")'), { type: 'execution', message: 'vector cannot contain metrics with the same labelset' })
  t.same(await failure('rate(up[step()])'), { type: 'bad_data', message: 'invalid parameter "query": 8:14: duration must be greater than 0' })
  t.match((await failure('rate({"ü"}[5m] offset (1 / step()))')).message, /: 24:34: division by zero$/, 'places in bytes')
  t.match((await failure('rate(up[((step() * 2))])')).message, /: 10:20: duration must be greater than 0$/, 'within parentheses')
  t.match(await failure('up', { ...range(0, 1000, 100_000), memoryBytes: 1000 }), { type: 'execution', message: /too many samples into memory/ })
})

t.test('a subquery without steps', async (t) => {
  const query = 'count_over_time(label_replace(up, "a", "$1", "job", "(")[1s:1m])'
  t.same((await ask(query, { steps: { start: 330_000, interval: 0, count: 1 }, end: 330_000 })).json.data.result, [])
  t.match(await failure(query), { type: 'execution', message: 'invalid regular expression in label_replace(): (' })
  t.match(await failure('sum_over_time(rate(up[step()])[1s:7s])'), { type: 'bad_data', message: /duration must be greater than 0$/ })
})

t.test('annotations name the place that Prometheus names', async (t) => {
  const mixed = new MemorySource()
  mixed.add(Labels.of({ __name__: 'mixed' }), [
    { time: 240_000, value: NaN, histogram: new FloatHistogram() },
    { time: 300_000, value: 1 },
  ])
  const said = async (query: string) => {
    const { json } = await ask(query, {}, mixed)
    return [...(json.warnings ?? []), ...(json.infos ?? [])].map((text) => text.slice(text.lastIndexOf(' ') + 1))
  }
  t.same(await said('rate(mixed[5m])'), ['(1:6)'])
  t.same(await said('rate((mixed)[5m:1m])'), ['(1:1)'], 'a subquery has none')
  t.same(await said('quantile(0.5, ((mixed @ 240)))'), ['(1:17)'], 'within parentheses')
  t.same(await said('quantile((2), mixed)'), ['(1:11)'])
})

t.test('an answer that is too large is refused before anything of it is sent', async (t) => {
  for (const [query, change] of [
    ['up', range(0, 100, 5000)],
    ['time()', range(0, 100, 5000)],
    ['up[5m]', { maxResultBytes: 100 }],
    ['up', { maxResultBytes: 100 }],
  ] as const)
    t.match(
      await failure(query, { maxResultBytes: 20_000, ...change }),
      { type: 'execution', message: /larger than \d+ bytes; .*server\.prom_max_result_bytes$/ },
      query,
    )
})

t.test('so it is where only writing it shows that it is too large', async (t) => {
  const histograms = new MemorySource()
  const histogram = new FloatHistogram()
  histogram.count = 1 / 3
  histograms.add(Labels.of({ __name__: 'h' }), [{ time: 0, value: NaN, histogram }])
  const samples = new MemorySource()
  samples.add(
    Labels.of({ __name__: 'm' }),
    Array.from({ length: 20_000 }, (_, i) => ({ time: i + 1, value: 1 / (i + 3) })),
  )
  for (const [query, change, source] of [
    ['time() / 7', range(0, 1000, 20_000)],
    ['vector(time() / 7)', range(0, 1000, 20_000)],
    ['h', range(0, 1, 20_000), histograms],
    ['m[5m]', { end: 60_000, steps: { start: 60_000, interval: 0, count: 1 } }, samples],
  ] as const) {
    const sent: Buffer[] = []
    const { length } = (await ask(query, change, source)).text
    t.equal((await ask(query, { ...change, maxResultBytes: length }, source)).text.length, length, query)
    t.match(await failure(query, { ...change, maxResultBytes: length - 100 }, source, sent), { type: 'execution', message: /larger than/ }, query)
    t.equal(sent.length, 0, query)
  }
})

t.test('longer labels than were taken for granted are held to the limit, too', async (t) => {
  const long = new MemorySource()
  for (let i = 0; i < 20; i++) long.add(Labels.of({ __name__: 'm', text: `${i}${'x'.repeat(60_000)}` }), [{ time: 0, value: 1 }])
  const at = { end: 0, steps: { start: 0, interval: 0, count: 1 } }
  const { length } = (await ask('m', at, long)).text
  t.ok(length > 1_200_000)
  const sent: Buffer[] = []
  t.match(await failure('m', { ...at, maxResultBytes: 200_000 }, long, sent), { type: 'execution', message: /larger than/ })
  t.ok(Buffer.concat(sent).length <= 200_000, 'and no more is sent')
})

t.test('large answers come in fragments', async (t) => {
  const { fragments, json } = await ask('up', range(0, 10, 60_000))
  t.ok(fragments > 2, `${fragments} fragments`)
  t.equal((json.data.result as { values: unknown[] }[])[1].values.length, 60_000)
})

t.test('statistics when they are asked for', async (t) => {
  const { json } = await ask('up', { stats: 'all' })
  t.equal(json.data.stats?.samples.samplesRead, 2)
  t.ok((json.data.stats?.timings.execTotalTime ?? 0) > 0)
  t.match((await ask('up', { stats: 'yes' })).json.warnings, [/^value "yes" for parameter "stats" is deprecated/])
})

t.test('a query that was stopped ends', async (t) => {
  const abort = new AbortController()
  abort.abort()
  await t.rejects(ask('up', {}, source, abort.signal), { message: 'query was canceled in expression evaluation', detail: { errorType: 'canceled' } })
})

t.test('samples that the storage has aggregated count in the statistics', async (t) => {
  const aggregating = load('up 1', 60_000)
  const group = { labels: new LabelList([Labels.EMPTY]), values: Float64Array.of(5), present: Uint8Array.of(1), metric: 'up', samples: 70 }
  const { json } = await ask('sum(up)', { stats: 'all' }, Object.assign(aggregating, { aggregate: async () => group }))
  t.match(json.data, { result: [{ value: [300, '5'] }], stats: { samples: { totalQueryableSamples: 70 } } })
})
