/** A node that stops while its broker does not answer. */
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { FaultyLink } from '../../test/support/faulty-link.ts'
import { eventually } from '../../test/support/until.ts'
import { broker, listed, running } from './testing.ts'

for (const status_topic of ['svc/status', undefined])
  t.test(`a broker that is silent does not hold up a stop: ${status_topic === undefined ? 'no status' : 'with a status'}`, async (t) => {
    const mqtt = await broker(t)
    const link = await FaultyLink.to(mqtt.port)
    t.teardown(() => link.close())
    const node = await boot({
      plugins: ['mqtt', 'line_protocol'],
      config: {
        server: { shutdown_timeout_secs: 30 },
        mqtt: { broker: '127.0.0.1', port: link.port, topics: ['t'], format: 'line_protocol', ...(status_topic !== undefined && { status_topic }) },
      },
    })
    t.teardown(() => node.stop())
    await running(node)
    const client = await mqtt.client()
    await client.publishAsync('t', 'cpu v=1', { qos: 1 })
    await eventually(async () => (await listed(node))[0].metrics.points_total === 1)
    link.stall()
    t.same(await node.stop(), [], 'no plugin has missed its time')
  })
