/** The warm-up of a whole node: its jobs are ones that are answered, the node answers beside it, and nothing of it is left or seen. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import { nativeWarmUp } from '../plugins/native/warm-up.ts'
import { discoveryWarmUp, queryWarmUp } from '../plugins/promql/warm-up.ts'
import { sqlWarmUp } from '../plugins/sql/warm-up.ts'
import { TestDatabase } from '../storage/embedded/testing/engine-state.ts'
import { ThreadWarmUp } from '../storage/embedded/warm-up/thread-warm-up.ts'

const SOURCES = { sqlWarmUp, queryWarmUp, discoveryWarmUp, nativeWarmUp }

t.test('every job of it is answered, and the thread is left as it was', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  db.write(db.measurement('own', { value: 'float64' }), [{ tags: { host: 'a' }, time: 1n, fields: { value: 1 } }])
  const thread = await db.context()
  let trims = 0
  const warmUp = new ThreadWarmUp(
    thread,
    db.config,
    () => false,
    () => trims++,
  )
  const scratch = (): string[] => readdirSync(db.config.tempDir).filter((name) => name.startsWith('warm-up'))
  for (const [name, { module, args }] of Object.entries(SOURCES)) {
    for (const round of [0, 7]) {
      for (const [i, each] of args(round).entries()) {
        const outcome = await warmUp.run({ jobs: [{ module: module.href, args: each }], ms: 60_000, trim: round === 7 && i === 0 })
        t.match(outcome, { jobs: 1, cause: undefined }, `${name}, round ${round}, job ${i}`)
      }
    }
  }
  t.equal(trims, Object.keys(SOURCES).length)
  t.equal(scratch().length, 1)
  await warmUp.end()
  t.same(scratch(), [])
  t.same(
    [...db.state.measurements.values()].map(({ name }) => name),
    ['own'],
  )
  t.equal(thread.sampleBlocks.bytes, 0)
})

t.test('its end waits for the job that runs: nothing of it works on when the thread goes', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const idle = (): boolean => false
  const warmUp = new ThreadWarmUp(await db.context(), db.config, idle, () => {})
  const jobs = sqlWarmUp.args(0).map((args) => ({ module: sqlWarmUp.module.href, args }))
  await warmUp.run({ jobs: jobs.slice(0, 1), ms: 60_000, trim: false })
  let over = false
  const slice = warmUp.run({ jobs, ms: 60_000, trim: false }).then((outcome) => {
    over = true
    return outcome
  })
  await new Promise((resolve) => setImmediate(resolve))
  await warmUp.end()
  t.ok(over)
  t.ok((await slice).jobs < jobs.length, 'and no further job begins')
  t.match(await warmUp.run({ jobs, ms: 60_000, trim: false }), { jobs: 0 })
})

t.test('it steps aside for what somebody waits for', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const warmUp = new ThreadWarmUp(
    await db.context(),
    db.config,
    () => true,
    () => {},
  )
  const jobs = sqlWarmUp.args(0).map((args) => ({ module: sqlWarmUp.module.href, args }))
  t.match(await warmUp.run({ jobs, ms: 60_000, trim: false }), { jobs: 0 })
  await warmUp.end()
})

const PLUGINS = ['line_protocol', 'native', 'sql', 'promql']
const POINT = 'm,host=a value=1 1700000000000000000'

/** What a client, an operator and a scraper see of a node. */
async function seen(node: TestNode): Promise<{ queries: string[] } & Record<string, unknown>> {
  const metrics = (await node.inject('/metrics')).body
  const queries = metrics.split('\n').filter((line) => /^svc_(sql|promql|http_queries|storage_queries|segments|series|measurements)\w*(\{| )/.test(line))
  return {
    measurements: (await node.inject('/api/v1/measurements')).json(),
    namespaces: await node.storage.namespaces(),
    labels: (await node.inject('/api/v1/labels?start=0')).json(),
    tables: (await node.inject('/api/v1/svc/sql?q=SELECT%20table_name%20FROM%20information_schema.tables')).json(),
    queries: queries.filter((line) => !/bytes|seconds/.test(line)),
    segments: readdirSync(join(node.dataDir, 'segments')),
  }
}

t.test('a node answers beside it, and shows nothing of it', async (t) => {
  const logged: string[] = []
  const start = (warmUpMs: number): Promise<TestNode> =>
    boot({ plugins: PLUGINS, storage: 'embedded', config: { database: { warm_up_ms: warmUpMs, query_threads: 1 } }, log: (line) => void logged.push(line) })
  const [warm, cold] = [await start(1500), await start(0)]
  t.teardown(() => Promise.all([warm.stop(), cold.stop()]))
  const folder = join(warm.dataDir, 'tmp')
  const made = (): boolean => existsSync(folder) && readdirSync(folder).some((name) => name.startsWith('warm-up'))
  for (const node of [warm, cold]) t.equal((await node.inject({ method: 'POST', url: '/write', payload: POINT })).statusCode, 204)
  while (!made()) await sleep(5)
  let answers = 0
  while (made()) {
    const answer = await warm.inject('/api/v1/svc/sql?q=SELECT%20count(*)%20AS%20n%20FROM%20m')
    t.same(answer.json().rows, [[1]])
    answers++
    await sleep(20)
  }
  t.ok(answers > 0)
  for (let i = 0; i < answers; i++) await cold.inject('/api/v1/svc/sql?q=SELECT%20count(*)%20AS%20n%20FROM%20m')
  const shown = await seen(warm)
  t.not(shown.queries.length, 0)
  t.same(shown, await seen(cold))
  t.notOk(logged.some((line) => line.includes('warm-up') && !line.includes('"level":20')))
})
