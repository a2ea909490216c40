/** A node that is restored from a backup has its triggers, what has fired, and its rollups, and judges and computes on from there. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { boot, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { asked, type ShownSignal } from './testing.ts'

const HOUR = 3_600_000_000_000n
const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n
const at = (seconds: number): string => String(now - HOUR + BigInt(seconds) * 1_000_000_000n)

t.setTimeout(300_000)
t.test('backup, restore: the same triggers, cooldowns, signals and rollups', async (t) => {
  const open = (dataDir: string) =>
    boot({ plugins: ['line_protocol', 'triggers', 'rollups', 'backup'], config: { triggers: {}, rollups: { interval_ms: 20 } }, storage: 'embedded', dataDir })
  const dataDir = temporaryFolder(t)
  const one = asked(await open(dataDir))
  for (const query of [
    "CREATE TRIGGER hot ON cpu WHEN v > 90 COOLDOWN INTERVAL '60s'",
    "CREATE TRIGGER slow ON web WHEN ms > 1 COOLDOWN INTERVAL '60s'",
    "CREATE TRIGGER storm ON SIGNALS (hot, slow) WITHIN INTERVAL '1m' BY (host) COOLDOWN INTERVAL '10m'",
    'CREATE TRIGGER off ON cpu WHEN v > 1',
    'ALTER TRIGGER off DISABLE',
  ])
    t.equal((await one.run(query)).status, 200, query)
  const rollup = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['count'] }
  t.equal((await one.node.inject({ method: 'POST', url: '/api/v1/rollups', payload: rollup })).statusCode, 201)
  const back = async (payload: string): Promise<void> => {
    const answer = await one.node.inject({ method: 'POST', url: '/write?backfill=true', headers: { 'content-type': 'text/plain' }, payload })
    t.equal(answer.statusCode, 204)
  }
  for (const hour of [1000n, 999n]) await back(`cpu,host=r v=1 ${now - hour * HOUR}`)
  await one.write([`cpu,host=a v=95 ${at(0)}`, `web,host=a ms=2 ${at(10)}`, `cpu,host=b v=95 ${at(5)}`])
  const before = await one.settled(4)
  const rollups = async (node: TestNode): Promise<string> => (await node.inject('/api/v1/rollups')).body
  // All that the live window cannot reach is computed: what is shown then stays.
  const isDone = async (): Promise<boolean> => {
    const [{ materialised_until }] = JSON.parse(await rollups(one.node)).items
    return materialised_until > Number(now - 60n * HOUR)
  }
  for (const until = performance.now() + 60_000; !(await isDone()) && performance.now() < until; ) await sleep(20)
  t.ok(await isDone(), 'the rollup has come as far as it can')
  const listed = (await one.run('SHOW TRIGGERS')).body
  const call = (path: string, payload: object) => one.node.inject({ method: 'POST', url: `/api/v1/admin/${path}`, payload })
  t.equal((await call('backup', { target_dir: 'b' })).statusCode, 200)
  const ofRollups = await rollups(one.node)
  // What is behind the backup is not in it.
  await one.write(`cpu,host=later v=95 ${at(20)}`)
  await one.settled(5)
  t.equal((await call('restore', { backup_dir: 'b', target_dir: 'r' })).statusCode, 200)
  await one.node.stop()

  const node = await open(join(dataDir, 'backups', 'r'))
  t.teardown(() => node.stop())
  const two = asked(node)
  t.same((await two.run('SHOW TRIGGERS')).body, listed)
  t.same(await two.settled(4), before, 'signals, with their ids')
  const progress = (body: string): unknown =>
    JSON.parse(body).items.map(({ name, status, materialised_until }: Record<string, unknown>) => ({ name, status, materialised_until }))
  t.same(progress(await rollups(node)), progress(ofRollups))
  // Within the cooldowns of before, and behind them; what was lost may come again.
  await two.write([`cpu,host=a v=96 ${at(30)}`, `web,host=a ms=2 ${at(40)}`, `cpu,host=later v=95 ${at(20)}`])
  await two.settled(5)
  await two.write([`cpu,host=a v=96 ${at(100)}`, `web,host=a ms=2 ${at(110)}`])
  await two.settled(7)
  await two.write([`cpu,host=a v=96 ${at(1000)}`, `web,host=a ms=2 ${at(1010)}`])
  const text = (signals: readonly ShownSignal[]): string[] =>
    signals.map(({ trigger_name, tags, timestamp }) => `${trigger_name} ${tags.host} ${Math.round(timestamp / 1e9 - Number(at(0)) / 1e9)}`)
  t.same(text((await two.settled(10)).slice(4)), ['hot later 20', 'hot a 100', 'slow a 110', 'hot a 1000', 'slow a 1010', 'storm a 1010'])
})
