/** The scripts of PromQL, whose expected results are those of Prometheus' engine, over points in ClickHouse; and in memory, so that what is the plugin's shows. */
import { readdirSync, readFileSync } from 'node:fs'
import type { StorageEngine } from 'svcdb'
import { encodeHistogram, staleHistogram } from 'svcdb/lib/histogram'
import t from 'tap'
import { SAMPLE_HISTOGRAM, SAMPLE_STALE } from '../../plugins/promql/eval/value.ts'
import { toNative } from '../../plugins/promql/histogram/native.ts'
import { difference, type Result } from '../../plugins/promql/testing/run-script.ts'
import { type Question, readScript } from '../../plugins/promql/testing/script.ts'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { bits, f64, hist, NAN, STALE, type TestPoint, type TestValue, write } from '../conformance/points.ts'
import { createEngine as createMemory } from '../memory/index.ts'
import { ClickHouseEngine } from './engine.ts'

const FOLDER = new URL('../../plugins/promql/testcases/', import.meta.url)
const JOB = new URL('./testing/promql-job.ts', import.meta.url)
const NAME = '__name__'

/** @returns also the metrics that have both kinds of samples, without their points: two fields would not be one metric. */
async function pointsOf({ source }: Question): Promise<{ points: TestPoint[]; mixed: string[] }> {
  const { labels, blocks } = await source.select({ matchers: [], after: Number.NEGATIVE_INFINITY, upTo: Number.POSITIVE_INFINITY })
  const points: (TestPoint & { kind: 'floats' | 'histograms' | 'markers' })[] = []
  for await (const { first, starts, times, values, kinds, histograms } of blocks())
    for (let i = 0; i + 1 < starts.length; i++) {
      const { [NAME]: measurement = '', ...tags } = labels.at(first + i).toJSON()
      for (let at = starts[i]; at < starts[i + 1]; at++) {
        const kind = kinds?.[at] === SAMPLE_HISTOGRAM ? 'histograms' : kinds?.[at] === SAMPLE_STALE ? 'markers' : 'floats'
        const native = histograms?.[at]
        const float = (value: number): TestValue => (Number.isNaN(value) ? bits(NAN) : f64(value))
        const value = kind === 'histograms' && native !== undefined ? hist(encodeHistogram(toNative(native))) : float(values[at])
        points.push({ measurement, tags, time: BigInt(times[at]) * 1_000_000n, fields: { value }, kind })
      }
    }
  const kindsOf = Map.groupBy(
    points.filter(({ kind }) => kind !== 'markers'),
    ({ measurement }) => measurement,
  )
  const mixed = [...kindsOf].flatMap(([name, own]) => (own.some(({ kind }) => kind !== own[0].kind) ? [name] : []))
  const plain = points.filter(({ measurement }) => !mixed.includes(measurement))
  const stored = plain.map(({ kind, ...point }): TestPoint => {
    if (kind !== 'markers') return point
    return { ...point, fields: { value: kindsOf.get(point.measurement)?.[0].kind === 'histograms' ? hist(staleHistogram()) : bits(STALE) } }
  })
  return { points: stored, mixed }
}

if (NO_CLICKHOUSE !== undefined) t.test('scripts of PromQL', { skip: NO_CLICKHOUSE }, async () => {})
else {
  const server = await startClickHouse()
  t.teardown(() => server.stop())
  let asked = 0
  for (const [i, file] of readdirSync(FOLDER).entries())
    t.test(file, async (t) => {
      const config = { ooo_shard_tolerance: 1_000_000 }
      const now = () => Date.UTC(1970, 0, 2)
      const engines: [string, StorageEngine][] = [
        ['memory', createMemory(testContext(config, now))],
        ['clickhouse', new ClickHouseEngine(testContext({ ...config, clickhouse: { ...server.section, prefix: `y${process.pid}_${i}` } }, now))],
      ]
      for (const [, engine] of engines) await engine.open()
      t.teardown(() => Promise.all(engines.map(([, engine]) => engine.close())))
      const loads = Map.groupBy(readScript(readFileSync(new URL(file, FOLDER), 'utf8')), ({ source }) => source)
      const questions: (Question & { namespace: string })[] = []
      for (const [n, own] of [...loads.values()].entries()) {
        const { points, mixed } = await pointsOf(own[0])
        const wanted = own.filter(({ query }) => !mixed.some((name) => query.includes(name)))
        if (wanted.length < own.length)
          t.comment(`${file}:${own[0].line} ${own.length - wanted.length} questions are left out: of a metric with both kinds of samples`)
        for (const [, engine] of engines) {
          const { rejected, rejections } = await write(engine, points, { namespace: `n${n}`, backfill: true, nonFinite: true })
          t.equal(rejected, 0, JSON.stringify(rejections))
        }
        questions.push(...wanted.map((question) => ({ ...question, namespace: `n${n}` })))
      }
      const args = questions.map(({ query, startMs, endMs, stepMs, namespace }) => ({ query, startMs, endMs, stepMs, namespace }))
      const [expected, found] = await Promise.all(engines.map(([, engine]) => engine.run<Result[]>(JOB, args).result))
      for (const [k, question] of questions.entries()) {
        asked++
        const what = `${file}:${question.line} ${question.query}`
        const own = difference(question.expected, found[k])
        // Where the memory engine differs from the script as well it is not ClickHouse's.
        if (own === undefined) t.pass(what)
        else t.equal(own, difference(question.expected, expected[k]), what)
        if (own !== undefined) t.comment(`as in memory, and not as in the script: ${what}`)
      }
    })
  t.test('questions were asked', async (t) => t.ok(asked > 300, String(asked)))
}
