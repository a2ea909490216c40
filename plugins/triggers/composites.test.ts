/** Triggers on signals of other triggers. */
import { randomUUID } from 'node:crypto'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { Composites } from './composites.ts'
import { Cooldowns } from './cooldown/cooldowns.ts'
import type { Signal } from './signal.ts'
import { parseStatement } from './statement/parse.ts'
import { asked, start } from './testing.ts'
import { made } from './trigger.ts'

t.setTimeout(300_000)

const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n
const at = (seconds: number): string => String(now - 3600n * 1_000_000_000n + BigInt(seconds) * 1_000_000_000n)
const plain = ["CREATE TRIGGER hot ON cpu WHEN heat > 90 COOLDOWN INTERVAL '1s'", "CREATE TRIGGER slow ON web WHEN ms > 0.5 COOLDOWN INTERVAL '1s'"]
const storm = "CREATE TRIGGER storm ON SIGNALS (hot, slow) WITHIN INTERVAL '1m' BY (host) COOLDOWN INTERVAL '5m'"

for (const storage of ['memory', 'embedded']) {
  t.test(`a composite fires when all have fired within the span, of the same host (${storage})`, async (t) => {
    const { node, run, write, settled } = await start(t, { storage })
    for (const query of [...plain, storm]) t.equal((await run(query)).status, 200, query)
    t.match((await node.inject('/api/v1/triggers/storm')).json(), {
      name: 'storm',
      measurement: 'signals',
      condition: "SIGNALS (hot, slow) WITHIN INTERVAL '1m' BY (host)",
      cooldown_secs: 300,
    })
    await write([`cpu,host=a heat=95 ${at(0)}`, `web,host=b ms=1 ${at(10)}`])
    await settled(2)
    await write([`web,host=a,path=x ms=1 ${at(61)}`])
    const apart = await settled(3)
    t.notOk(
      apart.some(({ trigger_name }) => trigger_name === 'storm'),
      'not the same host, and not within a minute',
    )
    await write([`cpu,host=a heat=99 ${at(100)}`])
    const found = await settled(5)
    const [signal] = found.filter(({ trigger_name }) => trigger_name === 'storm')
    t.match(signal, { tags: { host: 'a' }, timestamp: Number(at(100)), severity: 'critical', value: 2, measurement: 'signals', signal_type: 'trigger' })
    // Silent for five minutes of points, on both sides.
    await write([`web,host=a ms=1 ${at(120)}`, `cpu,host=a heat=99 ${at(121)}`])
    t.equal((await settled(7)).filter(({ trigger_name }) => trigger_name === 'storm').length, 1, 'silent for its cooldown')
    await write([`web,host=a ms=1 ${at(500)}`, `cpu,host=a heat=99 ${at(501)}`])
    t.equal((await settled(10)).filter(({ trigger_name }) => trigger_name === 'storm').length, 2)
    t.match((await node.inject('/metrics')).body, /^svc_composite_signal_fired_total 2$/m)
    t.equal((await run('ALTER TRIGGER storm DISABLE')).status, 200)
    await write([`web,host=a ms=1 ${at(1000)}`, `cpu,host=a heat=99 ${at(1001)}`])
    t.equal((await settled(12)).filter(({ trigger_name }) => trigger_name === 'storm').length, 2, 'not while it is disabled')
    t.equal((await run('DROP TRIGGER storm')).status, 200)
  })
}

t.test('a composite outlives a restart, with what its members had found', async (t) => {
  const dataDir = temporaryFolder(t)
  const options = { plugins: ['line_protocol', 'triggers'], config: { triggers: {} }, storage: 'embedded', dataDir }
  const first = asked(await boot(options))
  for (const query of [...plain, storm]) await first.run(query)
  await first.write([`cpu,host=a heat=95 ${at(0)}`])
  await first.settled(1)
  await first.node.stop()
  const node = await boot(options)
  t.teardown(() => node.stop())
  const second = asked(node)
  await second.write([`web,host=a ms=1 ${at(30)}`])
  t.equal((await second.settled(3)).filter(({ trigger_name }) => trigger_name === 'storm').length, 1)
})

t.test('what a member had found that was dropped is not that of the next of its name, also after a restart', async (t) => {
  const dataDir = temporaryFolder(t)
  const options = { plugins: ['line_protocol', 'triggers'], config: { triggers: {} }, storage: 'embedded', dataDir }
  const storms = (found: readonly { trigger_name: string }[]) => found.filter(({ trigger_name }) => trigger_name === 'storm').length
  const first = asked(await boot(options))
  for (const query of [...plain, storm]) await first.run(query)
  await first.write([`cpu,host=a heat=95 ${at(0)}`])
  await first.settled(1)
  for (const query of ['DROP TRIGGER hot', "CREATE TRIGGER hot ON cpu WHEN heat > 200 COOLDOWN INTERVAL '1s'"]) t.equal((await first.run(query)).status, 200)
  await first.write([`web,host=a ms=1 ${at(10)}`])
  t.equal(storms(await first.settled(2)), 0, 'it has not fired yet')
  await first.node.stop()
  const node = await boot(options)
  t.teardown(() => node.stop())
  const second = asked(node)
  await second.write([`web,host=a ms=1 ${at(20)}`])
  t.equal(storms(await second.settled(3)), 0)
  await second.write([`cpu,host=a heat=201 ${at(30)}`])
  t.equal(storms(await second.settled(5)), 1)
})

