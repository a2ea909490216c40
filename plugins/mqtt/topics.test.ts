/** Topics that are no longer those of a connector: the session at the broker has them all the same. */
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { eventually } from '../../test/support/until.ts'
import { broker, listed, rowsOf, running, start } from './testing.ts'

/** Of one session, by the nodes that are started one after the other. */
async function session(t: Test) {
  const { port, client, aedes } = await broker(t)
  const left: string[] = []
  aedes.on('unsubscribe', (topics) => void left.push(...topics))
  const mqtt = { broker: '127.0.0.1', port, format: 'line_protocol', client_id: 'one', reconnect_ms: 100 }
  const dataDir = temporaryFolder(t)
  const node = async (topics: string[], different: object = {}) => {
    const started = await start(t, { ...mqtt, topics, ...different }, { storage: 'embedded', dataDir })
    await running(started)
    return started
  }
  return { node, left, publisher: await client() }
}

t.test('what comes to a topic that a connector has no longer is not taken', async (t) => {
  const { node, left, publisher } = await session(t)
  await (await node(['plant/a', 'plant/b', 'plant/#'])).stop()
  const second = await node(['plant/a', 'plant/c'])
  await eventually(() => left.length === 2)
  t.same(left, ['plant/b', 'plant/#'])
  for (const topic of ['plant/b', 'plant/a', 'plant/d', 'plant/c']) await publisher.publishAsync(topic, `cpu,topic=${topic} v=1`, { qos: 1 })
  await eventually(async () => (await rowsOf(second)).length >= 2)
  t.same((await rowsOf(second)).map(({ tags }) => tags.topic).sort(), ['plant/a', 'plant/c'])
  t.equal((await listed(second))[0].metrics.messages_total, 2)
  await second.stop()
  const third = await node(['plant/a', 'plant/c'])
  await publisher.publishAsync('plant/c', 'cpu,topic=again v=1', { qos: 1 })
  await eventually(async () => (await rowsOf(third)).length === 3)
  t.equal(left.length, 2, 'once')
})

t.test('a session of another name has none of them', async (t) => {
  const { node, left } = await session(t)
  await (await node(['plant/a', 'plant/b'])).stop()
  await (await node(['plant/a'], { client_id: 'two' })).stop()
  t.same(left, [])
})
