/**
 * Random queries over random data, asked of a node on ClickHouse and of one on the memory engine: results, errors and annotations have to be the same. State is
 * kept beside the engine, for remote write needs some. SVC_SEED repeats a run, SVC_QUERIES makes it longer.
 */
import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { type Answer, difference, type Question } from '../../test/interop/promql/compare.ts'
import { INTERVAL_MS, randomData, SAMPLES } from '../../test/interop/promql/data.ts'
import { Grammar, labelsMatter } from '../../test/interop/promql/grammar.ts'
import { render } from '../../test/interop/promql/query.ts'
import { writeRequest } from '../../test/interop/promql/samples.ts'
import { NO_CLICKHOUSE, startClickHouse, withState } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { createEngine as createOracle } from '../memory/index.ts'
import { ClickHouseEngine } from './engine.ts'

const SEED = Number(process.env.SVC_SEED ?? 20_240_101)
const QUERIES = Number(process.env.SVC_QUERIES ?? 40)
const START_MS = Date.UTC(2024, 1, 28, 23, 30)
const END_MS = START_MS + SAMPLES * INTERVAL_MS
const STEPS = [7, 15, 30, 60, 90, 300]

t.test('answers of PromQL', { skip: NO_CLICKHOUSE ?? false }, async (t) => {
  t.comment(`SVC_SEED=${SEED}`)
  const server = await startClickHouse()
  const now = () => END_MS
  const config = { ooo_shard_tolerance: 1_000_000 }
  const engines = [
    createOracle(testContext(config, now)),
    withState(new ClickHouseEngine(testContext({ ...config, clickhouse: { ...server.section, prefix: `q${process.pid}` } }, now))),
  ]
  const options = { plugins: ['remote_write', 'promql'], config: { remote_write: { float_and_histogram: 'keep_both' } } }
  const nodes = await Promise.all(engines.map((storage) => boot({ ...options, storage })))
  t.teardown(async () => {
    for (const node of nodes) await node.stop()
    await server.stop()
  })
  const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy' }
  const series = randomData(seeded(SEED), START_MS, true)
  for (const group of Map.groupBy(series, ({ labels }) => labels.__name__).values())
    for (const node of nodes) {
      const { statusCode, body } = await node.inject({
        method: 'POST',
        url: '/api/v1/prom/write?backfill=true',
        headers,
        payload: Buffer.from(writeRequest(group)),
      })
      if (statusCode >= 300) t.fail(`${statusCode} ${body}`)
    }
  const answered = { values: 0, nothing: 0, errors: 0 }
  const ask = async (question: Question): Promise<Answer[]> => {
    const path = question.time === undefined ? 'query_range' : 'query'
    const url = `/api/v1/${path}?${new URLSearchParams(Object.fromEntries(Object.entries(question).map(([name, value]) => [name, String(value)])))}`
    return Promise.all(nodes.map(async (node) => (await node.inject({ method: 'GET', url })).json() as Answer))
  }
  const random = seeded(SEED)
  const grammar = new Grammar(random, START_MS, END_MS)
  for (let i = 0; i < QUERIES; i++) {
    const query = render(grammar.query())
    const time = (START_MS + Math.floor(random() * (END_MS + 400_000 - START_MS))) / 1000
    const start = Math.floor(START_MS / 1000 + random() * 1800)
    const step = STEPS[Math.floor(random() * STEPS.length)]
    for (const question of [
      { query, time },
      { query, start, end: start + Math.floor(random() * 60) * step, step },
    ]) {
      const [expected, found] = await ask(question)
      if (expected.status === 'error') answered.errors++
      else if ((expected.data as { result: unknown[] }).result.length === 0) answered.nothing++
      else answered.values++
      const what = difference(query, expected, found, labelsMatter(query))
      if (what !== undefined) t.fail(`${JSON.stringify(question)}: ${what.slice(0, 700)}`)
    }
  }
  t.ok(answered.values > QUERIES / 2, JSON.stringify(answered))
})
