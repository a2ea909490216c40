import type { CounterResetHint } from 'svcdb/lib/histogram'
import { decodeSnappy } from 'svcdb/lib/snappy'
import t from 'tap'
import { FloatHistogram } from '../histogram/float-histogram.ts'
import { Labels } from '../labels.ts'
import { type MemorySample, MemorySource } from '../testing/memory-source.ts'
import { answerRead, type ReadArgs } from './answer-read.ts'
import { readRequest } from './request.ts'
import { readFrames, readRequestBytes, readSamples, type TestQuery } from './testing-messages.ts'

const bitsOf = (value: number): bigint => new BigUint64Array(Float64Array.of(value).buffer)[0]
const UP = ['__name__', '=', 'up'] as const
const floats = (count: number, value: (i: number) => number): MemorySample[] => Array.from({ length: count }, (_, i) => ({ time: i * 1000, value: value(i) }))

const source = new MemorySource()
source.add(
  Labels.of({ __name__: 'up', job: 'b' }),
  floats(300, (i) => i),
)
source.add(Labels.of({ __name__: 'up', job: 'a' }), [
  { time: 0, value: 0.5 },
  { time: 1000, value: Number.NaN },
  { time: 2000, value: 0, stale: true },
])
source.add(Labels.of({ __name__: 'late' }), [{ time: 1_000_000, value: 1 }])

interface Answer {
  bytes: Uint8Array
  fragments: number
}

async function read(queries: TestQuery[], accepted: number[], change: Partial<ReadArgs> = {}, from = source): Promise<Answer> {
  const request = readRequest(readRequestBytes(queries, accepted))
  const args: ReadArgs = { namespace: 'default', request, sampleLimit: 0, maxBytesInFrame: 1_048_576, maxBytes: 1e8, ...change }
  const fragments: Uint8Array[] = []
  await answerRead(from, args, { signal: new AbortController().signal, emit: async (bytes) => void fragments.push(bytes) })
  return { bytes: Buffer.concat(fragments), fragments: fragments.length }
}

const query = (change: Partial<TestQuery> = {}): TestQuery => ({ start: 0, end: 299_000, matchers: [[...UP]], ...change })

t.test('requests: matchers of all kinds, types packed or not, what is unknown is skipped', async (t) => {
  const matchers: TestQuery['matchers'] = [
    ['__name__', '=', 'up'],
    ['job', '!=', 'x'],
    ['größe', '=~', 'a.*'],
    ['b', '!~', ''],
  ]
  for (const packed of [true, false]) {
    const request = readRequest(readRequestBytes([query({ start: -5, matchers }), query()], [7, 1, 0], packed))
    t.ok(request.streamed, 'the first type that is known')
    t.same(request.queries[0], { start: -5, end: 299_000, matchers: matchers.map(([name, op, value]) => ({ name, op, value })) })
    t.equal(request.queries.length, 2)
  }
  t.notOk(readRequest(readRequestBytes([], [])).streamed, 'samples when nothing is said')
  t.throws(() => readRequest(readRequestBytes([], [2, 3])), { message: /none of the response types it accepts \(2, 3\) is known/, code: 'PROMQL_ERROR' })
  t.throws(() => readRequest(Uint8Array.of(10, 200)), { code: 'BAD_REQUEST' })
  t.match(readRequest(readRequestBytes([query({ start: Number.MIN_SAFE_INTEGER, end: Number.MAX_SAFE_INTEGER })], [])).queries, [
    { start: -9_223_372_036_855, end: 9_223_372_036_854 },
  ])
})

