/** Whether ClickHouse has the functions is asked once for all questions: what befalls one of these, or ClickHouse meanwhile, is not what the others get. */
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { f64, NOW, NOW_MS, write } from '../conformance/points.ts'
import type { Client } from './client.ts'
import { ClickHouseEngine } from './engine.ts'
import { GridFunctions } from './grid-functions.ts'
import type { Answered } from './testing/aggregate-job.ts'
import { Held, proxyTo } from './testing/proxy.ts'

const JOB = new URL('./testing/aggregate-job.ts', import.meta.url)

t.test('of two questions that wait for it, the first is cancelled', { skip: NO_CLICKHOUSE ?? false }, async (t) => {
  const server = await startClickHouse()
  const held = new Held()
  const proxy = await proxyTo(server.url, (statement, forward) => held.pass(statement, forward))
  const clickhouse = { ...server.section, url: proxy.url, prefix: `f${process.pid}` }
  const engine = new ClickHouseEngine(testContext({ clickhouse }, () => NOW_MS))
  await engine.open()
  t.teardown(async () => {
    held.release()
    await engine.close()
    proxy.close()
    await server.stop()
  })
  await write(
    engine,
    [0n, 30n, 60n].map((secs) => ({ measurement: 'hits', time: NOW - secs * 1_000_000_000n, fields: { value: f64(60 - Number(secs)) } })),
  )
  const questions = [{ query: 'sum(rate(hits[5m]))', startMs: NOW_MS, endMs: NOW_MS, stepMs: 0 }]
  const ask = () => engine.run<Answered[]>(JOB, { questions, aggregates: true }, { namespace: 'default', timeoutMs: 20_000 })
  held.next(/ToGrid.* FROM values\(/s)
  const first = ask()
  await held.reached
  const second = ask()
  // It waits for the same answer when it has looked for its series.
  await engine.measurements('default')
  first.cancel()
  await t.rejects(first.result)
  held.release()
  t.match(await second.result, [{ asked: 1, declined: 0, series: [['{}', {}]] }])
})

t.test('after an error that says nothing of the functions it is asked again', async (t) => {
  const told: string[] = []
  const EXPECTED = [
    [5, 9, 7, 0, 14],
    [13 / 60, 0.1, 0, 0, 8 / 60],
    [3.6, 6, 0, 0, 8],
    [0.25, 0.1, 0, 0, 1],
    [-3, 3, 0, 0, 4],
  ]
  const nulls = EXPECTED.map((_, i) => Uint8Array.of(0, 0, i === 0 ? 0 : 1, 1, 0))
  const columns = EXPECTED.map((values, i) => ({ items: { nulls: nulls[i], bytes: new Uint8Array(Float64Array.from(values).buffer) } }))
  const codes = ['49', '46']
  const client = {
    async *blocks(_: string, { meaning }: { meaning?(code: string, message: string): SvcError | undefined }) {
      const code = codes.shift()
      if (code !== undefined) throw meaning?.(code, `code ${code}`) ?? new SvcError('DATABASE_ERROR', `code ${code}`)
      yield { rows: 1, columns }
    },
  }
  const begin = () => new GridFunctions(client as unknown as Client, (why) => told.push(why))
  const functions = begin()
  t.same([await functions.available(), await functions.available(), await functions.available()], [false, false, false])
  t.match(told, [/code 49/, /code 46/])
  t.same(codes, [], 'a server that lacks them is not asked again')
  codes.push('49')
  const others = begin()
  t.same([await others.available(), await others.available()], [false, true])
})
