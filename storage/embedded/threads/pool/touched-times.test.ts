/** Results that were kept end with what touches the times that they have read, and before that is acknowledged. */
import { moduleUrl } from 'svcdb/lib/modules'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { testContext } from '../../../conformance/index.ts'
import { EmbeddedEngine } from '../../engine.ts'
import { closeAndRemove, NOW, NOW_MS, tempDir, writeFloat } from '../../testing/harness.ts'
import type { Counted } from '../testing/counted-job.ts'

const JOB = moduleUrl('../testing/counted-job.ts', import.meta.url)
const HOUR = 3_600_000_000_000n

/** An engine that counts the rows of a time that begins some hours ago. */
async function counting(t: Test, config: Record<string, unknown> = {}) {
  const clock = { ms: NOW_MS }
  const dir = tempDir()
  const engine = new EmbeddedEngine(testContext({ data_dir: dir, maintenance_interval_secs: 3600, warm_up_ms: 0, ...config }, () => clock.ms))
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  const count = async (cacheable = true): Promise<Counted> => {
    const args = { namespace: '', measurement: 'cpu', start: String(NOW - 10n * HOUR) }
    const job = engine.run<Counted>(JOB, args, { namespace: '', shared: cacheable, cacheable })
    for await (const _ of job.output);
    return job.result
  }
  /** Counts until the result is kept. */
  const kept = async (rows: number): Promise<void> => {
    for (let i = 0; i < 3; i++) t.equal((await count()).rows, rows)
    const { before } = await count()
    t.equal((await count()).before, before)
  }
  return { engine, clock, count, kept }
}

t.test('a write touches the time of its oldest row, whatever the lower half of that is', async (t) => {
  const node = await boot({ plugins: ['line_protocol', 'sql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const write = async (lines: string[]): Promise<void> => {
    t.equal((await node.inject({ method: 'POST', url: '/write?backfill=true', payload: lines.join('\n') })).statusCode, 204)
  }
  // Of the lower halves, read as 32 bits with a sign, that of the later row is the smaller one.
  const oldest = ((1_700_000_000_000_000_000n >> 32n) << 32n) | 0x10000000n
  const later = oldest + 0x80000000n
  const count = async (): Promise<unknown> => {
    const query = `SELECT count(*)::INTEGER FROM a WHERE _time BETWEEN ${oldest - 100n} AND ${oldest + 100n}`
    return (await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })).json().rows
  }
  await write([`a,host=1 v=1 ${oldest - 1n}`])
  for (let i = 0; i < 3; i++) t.same(await count(), [[1]])
  t.match((await node.inject('/metrics')).body, /^svc_result_cache_hits_total 1$/m)
  await write([`a,host=1 v=2 ${oldest}`, `a,host=1 v=2 ${later}`])
  t.same(await count(), [[2]])
  t.same(await count(), [[2]])
  await write([`a,host=1 v=3 ${later + 1n}`, `a,host=1 v=3 ${oldest + 1n}`])
  t.same(await count(), [[3]])
})

t.test('a field and a label that come with later rows are columns of an answer about a time before', async (t) => {
  const node = await boot({ plugins: ['line_protocol', 'sql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const write = async (line: string): Promise<void> => {
    t.equal((await node.inject({ method: 'POST', url: '/write?precision=s&backfill=true', payload: line })).statusCode, 204)
  }
  const columns = async (): Promise<string[]> => {
    const query = "SELECT * FROM a WHERE _time < '2023-01-01'"
    const answer = (await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })).json()
    return answer.columns.map(({ name }: { name: string }) => name).sort()
  }
  const hits = async (): Promise<unknown> => /^svc_result_cache_hits_total (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1]
  await write('a,host=1 v=1 1600000000')
  for (let i = 0; i < 3; i++) t.same(await columns(), ['_time', 'host', 'v'])
  await write('a,host=1 v=2 1700000000')
  t.same(await columns(), ['_time', 'host', 'v'])
  t.equal(await hits(), '2', 'a later row alone touches nothing')
  await write('a,host=1 v=2,w=2 1700000000')
  for (let i = 0; i < 3; i++) t.same(await columns(), ['_time', 'host', 'v', 'w'])
  await write('a,host=1,zone=1 v=3 1700000000')
  for (let i = 0; i < 3; i++) t.same(await columns(), ['_time', 'host', 'v', 'w', 'zone'])
})

for (const [what, config] of Object.entries({
  'of all measurements': { retention_secs: 4 * 3600 },
  'of one measurement': { retention: { cpu: 4 * 3600 } },
}))
  t.test(`a retention ${what} touches the times before its cutoff`, async (t) => {
    const { engine, clock, count, kept } = await counting(t, config)
    for (const hours of [3n, 2n, 1n]) await writeFloat(engine, 'cpu', 'a', NOW - hours * HOUR, { v: 1 }, { backfill: true })
    clock.ms += 2.5 * 3_600_000
    await writeFloat(engine, 'newer', 'a', BigInt(clock.ms) * 1_000_000n, { v: 1 })
    await kept(3)
    await engine.tidy()
    const { rows } = await count(false)
    t.ok(rows < 3)
    t.equal((await count()).rows, rows)
  })

t.test('whoever asks in the moment that a change is acknowledged gets none of what was kept before it', async (t) => {
  const { engine, count, kept } = await counting(t)
  for (const host of ['a', 'b']) await writeFloat(engine, 'cpu', host, NOW, { v: 1 })
  await kept(2)
  const deleted = engine.delete({ namespace: '', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'a' }] }).then(() => count())
  t.equal((await deleted).rows, 1)
  await kept(1)
  const written = writeFloat(engine, 'cpu', 'b', NOW + 1n, { v: 1 }).then(() => count())
  t.equal((await written).rows, 2)
  await kept(2)
  await t.rejects(
    engine.drop('', 'cpu').then(() => count()),
    { code: 'NOT_FOUND' },
  )
})