t.test('samples: both ends included, staleness markers and NaN with the bits that Prometheus knows', async (t) => {
  const { bytes } = await read([query({ end: 2000 }), query({ start: 1000, end: 1000, matchers: [[...UP], ['job', '=~', 'b|c']] })], [])
  const series = readSamples(await decodeSnappy(bytes, 1e6))
  t.match(series, [
    { query: 0, labels: { __name__: 'up', job: 'b' }, samples: [0, 1, 2].map((i) => ({ time: i * 1000, bits: bitsOf(i) })) },
    {
      query: 0,
      labels: { __name__: 'up', job: 'a' },
      samples: [
        { time: 0, bits: bitsOf(0.5) },
        { time: 1000, bits: 0x7ff8000000000001n },
        { time: 2000, bits: 0x7ff0000000000002n },
      ],
    },
    { query: 1, labels: { __name__: 'up', job: 'b' }, samples: [{ time: 1000, bits: bitsOf(1) }] },
  ])
  t.equal(series.length, 3)
  const none = await read([query({ matchers: [['__name__', '=', 'nothing']] })], [0])
  t.same(await decodeSnappy(none.bytes, 100), [10, 0], 'a result without series')
})

t.test('chunks: series in the order of their labels, those of a query together', async (t) => {
  const { bytes } = await read([query(), query({ start: 2000, end: 2000 })], [1])
  const frames = readFrames(bytes)
  t.same(
    frames.map(({ series }) => [series.query, series.labels.job, series.samples.length]),
    [
      [0, 'a', 3],
      [0, 'b', 300],
      [1, 'a', 1],
      [1, 'b', 1],
    ],
  )
  t.same(frames[1].series.encodings, [1, 1, 1], '120 samples a chunk')
  t.same(
    frames[1].series.samples,
    floats(300, (i) => i).map(({ time, value }) => ({ time, bits: bitsOf(value) })),
  )
  t.equal((await read([query({ matchers: [['__name__', '=', 'nothing']] })], [1])).bytes.length, 0)
})

t.test('a series that is larger than a frame goes on in the next', async (t) => {
  const large = new MemorySource(1)
  for (const job of ['a', 'b'])
    large.add(
      Labels.of({ __name__: 'up', job }),
      floats(20_000, (i) => Math.sin(i)),
    )
  const { bytes, fragments } = await read([query({ end: 1e9 })], [1], { maxBytesInFrame: 4096 }, large)
  const frames = readFrames(bytes)
  t.ok(frames.length > 40 && frames.every(({ bytes }) => bytes < 4096 + 1300), `${frames.length} frames`)
  t.ok(fragments > 2, 'which are sent as they come')
  for (const job of ['a', 'b']) {
    const samples = frames.filter(({ series }) => series.labels.job === job).flatMap(({ series }) => series.samples)
    t.same([samples.length, samples[19_999]], [20_000, { time: 19_999_000, bits: bitsOf(Math.sin(19_999)) }])
  }
})

function histogram(
  count: number,
  counts: number[],
  fields: { counterReset?: CounterResetHint; schema?: number; customBounds?: Float64Array } = {},
): FloatHistogram {
  const positive = { index: Int32Array.from(counts, (_, i) => i), counts: Float64Array.from(counts) }
  return Object.assign(new FloatHistogram(), { count, sum: count * 1.5, zeroThreshold: 0.001, positive, ...fields })
}

