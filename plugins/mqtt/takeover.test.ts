/** A connector of several nodes that share their state: one of them has it, and what was acknowledged to a publisher is stored, whoever goes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin } from 'svcdb'
import { boot, SharedState, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../test/support/until.ts'
import { broker, listed, type Row, rowsOf } from './testing.ts'

t.test('one node takes messages; another goes on when that one is decommissioned, stops, or loses its state', async (t) => {
  const mqtt = await broker(t)
  const shared = new SharedState()
  const cut = new Set<number>()
  const nodes: TestNode[] = []
  // What a node of the memory engine has stored goes with it.
  const left: Row[] = []
  const keeper = definePlugin({
    id: 'keeper',
    summary: 'Keeps what a node has that stops',
    stability: 'experimental',
    capabilities: ['points'],
    setup: (svc) => svc.stop(async () => void left.push(...(await rowsOf(svc)))),
  })
  for (const node_id of [1, 2, 3]) {
    const node = await boot({
      plugins: ['mqtt', 'native', 'cluster', keeper],
      storage: await shared.engine(() => !cut.has(node_id)),
      config: { mqtt: { broker: '127.0.0.1', port: mqtt.port, topics: ['n'], qos: 1 }, cluster: { node_id, heartbeat_interval_secs: 0.2 } },
    })
    t.teardown(() => node.stop())
    nodes.push(node)
  }
  const up = async (): Promise<number[]> => {
    const found: number[] = []
    for (const [i, node] of nodes.entries()) {
      if (node.node.storage === undefined) continue
      // One that is decommissioned answers nothing.
      const connectors = await listed(node)
      if (Array.isArray(connectors) && ['Running', 'Idle'].includes(connectors[0].status as string)) found.push(i + 1)
    }
    return found
  }
  /** The one that has it, once there is one. */
  const owner = async (not?: number): Promise<number> => {
    let found: number[] = []
    await eventually(async () => {
      found = await up()
      return found.length === 1 && found[0] !== not
    })
    return found[0]
  }
  const first = await owner()
  t.equal(mqtt.aedes.connectedClients, 1)

  const client = await mqtt.client()
  let published = 0
  let going = true
  const publishing = (async () => {
    while (going) {
      await client.publishAsync('n', JSON.stringify({ fields: { value: published }, tags: { n: String(published) } }), { qos: 1 })
      published++
      await sleep(2)
    }
  })()
  const told = await nodes[first % 3].inject({ method: 'POST', url: `/api/v1/admin/nodes/${first}/decommission` })
  t.equal(told.statusCode, 202)
  const second = await owner(first)
  cut.add(second)
  const third = await owner(second)
  t.equal(new Set([first, second, third]).size, 3)
  cut.delete(second)
  await nodes[third - 1].stop()
  t.equal(await owner(third), second)
  await eventually(() => published > 50)
  going = false
  await publishing
  const stored = async (): Promise<Set<unknown>> =>
    new Set(
      [...left, ...(await Promise.all(nodes.filter(({ node }) => node.storage !== undefined).map((node) => rowsOf(node)))).flat()].map(
        ({ fields }) => fields.value,
      ),
    )
  await eventually(async () => (await stored()).size === published)
  t.pass(`${published} messages, all stored`)
})

t.test('a node that stops ends its connection before another begins one, however long its storage takes', async (t) => {
  const mqtt = await broker(t)
  /** Clients that connected under an id whose connection was there. */
  let replaced = 0
  const connected = new Set<string>()
  mqtt.aedes.on('client', ({ id }) => connected.add(id))
  mqtt.aedes.on('clientDisconnect', ({ id }) => connected.delete(id))
  mqtt.aedes.preConnect = (_, packet, done) => {
    if (connected.has(packet.clientId)) replaced++
    done(null, true)
  }
  const shared = new SharedState()
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const slow = new Set<number>()
  const writing = new Set<number>()
  const nodes: TestNode[] = []
  for (const node_id of [1, 2]) {
    const storage = await shared.engine()
    const write = storage.write.bind(storage)
    storage.write = async (...given) => {
      writing.add(node_id)
      if (slow.has(node_id)) await released
      return write(...given)
    }
    const node = await boot({
      plugins: ['mqtt', 'native', 'cluster'],
      storage,
      config: {
        server: { shutdown_timeout_secs: 5 },
        mqtt: { broker: '127.0.0.1', port: mqtt.port, topics: ['n'], qos: 1 },
        cluster: { node_id, heartbeat_interval_secs: 0.2 },
      },
    })
    t.teardown(() => node.stop())
    nodes.push(node)
  }
  const isUp = async (id: number) => ['Running', 'Idle'].includes((await listed(nodes[id - 1]))[0].status as string)
  let first = 0
  await eventually(async () => {
    for (const id of [1, 2]) if (await isUp(id)) first = id
    return first > 0
  })
  const second = 3 - first
  slow.add(first)
  const client = await mqtt.client()
  await client.publishAsync('n', JSON.stringify({ fields: { value: 1 } }), { qos: 1 })
  await eventually(() => writing.has(first))
  const stopped = nodes[first - 1].stop()
  await eventually(() => isUp(second))
  await eventually(async () => (await rowsOf(nodes[second - 1].node as never)).length === 1)
  release()
  await stopped
  t.equal(replaced, 0)
})
