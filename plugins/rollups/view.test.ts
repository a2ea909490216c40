/** What the real-time view may take: no more time than any other question, and none for somebody who has gone. */
import type { JobOptions, RunningJob, Storage } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'

const rollup = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['avg'] }

/** A node whose jobs of the view are the test's. */
async function start(t: Test, server: object, rollups: object, job: (options: JobOptions) => RunningJob<unknown>) {
  const node = await boot({ plugins: ['line_protocol', 'rollups'], config: { server, rollups } })
  t.teardown(() => node.stop())
  t.equal((await node.inject({ method: 'POST', url: '/write', headers: { 'content-type': 'text/plain' }, payload: 'cpu usage=1' })).statusCode, 204)
  t.equal((await node.inject({ method: 'POST', url: '/api/v1/rollups', payload: rollup })).statusCode, 201)
  const { storage } = node as { storage: Storage }
  const run = storage.run.bind(storage)
  storage.run = ((module: URL, args: unknown, options: JobOptions = {}) =>
    module.href.includes('view-job') ? job(options) : run(module, args, options)) as Storage['run']
  return node
}

const answered = (): RunningJob<unknown> => ({
  output: (async function* () {
    yield Buffer.from('{}')
  })(),
  result: Promise.resolve(0),
  cancel() {},
})

for (const [server, rollups, limit] of [
  [{ sql_query_timeout_secs: 7 }, {}, { timeoutMs: 7000, timeoutSetting: 'server.sql_query_timeout_secs' }],
  [{ sql_query_timeout_secs: 7 }, { job_timeout_secs: 3 }, { timeoutMs: 3000, timeoutSetting: 'rollups.job_timeout_secs' }],
  [{ sql_query_timeout_secs: 0 }, { job_timeout_secs: 3 }, { timeoutMs: 3000, timeoutSetting: 'rollups.job_timeout_secs' }],
] as const)
  t.test(`it ends with the shorter limit: ${JSON.stringify({ server, rollups })}`, async (t) => {
    const asked: JobOptions[] = []
    const node = await start(t, server, rollups, (options) => {
      asked.push(options)
      return answered()
    })
    t.equal((await node.inject('/api/v1/rollups/hourly/query')).statusCode, 200)
    t.match(asked, [limit])
  })

t.test('it ends when the caller hangs up', async (t) => {
  const begun = Promise.withResolvers<void>()
  const cancelled = Promise.withResolvers<void>()
  const node = await start(t, {}, {}, () => {
    const end = new Promise<never>((_, reject) => void cancelled.promise.then(() => reject(new Error('cancelled'))))
    end.catch(() => {})
    begun.resolve()
    const output = { [Symbol.asyncIterator]: () => ({ next: () => end }) }
    return { output, result: end, cancel: () => cancelled.resolve() }
  })
  const hangUp = new AbortController()
  const asked = fetch(`${node.url}/api/v1/rollups/hourly/query`, { signal: hangUp.signal })
  await begun.promise
  hangUp.abort()
  await t.rejects(asked)
  await cancelled.promise
  t.pass('the job is cancelled')
})
