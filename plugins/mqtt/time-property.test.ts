/** The time of points in a user property of MQTT 5. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../test/support/until.ts'
import { listed, rowsOf, running, start } from './testing.ts'
import { publish, rawBroker } from './testing-raw-broker.ts'

const AT = '2026-01-02T03:04:05.000000006Z'
const NANOS = 1_767_323_045_000_000_006n

t.test('points without a time have that of the user property; what comes again is the same point', async (t) => {
  const broker = await rawBroker(t, ({ socket }, index) => {
    const sent = [
      publish('t', 'cpu,n=1 v=1', { id: 1, five: true, user: { at: AT } }),
      publish('t', 'cpu,n=2 v=1', { id: 2, five: true, user: { at: String(NANOS + 1n) } }),
      publish('t', `cpu,n=3 v=1 ${NANOS + 2n}`, { id: 3, five: true, user: { at: AT } }),
      publish('t', 'cpu,n=4 v=1', { id: 4, five: true, user: { other: AT } }),
      publish('t', 'cpu,n=5 v=1', { id: 5, five: true, user: { at: 'yesterday' } }),
      publish('t', 'nonsense', { id: 6, five: true, user: { at: AT } }),
    ]
    if (index === 0) socket.write(Buffer.concat(sent), () => void eventually(() => broker.connections[0].acked.length === 6).then(() => socket.destroy()))
    else socket.write(sent[0])
  })
  const before = BigInt(Date.now()) * 1_000_000n
  const mqtt = { broker: '127.0.0.1', port: broker.port, topics: ['#'], format: 'line_protocol', protocol_version: '5', time_property: 'at', backfill: true }
  const node = await start(t, { ...mqtt, reconnect_ms: 100 }, { storage: 'embedded' })
  await running(node)
  await eventually(async () => (await listed(node))[0].metrics.messages_total === 7 && broker.connections[1].acked.length === 1)
  const rows = (await rowsOf(node)).sort((a, b) => Number(a.tags.n) - Number(b.tags.n))
  t.same(
    rows.slice(0, 3).map(({ tags, time }) => [tags.n, time]),
    [
      ['1', NANOS],
      ['2', NANOS + 1n],
      ['3', NANOS + 2n],
    ],
  )
  t.equal(rows.length, 4, 'the one that came twice is there once')
  t.ok(rows[3].time >= before, 'without the property it is the arrival')
  const letters = (await readFile(join(node.dataDir, 'dead-letters', 'mqtt-default.jsonl'), 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.match(letters, [
    { code: 'INVALID_POINT', error: /cannot read user property "at" as a time: "yesterday"/, point_time: undefined },
    { point_time: String(NANOS) },
  ])
})

t.test('version 3.1.1 has no user properties', async (t) => {
  const mqtt = { broker: 'b', topics: ['t'], time_property: 'at' }
  await t.rejects(boot({ plugins: ['mqtt', 'native'], config: { mqtt } }), {
    message: /cannot use mqtt: time_property is a user property of MQTT 5; set protocol_version = "5"/,
  })
})
