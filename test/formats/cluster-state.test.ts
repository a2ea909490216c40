/** The worked examples of docs/formats/cluster-state.md are what nodes write. */
import { definePlugin } from 'svcdb'
import { boot, ManualClock, SharedState } from 'svcdb/testkit'
import t from 'tap'
import { fences } from '../support/markdown.ts'
import { read } from '../support/tree.ts'

t.test('a node, a lease and a region', async (t) => {
  const [self, lease, region] = fences(read('docs/formats/cluster-state.md')).map(({ text }) => JSON.parse(text))
  const shared = new SharedState()
  const clock = new ManualClock(lease.slot.begun)
  const before = { owner: 1, generation: 1, token: lease.token - 1, slot: { ...lease.slot, number: lease.slot.number - 1, begun: clock.now() - 60_000 } }
  await shared.of('kernel').transaction((tx) => {
    tx.put('owner/worker/tick', before)
    tx.put('node/3', { node_id: 3, generation: lease.generation - 1, beat: 1, stopped: true, wants: [], timeout_ms: 10_000 })
    tx.put('node/1', { node_id: 1, generation: 1, beat: 1, stopped: true, wants: [], timeout_ms: 10_000 })
    tx.put('node/2', { node_id: 2, generation: 1, beat: 1, stopped: true, wants: [], timeout_ms: 10_000 })
  })
  const worker = definePlugin({
    id: 'worker',
    summary: 'Works',
    stability: 'beta',
    capabilities: ['state'],
    setup: (svc) => void svc.schedule('tick', 60_000, () => {}, { jitter: 0 }),
  })
  const node = await boot({
    plugins: ['cluster', worker],
    storage: await shared.engine(),
    clock,
    config: { cluster: { node_id: self.node_id, addr: self.addr } },
  })
  t.teardown(() => node.stop())
  await clock.advance(1)
  t.same(await shared.of('kernel').get('owner/worker/tick'), lease)
  const { session, ...rest } = await shared.of('kernel').get<typeof self>('node/3')
  t.match(session, /^[\da-f-]{36}$/)
  const { disk_bytes, memory_bytes, cpu_cores } = self
  t.same({ ...rest, session: self.session, disk_bytes, memory_bytes, cpu_cores }, self)
  const { state: _, namespace: __, ...body } = region
  t.equal((await node.inject({ method: 'POST', url: '/api/v1/admin/regions', payload: body })).statusCode, 201)
  t.same(await shared.of('cluster').get('region/1'), region)
})
