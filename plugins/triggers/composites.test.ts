/** Triggers on signals of other triggers. */

import { boot } from 'svcdb/testkit'
import t from 'tap'
import { asked, start } from './testing.ts'

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
  const dataDir = t.testdir()
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
