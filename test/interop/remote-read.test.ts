/** Remote read of samples: the same series and samples, to the bit, as Prometheus gives. Streamed chunks are read in `prometheus.test.ts`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seeded } from '../../kernel/lib/random/index.ts'
import { noPrometheus } from './prometheus.ts'
import { END_MS, START_MS, startPair } from './promql/pair.ts'
import { type ReadQuery, type ReadSeries, remoteRead } from './promql/read.ts'

const skip = noPrometheus

const pair = skip === false ? await startPair(seeded(13)) : undefined

const name = (value: string) => ['__name__', '=', value] as const
const whole = { start: START_MS, end: END_MS }
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
  'a part of the time': [{ start: START_MS + 600_000, end: START_MS + 900_000, matchers: [name('requests_total')] }],
  'one millisecond': [{ start: START_MS, end: START_MS, matchers: [['__name__', '=~', '.+']] }],
  'native histograms': [{ ...whole, matchers: [name('sizes')] }],
  'gauge histograms': [{ ...whole, matchers: [name('depth')] }],
  'custom buckets': [{ ...whole, matchers: [name('waits')] }],
  everything: [{ ...whole, matchers: [['__name__', '=~', '.+']] }],
  nothing: [{ ...whole, matchers: [name('nothing')] }],
  'several queries': [
    { ...whole, matchers: [name('limit')] },
    { ...whole, matchers: [name('nothing')] },
    { start: START_MS, end: START_MS + 60_000, matchers: [name('waits')] },
  ],
}

for (const [what, queries] of Object.entries(QUERIES)) {
  test(`remote read of ${what}`, { skip }, async () => {
    const expected = await remoteRead(`${pair!.prometheus}/api/v1/read`, queries)
    assert.equal(expected.status, 200, expected.text)
    const answer = await remoteRead(`${pair!.node}/api/v1/prom/read`, queries)
    assert.equal(answer.status, 200, answer.text)
    assert.equal(answer.results.length, queries.length)
    if (what !== 'nothing') assert.ok(expected.results.some((result) => result.length > 0))
    // Of series, no order is promised.
    const sorted = (results: ReadSeries[][]) => results.map((list) => list.toSorted((a, b) => (a.labels < b.labels ? -1 : 1)))
    assert.deepEqual(sorted(answer.results), sorted(expected.results))
  })
}
