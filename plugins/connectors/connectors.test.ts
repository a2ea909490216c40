import { CONNECTORS, type Connectors, definePlugin, type WriteBatch } from 'svcdb'
import { Source } from 'svcdb/lib/source'
import { boot, ManualClock } from 'svcdb/testkit'
import t, { type Test } from 'tap'

/** A connector that does what the test says. */
async function start(t: Test, names: string[] = ['one']) {
  const sources: Source[] = []
  const clock = new ManualClock()
  const plugin = definePlugin({
    id: 'broker',
    summary: 'Has connectors',
    stability: 'experimental',
    requires: [CONNECTORS],
    includes: ['connectors'],
    capabilities: ['points'],
    setup(svc) {
      for (const name of names) {
        const decode = (body: Uint8Array, batch: WriteBatch): void => {
          if (body.length === 0) throw new Error('empty')
          const ref = batch.resolver.measurement(batch.namespace, 'm')
          const table = batch.table(ref)
          const row = table.addRow(batch.resolver.series(ref, []), 1, 0, 0)
          table.column('v', 'float64').setF64(row, body[0])
        }
        const source = new Source(svc, { name, decode, backfill: true })
        sources.push(source)
        svc.use<Connectors>(CONNECTORS).add({ name, type: 'kafka', namespace: 'default', status: () => source.status(), lag: () => 7 })
      }
    },
  })
  const node = await boot({ plugins: [plugin], clock })
  t.teardown(() => node.stop())
  const [source] = sources
  const listed = async () => (await node.inject('/api/v1/connectors')).json()
  const up = async () => Number(/svc_connector_up\{connector="one",type="kafka"\} (\d)/.exec((await node.inject('/metrics')).body)?.[1])
  const take = async (body: Uint8Array): Promise<void> => {
    void source.take({ body, ack() {} })
    while (source.status().inFlight.messages > 0) await new Promise((resolve) => setImmediate(resolve))
  }
  return { node, clock, source, listed, up, take }
}

t.test('the statuses, and each way from one to another', async (t) => {
  const { clock, source, listed, up, take, node } = await start(t)
  const refused = new Error('the broker says no')
  const transitions: [from: string, event: () => void | Promise<void>, to: unknown, up: number][] = [
    ['stopped', () => source.disconnected(undefined, 'reconnecting'), 'reconnecting', 0],
    ['reconnecting', () => source.disconnected(refused, 'failed'), { failed: /the broker says no|internal error/ }, 0],
    ['failed', () => source.disconnected(undefined, 'reconnecting'), 'reconnecting', 0],
    ['reconnecting', () => source.connected(), 'idle', 1],
    ['idle', () => take(new Uint8Array([1])), 'running', 1],
    ['running', () => clock.advance(10_001), 'idle', 1],
    ['idle', () => source.disconnected(undefined, 'reconnecting'), 'reconnecting', 0],
    ['reconnecting', () => source.connected(), 'idle', 1],
    ['idle', () => take(new Uint8Array([2])), 'running', 1],
    ['running', () => source.disconnected(refused, 'failed'), { failed: /the broker says no|internal error/ }, 0],
    ['failed', () => source.connected(), 'running', 1],
  ]
  t.match(await listed(), [{ name: 'one', connector_type: 'kafka', status: 'stopped' }])
  t.equal(await up(), 0)
  for (const [from, event, to, value] of transitions) {
    await event()
    const [{ status }] = await listed()
    t.match(status, to as never, `${from} to ${JSON.stringify(status)}`)
    t.equal(await up(), value)
  }
  await take(new Uint8Array(0))
  t.match(await listed(), [{ metrics: { messages_total: 3, points_total: 2, decode_errors: 1, lag: 7, throughput: Number } }])
  await node.stop()
  t.equal(source.status().status, 'stopped')
})

t.test('a name is given once', (t) => t.rejects(start(t, ['one', 'one']), { message: /cannot name two connectors "one": kafka has one; choose another name/ }))
