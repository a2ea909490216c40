import t from 'tap'
import { BEAT, call, ownersOf, type Peer, peers, WORKS } from './testing.ts'

t.test('a decommissioned node gives its work up, turns calls away, and comes back when it is registered again', async (t) => {
  const { all, clock } = await peers(t, 2)
  await clock.advance(BEAT)
  await call(all[1].node, 'POST', '/api/v1/admin/rebalance')
  await clock.advance(2 * BEAT)
  const [, second] = all
  t.ok(second.claims.size > 0)
  const write = (peer: Peer) => peer.node.inject({ method: 'POST', url: '/write', payload: 'cpu v=1', headers: { 'content-type': 'text/plain' } })
  t.equal((await write(second)).statusCode, 204)
  t.equal((await call(all[0].node, 'POST', '/api/v1/admin/nodes/2/decommission')).status, 202)
  await clock.advance(2 * BEAT)
  t.equal(second.claims.size, 0)
  for (const work of WORKS) t.same(ownersOf(all, work), [all[0]])
  const refused = await write(second)
  t.match([refused.statusCode, refused.headers['retry-after'], refused.json().code], [503, '5', 'OVERLOADED'])
  t.match(refused.json().error, /node 2: it is decommissioned; send them to another/)
  for (const path of ['/metrics', '/health', '/api/v1/admin/nodes']) t.equal((await second.node.inject(path)).statusCode, 200, path)
  t.match((await call(second.node, 'GET', '/ready')).body, { ready: false, reason: /decommissioned/ })
  t.match((await call(all[0].node, 'GET', '/api/v1/admin/nodes')).body.items[1], { node_id: 2, status: 'decommissioned', work: [] })
  t.match(await call(all[0].node, 'POST', '/api/v1/admin/nodes/1/decommission'), { status: 409 })

  t.match(await call(all[0].node, 'POST', '/api/v1/admin/nodes', { node_id: 2, addr: 'n2:8086' }), { status: 201 })
  await clock.advance(2 * BEAT)
  t.equal((await write(second)).statusCode, 204)
  await call(all[0].node, 'POST', '/api/v1/admin/rebalance')
  await clock.advance(2 * BEAT)
  t.ok(second.claims.size > 0, 'it has work again')
})

t.test('a node is listed as decommissioned once it has seen it: it takes no calls then', async (t) => {
  const { all, clock, shared } = await peers(t, 2)
  await clock.advance(2 * BEAT)
  const [first, second] = all
  t.equal(second.claims.size, 0, 'it has no work')
  const write = async () => (await second.node.inject({ method: 'POST', url: '/write', payload: 'cpu v=1' })).statusCode
  const listed = async (): Promise<{ node_id: number; status: string }[]> => (await call(first.node, 'GET', '/api/v1/admin/nodes')).body.items
  const status = async (id: number) => (await listed()).find(({ node_id }) => node_id === id)?.status
  const decommission = async () => t.equal((await call(first.node, 'POST', '/api/v1/admin/nodes/2/decommission')).status, 202)
  const back = async () => t.equal((await call(first.node, 'POST', '/api/v1/admin/nodes', { node_id: 2, addr: 'n2:8086' })).status, 201)
  const drains = async () => {
    t.same([await status(2), await write()], ['draining', 204])
    for (let i = 0; i < 20 && (await status(2)) === 'draining'; i++) await clock.advance(BEAT / 10)
    t.same([await status(2), await write()], ['decommissioned', 503])
  }
  await decommission()
  await drains()
  await decommission()
  t.equal(await status(2), 'decommissioned', 'asked for again it stays so')

  await back()
  await clock.advance(2 * BEAT)
  let settle = () => {}
  second.settled = new Promise((resolve) => {
    settle = resolve
  })
  await decommission()
  await clock.advance(BEAT)
  t.same([await status(2), await write()], ['draining', 503], 'work that each node does has not ended')
  settle()
  await clock.advance(BEAT)
  t.same([await status(2), await write()], ['decommissioned', 503])

  await back()
  await decommission()
  t.same([await status(2), await write()], ['draining', 503], 'between the two it may have been back: it is to say so anew')
  await clock.advance(2 * BEAT)
  t.equal(await status(2), 'decommissioned')

  await back()
  await clock.advance(2 * BEAT)
  second.reached = false
  await decommission()
  await clock.advance(4 * BEAT)
  t.same([await status(2), await write()], ['dead', 204], 'cut off from the state it has not heard of it')
  second.reached = true
  await clock.advance(2 * BEAT)
  t.same([await status(2), await write()], ['decommissioned', 503])
  await second.node.stop()
  t.equal(await status(2), 'decommissioned')

  const old = { addr: 'old:8086', mode: 'data', disk_bytes: 0, memory_bytes: 0, cpu_cores: 0, generation: 1, beat_at: 0, timeout_ms: 10 * BEAT, wants: [] }
  await shared.of('kernel').transaction((tx) => tx.put('node/7', { ...old, node_id: 7, session: 'of 0.1.0', beat: 1, draining: true }))
  t.equal(await status(7), 'decommissioned', 'a process that does not say it has no work')
})

t.test('of two nodes that are decommissioned at one time one stays', async (t) => {
  const { all, clock } = await peers(t, 2)
  await clock.advance(2 * BEAT)
  const answers = await Promise.all([
    call(all[0].node, 'POST', '/api/v1/admin/nodes/2/decommission'),
    call(all[1].node, 'POST', '/api/v1/admin/nodes/1/decommission'),
  ])
  t.same(answers.map(({ status }) => status).sort(), [202, 409])
  await clock.advance(3 * BEAT)
  const { items } = (await call(all[0].node, 'GET', '/api/v1/admin/nodes')).body
  t.same(items.map(({ status }: { status: string }) => status).sort(), ['active', 'decommissioned'])
  for (const name of WORKS) t.equal(ownersOf(all, name).length, 1, name)
})
