/** Remote read of samples: the same series and samples, to the bit, as Prometheus gives. Streamed chunks are read in `prometheus.test.ts`. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { seeded } from '../../kernel/lib/random/index.ts'
import { startNode } from './node.ts'
import { noPrometheus, startPrometheus } from './prometheus.ts'
import { INTERVAL_MS, randomData, SAMPLES } from './promql/data.ts'
import { type ReadQuery, type ReadSeries, remoteRead } from './promql/read.ts'
import { remoteWrite } from './promql/samples.ts'

const skip = noPrometheus
const START = Date.UTC(2024, 5, 1)
const END = START + SAMPLES * INTERVAL_MS

const prometheus = skip === false ? await startPrometheus() : undefined
const node = skip === false ? await startNode({ plugins: ['remote_write', 'promql'] }) : undefined
after(async () => {
  await prometheus?.stop()
  await node?.stop()
})
if (prometheus !== undefined && node !== undefined) {
  const series = randomData(seeded(13), START)
  await remoteWrite(`${prometheus.url}/api/v1/write`, series)
  await remoteWrite(`${node.url}/api/v1/prom/write?backfill=true`, series)
}

const name = (value: string) => ['__name__', '=', value] as const
const whole = { start: START, end: END }
const QUERIES: Record<string, ReadQuery[]> = {
  'a metric': [{ ...whole, matchers: [name('requests_total')] }],
  'a metric that has stale markers, NaN and infinities': [{ ...whole, matchers: [name('temperature')] }],
  'matchers of each kind': [
    {
      ...whole,
      matchers: [
        ['__name__', '=~', 'latency_.*|humidity'],
        ['job', '!=', 'web'],
        ['instance', '!~', '.*-2'],
        ['le', '=~', '.*1'],
      ],
    },
  ],
  'a label that must be absent': [{ ...whole, matchers: [['code', '=', ''], name('limit')] }],
  'a part of the time': [{ start: START + 600_000, end: START + 900_000, matchers: [name('requests_total')] }],
  'one millisecond': [{ start: START, end: START, matchers: [['__name__', '=~', '.+']] }],
  'native histograms': [{ ...whole, matchers: [name('sizes')] }],
  'gauge histograms': [{ ...whole, matchers: [name('depth')] }],
  'custom buckets': [{ ...whole, matchers: [name('waits')] }],
  everything: [{ ...whole, matchers: [['__name__', '=~', '.+']] }],
  nothing: [{ ...whole, matchers: [name('nothing')] }],
  'several queries': [
    { ...whole, matchers: [name('limit')] },
    { ...whole, matchers: [name('nothing')] },
    { start: START, end: START + 60_000, matchers: [name('waits')] },
  ],
}

for (const [what, queries] of Object.entries(QUERIES)) {
  test(`remote read of ${what}`, { skip }, async () => {
    const expected = await remoteRead(`${prometheus!.url}/api/v1/read`, queries)
    assert.equal(expected.status, 200, expected.text)
    const answer = await remoteRead(`${node!.url}/api/v1/prom/read`, queries)
    assert.equal(answer.status, 200, answer.text)
    assert.equal(answer.results.length, queries.length)
    if (what !== 'nothing') assert.ok(expected.results.some((result) => result.length > 0))
    // Of series, no order is promised.
    const sorted = (results: ReadSeries[][]) => results.map((list) => list.toSorted((a, b) => (a.labels < b.labels ? -1 : 1)))
    assert.deepEqual(sorted(answer.results), sorted(expected.results))
  })
}