t.test('histograms: of integers, of floats, resets, floats between them', async (t) => {
  const own = new MemorySource()
  const list: (FloatHistogram | number)[] = [
    histogram(3, [1, 2]),
    histogram(5, [2, 3]),
    histogram(4, [2, 2]),
    histogram(6, [2, 2, 2]),
    7,
    histogram(6.5, [2, 4.5]),
    histogram(2, [2], { counterReset: 'gauge' }),
    histogram(1, [1], { counterReset: 'gauge' }),
    histogram(9, [4, 5], { schema: -53, customBounds: Float64Array.of(1) }),
  ]
  own.add(
    Labels.of({ __name__: 'up' }),
    list.map((one, i) => (typeof one === 'number' ? { time: i, value: one } : { time: i, value: 0, histogram: one })),
  )
  const [{ series }] = readFrames((await read([query()], [1], {}, own)).bytes)
  t.same(series.encodings, [2, 2, 2, 1, 3, 2, 2])
  t.same(series.flags, [0, 0x80, 0, 0, 0xc0, 0], 'the second chunk begins after a reset, the fifth holds gauges')
  t.same(
    series.histograms.map(({ time, count, positive, customBounds }) => ({ time, count, positive, customBounds })),
    list.flatMap((one, time) =>
      typeof one === 'number' ? [] : { time, count: one.count, positive: [...one.positive.counts], customBounds: [...one.customBounds] },
    ),
  )
  t.same(series.samples, [{ time: 4, bits: bitsOf(7) }])
  const [samples] = readSamples(await decodeSnappy((await read([query()], [0], {}, own)).bytes, 1e6))
  t.match(samples.histograms[1], { time: 1, integer: true, count: 5, sum: 7.5, positive: [2, 1], resetHint: 0 })
  t.match(samples.histograms[4], { time: 5, integer: false, count: 6.5, positive: [2, 4.5] })
  t.match(samples.histograms[5], { time: 6, integer: true, resetHint: 3 })
  t.match(samples.histograms[7], { schema: -53, customBounds: [1], positive: [4, 1] })
  t.equal(samples.histograms.length, 8)
})

t.test('many histograms go on in a second chunk without a reset', async (t) => {
  const own = new MemorySource()
  own.add(
    Labels.of({ __name__: 'up' }),
    Array.from({ length: 130 }, (_, i) => ({ time: i, value: 0, histogram: histogram(i, [i]) })),
  )
  const [{ series }] = readFrames((await read([query()], [1], {}, own)).bytes)
  t.same(series.flags, [0, 0x40])
  t.equal(series.histograms.length, 130)
})

t.test('limits', async (t) => {
  await t.rejects(read([query()], [0], { sampleLimit: 302 }), { message: 'exceeded sample limit (302)', detail: { errorType: 'bad_data' } })
  await t.resolves(read([query()], [0], { sampleLimit: 303 }))
  await t.rejects(read([query()], [0], { maxBytes: 1000 }), { message: /holds more than 1000 bytes/, detail: { errorType: 'execution' } })
  await t.rejects(read([query()], [1], { maxBytes: 100 }), { message: /holds more than 100 bytes/ }, 'what waits for its turn')
  const many = new MemorySource()
  for (let i = 1000; i > 0; i--) many.add(Labels.of({ __name__: 'up', i: String(i) }), floats(1, Number))
  await t.rejects(read([query()], [1], { maxBytes: 400_000 }, many), { message: /holds more than 400000 bytes/ }, 'series that wait, whatever they hold')
  await t.rejects(read([query({ matchers: [['__name__', '=~', 'a(']] })], [1]), { message: /^error parsing regexp: /, detail: { errorType: 'bad_data' } })
})

t.test('what waits of an answer is told before it is more, in either form', async (t) => {
  const own = new MemorySource(1)
  for (let i = 9; i > 0; i--) own.add(Labels.of({ __name__: 'up', i: String(i) }), floats(50_000, Math.sin))
  for (const accepted of [0, 1]) {
    const request = readRequest(readRequestBytes([query({ end: 1e9 })], [accepted]))
    const args: ReadArgs = { namespace: 'default', request, sampleLimit: 0, maxBytesInFrame: 1_048_576, maxBytes: 1e8 }
    const io = { signal: new AbortController().signal, emit: async () => {} }
    const told: number[] = []
    await answerRead(own, args, io, async (bytes) => void told.push(bytes))
    t.ok(told.length > 3, `${told.length} times`)
    t.same(
      told,
      told.toSorted((a, b) => a - b),
    )
    t.ok((told.at(-1) as number) - told[0] > 8 * 50_000 * 8, `${told} bytes`)
    const refused = answerRead(own, args, io, (bytes) => (bytes > told[2] ? Promise.reject(new Error('no room')) : undefined))
    await t.rejects(refused, { message: 'no room' })
  }
})