t.test('what is no composite is refused with what to write', async (t) => {
  const { run } = await start(t)
  for (const query of plain) await run(query)
  const refused = async (query: string, text: RegExp) => {
    const { status, body } = await run(query)
    t.equal(status, 400, query)
    t.match(body.error, text)
  }
  await refused("CREATE TRIGGER x ON SIGNALS (hot, cold) WITHIN INTERVAL '1m'", /trigger "cold" is not there; create it first/)
  await refused("CREATE TRIGGER x ON SIGNALS (hot) WITHIN INTERVAL '1m'", /a composite is of at least two/)
  await refused("CREATE TRIGGER x ON SIGNALS (hot, hot) WITHIN INTERVAL '1m'", /each name once/)
  await refused('CREATE TRIGGER x ON SIGNALS (hot, slow)', /WITHIN/)
  await refused("CREATE TRIGGER x ON SIGNALS (hot, slow) WITHIN '1m'", /such as WITHIN INTERVAL '5m'/)
  t.equal((await run(storm)).status, 200)
  await refused("CREATE TRIGGER x ON SIGNALS (hot, storm) WITHIN INTERVAL '1m'", /trigger "storm" is a composite itself/)
  t.equal((await run('CREATE TRIGGER own ON signals WHEN v > 1')).status, 200, 'a measurement may be called signals')
})

t.test('the cooldown of a composite outlives a restart, however many signals came since', async (t) => {
  const dataDir = temporaryFolder(t)
  const options = { plugins: ['line_protocol', 'triggers'], config: { triggers: {} }, storage: 'embedded', dataDir }
  const first = asked(await boot(options))
  for (const query of [...plain, storm, "CREATE TRIGGER noise ON other WHEN v > 0 COOLDOWN INTERVAL '0s'"]) await first.run(query)
  await first.write([`cpu,host=a heat=95 ${at(0)}`, `web,host=a ms=1 ${at(10)}`])
  await first.settled(3)
  // More than composites remember after a start.
  await first.write(Array.from({ length: 1100 }, (_, i) => `other,host=a v=1 ${at(i)}`))
  await first.settled(1103)
  await first.node.stop()
  const node = await boot(options)
  t.teardown(() => node.stop())
  const second = asked(node)
  await second.write([`cpu,host=a heat=95 ${at(60)}`, `web,host=a ms=1 ${at(70)}`])
  const storms = async (count: number) => (await second.settled(count)).filter(({ trigger_name }) => trigger_name === 'storm').length
  t.equal(await storms(1105), 1, 'silent for five minutes of points')
  await second.write([`cpu,host=a heat=95 ${at(400)}`, `web,host=a ms=1 ${at(410)}`])
  t.equal(await storms(1108), 2)
})

t.test('composites are bounded in number, and so is what they remember', async (t) => {
  const { run, write, settled } = await start(t, { config: { triggers: { max_composites_per_namespace: 2, max_composite_groups_per_namespace: 2 } } })
  for (const query of plain) await run(query)
  const made = (name: string, tag = 'host') => run(`CREATE TRIGGER ${name} ON SIGNALS (hot, slow) WITHIN INTERVAL '1m' BY (${tag}) COOLDOWN INTERVAL '0s'`)
  t.equal((await made('one')).status, 200)
  t.equal((await made('two')).status, 200)
  t.match(await made('three'), { status: 429, body: { code: 'RATE_LIMITED', error: /raise triggers\.max_composites_per_namespace/ } })
  t.equal((await run('DROP TRIGGER two')).status, 200)
  // Three groups where two are remembered: the first is met longest ago when the second member comes.
  await write(['a', 'b', 'c'].map((host) => `cpu,host=${host} heat=95 ${at(0)}`))
  await settled(3)
  await write(['c', 'b', 'a'].map((host, i) => `web,host=${host} ms=1 ${at(i + 1)}`))
  const found = await settled(8)
  t.same(
    found.filter(({ trigger_name }) => trigger_name === 'one').map(({ tags }) => tags.host),
    ['c', 'b'],
  )
})

t.test('work for many composites yields, and is for those that name the trigger alone', async (t) => {
  const composites = new Composites(10, () => 'id')
  const tagged = (member: string, i: number) => {
    const created = parseStatement(`CREATE TRIGGER c${i} ON SIGNALS (${member}, other) WITHIN INTERVAL '1m' BY (host)`, {
      maxBytes: 1000,
      maxComparisons: 9,
      maxDepth: 9,
      maxChannels: 9,
    })
    if (created.kind !== 'create' || created.condition.kind !== 'signals') throw new Error('a composite is expected')
    composites.add(made(created, { id: randomUUID(), cooldown: '0', enabled: true, after: '', created_at: 0 }), created.condition)
  }
  for (let i = 0; i < 300; i++) tagged('hot', i)
  for (let i = 300; i < 400; i++) tagged('cold', i)
  const signals = (name: string) =>
    Array.from(
      { length: 1000 },
      (_, i) => ({ trigger_id: 'id', trigger_name: name, tags: { host: `h${i}` }, timestamp: '1', severity: 'info' }) as unknown as Signal,
    )
  const yields = (name: string): number => {
    const changes = { put: new Map(), deleted: new Set<string>(), floors: new Map() }
    return [...composites.of(signals(name), new Cooldowns(() => 10), changes)].length
  }
  t.equal(yields('hot'), Math.floor(300_000 / 64))
  t.equal(yields('cold'), Math.floor(100_000 / 64))
  t.equal(yields('lukewarm'), 0)
})
