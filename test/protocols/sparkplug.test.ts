/** Sparkplug B over MQTT: a node between edge nodes and a broker. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { broker, listed, rowsOf, running } from '../../plugins/mqtt/testing.ts'
import { encode, type SentMetric } from '../../plugins/sparkplug_b/testing.ts'
import { eventually } from '../support/until.ts'

async function start(t: Test, mqtt: object, sparkplug_b: object = {}) {
  const node = await boot({
    plugins: ['mqtt', 'sparkplug_b', 'line_protocol'],
    storage: 'embedded',
    config: { mqtt: { broker: '127.0.0.1', topics: ['spBv1.0/#'], format: 'sparkplug_b', reconnect_ms: 100, ...mqtt }, sparkplug_b },
  })
  t.teardown(() => node.stop())
  await running(node)
  return node
}

t.test('an edge node that is asked for its births gives them, and its data is read', async (t) => {
  const mqtt = await broker(t)
  const node = await start(t, { port: mqtt.port })
  const client = await mqtt.client()
  let seq = 0
  const send = (type: string, metrics: SentMetric[], device = '') =>
    client.publishAsync(`spBv1.0/plant/${type}/edge${device}`, Buffer.from(encode({ timestamp: Date.now(), seq: seq++ % 256, metrics })))
  const birth = async () => {
    seq = 0
    await send('NBIRTH', [
      { name: 'bdSeq', type: 'UInt64', value: 3 },
      { name: 'Temperature', type: 'Double', value: 20, alias: 1 },
    ])
    await send('DBIRTH', [{ name: 'Count', type: 'Int32', value: 0, alias: 2 }], '/press')
  }
  let requests = 0
  client.on('message', (topic, payload) => {
    if (topic !== 'spBv1.0/plant/NCMD/edge' || !payload.includes('Node Control/Rebirth')) return
    requests++
    void birth()
  })
  await client.subscribeAsync('spBv1.0/plant/NCMD/#')
  seq = 7
  await send('NDATA', [{ alias: 1, type: 'Double', value: 21 }])
  await eventually(async () => (await rowsOf(node)).length === 4)
  t.equal(requests, 1)
  await send('NDATA', [{ alias: 1, type: 'Double', value: 22 }])
  await send('DDATA', [{ alias: 2, type: 'Int32', value: -1 }], '/press')
  await eventually(async () => (await rowsOf(node)).length === 6)
  const rows = await rowsOf(node)
  t.match(
    rows.map(({ measurement, tags, fields }) => [measurement, tags, fields]),
    [
      ['edge', { group_id: 'plant', edge_node_id: 'edge' }, { Temperature: 20 }],
      ['edge', { group_id: 'plant', edge_node_id: 'edge' }, { Temperature: 22 }],
      ['press', { group_id: 'plant', edge_node_id: 'edge', device_id: 'press' }, { Count: 0n }],
      ['press', { group_id: 'plant', edge_node_id: 'edge', device_id: 'press' }, { Count: -1n }],
      ['sparkplug_state', { group_id: 'plant', edge_node_id: 'edge' }, { online: 1, bd_seq: 3n }],
      ['sparkplug_state', { group_id: 'plant', edge_node_id: 'edge', device_id: 'press' }, { online: 1, bd_seq: 3n }],
    ],
  )
  const letters = (await readFile(join(node.dataDir, 'dead-letters', 'mqtt-default.jsonl'), 'utf8')).trim().split('\n')
  t.equal(letters.length, 1)
  t.match(JSON.parse(letters[0]), { topic: 'spBv1.0/plant/NDATA/edge', error: /no birth has said what alias 1 is/ })
  const metrics = (await node.inject('/metrics')).body
  t.match(metrics, /svc_sparkplug_b_rebirth_requests_total 1/)
  t.match(metrics, /svc_sparkplug_b_metrics_total\{outcome="stored"\} 4/)
  t.match(metrics, /svc_sparkplug_b_metrics_total\{outcome="unknown"\} 1/)
  t.match(metrics, /svc_sparkplug_b_known_metrics 5/)
})

t.test('edge nodes are not asked again within the interval, nor at all where that is switched off', async (t) => {
  for (const [rebirth, expected] of [
    ['request', 1],
    ['never', 0],
  ] as const) {
    const mqtt = await broker(t)
    const node = await start(t, { port: mqtt.port }, { rebirth })
    const client = await mqtt.client()
    let requests = 0
    client.on('message', () => void requests++)
    await client.subscribeAsync('spBv1.0/+/NCMD/#')
    for (let i = 0; i < 20; i++)
      await client.publishAsync('spBv1.0/g/NDATA/n', Buffer.from(encode({ timestamp: Date.now(), seq: i, metrics: [{ alias: 1, type: 'Int8', value: 1 }] })))
    await eventually(async () => (await listed(node))[0].metrics.decode_errors === 20)
    await client.publishAsync('spBv1.0/g/NCMD/other', Buffer.alloc(0))
    await eventually(() => requests > expected)
    t.equal(requests, expected + 1)
  }
})

t.test('after the connection was lost, aliases hold only where no message is missing', async (t) => {
  const mqtt = await broker(t)
  const node = await start(t, { port: mqtt.port, client_id: 'one' })
  const client = await mqtt.client()
  const send = (type: string, seq: number, metrics: SentMetric[]) =>
    client.publishAsync(`spBv1.0/g/${type}/n`, Buffer.from(encode({ timestamp: Date.now(), seq, metrics })))
  await send('NBIRTH', 0, [{ name: 'old', type: 'Double', value: 0, alias: 1 }])
  await eventually(async () => (await rowsOf(node)).length === 2)
  await mqtt.down()
  await eventually(async () => (await listed(node))[0].status === 'Reconnecting')
  await mqtt.up()
  await running(node)
  await eventually(() => client.connected)
  await send('NDATA', 1, [{ type: 'Double', value: 1, alias: 1 }])
  await eventually(async () => (await rowsOf(node)).length === 3)
  await mqtt.down()
  await eventually(async () => (await listed(node))[0].status === 'Reconnecting')
  await mqtt.up()
  await running(node)
  await eventually(() => client.connected)
  await send('NDATA', 5, [{ type: 'Double', value: 5, alias: 1 }])
  await eventually(async () => (await listed(node))[0].metrics.decode_errors === 1)
  t.match((await node.inject('/metrics')).body, /svc_sparkplug_b_sequence_gaps_total 1/)
})

t.test('a shared subscription is refused', async (t) => {
  await t.rejects(boot({ plugins: ['mqtt', 'sparkplug_b'], config: { mqtt: { broker: 'b', topics: ['$share/g/spBv1.0/#'], format: 'sparkplug_b' } } }), {
    message: /messages of format "sparkplug_b" have to come all to one reader/,
  })
})

t.test('a birth of an earlier session that the broker has kept names no values', async (t) => {
  const mqtt = await broker(t)
  const client = await mqtt.client()
  const birth = { timestamp: Date.now(), seq: 0, metrics: [{ name: 'old', alias: 1, type: 'Double', value: 1 }] }
  await client.publishAsync('spBv1.0/plant/NBIRTH/edge', Buffer.from(encode(birth)), { retain: true })
  const node = await start(t, { port: mqtt.port })
  await eventually(async () => (await rowsOf(node)).length === 2)
  const asked = new Promise((resolve) => client.on('message', resolve))
  await client.subscribeAsync('spBv1.0/plant/NCMD/edge')
  await client.publishAsync(
    'spBv1.0/plant/NDATA/edge',
    Buffer.from(encode({ timestamp: Date.now(), seq: 50, metrics: [{ alias: 1, type: 'Double', value: 2 }] })),
  )
  t.equal(await asked, 'spBv1.0/plant/NCMD/edge')
  const letter = async (): Promise<string> => readFile(join(node.dataDir, 'dead-letters', 'mqtt-default.jsonl'), 'utf8').catch(() => '')
  await eventually(async () => /no birth has said what alias 1 is/.test(await letter()))
  t.equal((await rowsOf(node)).length, 2)
})
