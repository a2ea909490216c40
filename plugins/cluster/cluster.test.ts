import { type Claim, definePlugin, type StateStore, type StateTransaction, type StorageEngine, type Svc } from 'svcdb'
import { boot, ManualClock, SharedState } from 'svcdb/testkit'
import t from 'tap'
import { BEAT, call, ownersOf, peers, WORKS } from './testing.ts'

t.test('a node alone is a cluster of one', async (t) => {
  const clock = new ManualClock()
  const node = await boot({ plugins: ['cluster', 'line_protocol'], clock, config: { cluster: { addr: 'one:8086' } } })
  t.teardown(() => node.stop())
  const ask = (method: string, path: string, payload?: object) => call(node, method, `/api/v1/admin/${path}`, payload)
  t.match(await ask('GET', 'nodes'), {
    status: 200,
    body: { items: [{ node_id: 1, addr: 'one:8086', grpc_addr: 'one:8086', mode: 'data', status: 'active', generation: 1 }], total: 1, offset: 0, limit: 100 },
  })
  t.match((await ask('GET', 'health')).body, { status: 'healthy', ok: true, cluster_available: true, total_nodes: 1, healthy_nodes: 1 })

  t.match(await ask('POST', 'nodes', { node_id: 2, addr: 'two:8086', mode: 'query', cpu_cores: 8 }), { status: 201, body: { ok: true, generation: 1 } })
  t.match(await ask('POST', 'nodes', { node_id: 3, grpc_addr: 'three:4243' }), { status: 201 })
  t.match(await ask('POST', 'nodes', { node_id: 2, addr: 'elsewhere:1' }), { status: 409, body: { code: 'CONFLICT' } })
  t.match(await ask('POST', 'nodes', { node_id: 4 }), { status: 422 })
  t.match(await ask('POST', 'nodes', { node_id: 4, addr: 'a:1', grpc_addr: 'b:1' }), { status: 400 })
  t.match(await ask('POST', 'nodes', { node_id: 4, addr: 'a:1', mode: 'boss' }), { status: 422 })
  t.match(await ask('GET', 'nodes?offset=1&limit=1'), {
    body: { items: [{ node_id: 2, mode: 'query', cpu_cores: 8, process: false }], total: 3, offset: 1, limit: 1 },
  })

  await clock.advance(3 * BEAT)
  t.match(await ask('POST', 'heartbeat', { node_id: 2, generation: 1 }), { status: 200, body: { ok: true } })
  t.match(await ask('POST', 'heartbeat', { node_id: 2, generation: 7 }), { status: 409 })
  t.match(await ask('POST', 'heartbeat', { node_id: 9 }), { status: 404 })
  t.same(
    (await ask('GET', 'nodes')).body.items.map((node: { status: string }) => node.status),
    ['active', 'active', 'dead'],
  )
  t.match((await ask('GET', 'health')).body, { status: 'degraded', ok: true, total_nodes: 3, healthy_nodes: 2 })

  t.match(await ask('POST', 'regions', { region_id: 1, measurement: 'cpu', leader_node_id: 3, replica_node_ids: [1, 2] }), { status: 201 })
  t.match(await ask('POST', 'regions', { region_id: 2, measurement: 'cpu', leader_node_id: 1 }), { status: 201 })
  t.match(await ask('POST', 'regions', { region_id: 1, measurement: 'mem', leader_node_id: 1 }), { status: 409 })
  t.match(await ask('POST', 'regions', { region_id: 4, measurement: 'mem', leader_node_id: 9 }), { status: 400, body: { error: /node 9 is not registered/ } })
  t.match(await ask('POST', 'regions', { region_id: 4, measurement: 'mem', leader_node_id: 1, replica_node_ids: [1] }), { status: 400 })
  await clock.advance(2 * BEAT)
  const routing = (await ask('GET', 'routing')).body
  t.match(routing, { version: 3, measurement_count: 1 }, 'the leader that is dead was followed')
  t.match(routing.routes.cpu, [
    { region_id: 1, measurement: 'cpu', leader_node_id: 2, leader_addr: 'two:8086', replicas: [{ node_id: 1, addr: 'one:8086' }, { node_id: 3 }] },
    { region_id: 2, leader_node_id: 1, replicas: [] },
  ])
  t.match(await ask('PUT', 'regions/1/state', { state: 'read_only' }), { status: 200, body: { message: 'region 1 is readonly' } })
  t.match(await ask('PUT', 'regions/1/state', { state: 'asleep' }), { status: 400 })
  t.match(await ask('PUT', 'regions/5/state', { state: 'active' }), { status: 404 })
  t.match(await ask('PUT', 'regions/x/state', { state: 'active' }), { status: 400, body: { error: /a whole number/ } })
  t.equal((await ask('GET', 'routing')).body.version, 4)
  t.match((await ask('GET', 'topology')).body, {
    routing_version: 4,
    node_count: 3,
    region_count: 2,
    measurement_count: 1,
    nodes: [{ node_id: 1, grpc_addr: 'one:8086', role: 'data', leader_regions: 1, replica_regions: 1, status: 'active' }, { node_id: 2 }, { node_id: 3 }],
  })
  t.match(await ask('POST', 'rebalance'), { status: 202, body: { accepted: true, moves: [], regions: [] } })

  t.match(await ask('POST', 'nodes/1/decommission'), { status: 409, body: { error: /the last that is active/ } })
  t.match(await ask('POST', 'nodes/3/decommission'), { status: 202, body: { ok: true } })
  t.match(await ask('POST', 'nodes/8/decommission'), { status: 404 })
  t.match(await ask('POST', 'nodes/x/decommission'), { status: 400 })
  t.match(await ask('DELETE', 'nodes', { node_id: 1 }), { status: 409 })
  t.match(await ask('DELETE', 'nodes', { node_id: 3 }), { status: 200 })
  t.match(await ask('DELETE', 'nodes', { node_id: 3 }), { status: 404 })
  t.equal((await call(node, 'GET', '/ready')).status, 200)
})

t.test('work is spread by rebalancing, each at one node at a time, and what moves is told', async (t) => {
  const { all, clock } = await peers(t, 3)
  await clock.advance(2 * BEAT)
  const first = all[0].claims.size
  t.equal(first, WORKS.length, 'the first that was there took all')
  const { status, body } = await call(all[1].node, 'POST', '/api/v1/admin/rebalance')
  t.equal(status, 202)
  t.ok(body.moves.length >= 4, body.message)
  t.ok(body.moves.every(({ from, to }: { from: number; to: number }) => from === 1 && (to === 2 || to === 3)))
  const tokens = new Map(all[0].claims)
  await clock.advance(2 * BEAT)
  for (const name of WORKS) t.equal(ownersOf(all, name).length, 1, name)
  const { items } = (await call(all[0].node, 'GET', '/api/v1/admin/nodes')).body
  const counts = items.map(({ work }: { work: string[] }) => work.length)
  t.ok(Math.max(...counts) - Math.min(...counts) <= 1, `${counts}`)
  for (const { work, to } of body.moves) {
    const [, name] = work.split('/')
    const claim = all[to - 1].claims.get(name)
    if (WORKS.includes(name) && work.startsWith('worker/')) t.ok((claim as Claim).token > (tokens.get(name) as Claim).token, 'the token has grown')
  }
  t.same((await call(all[1].node, 'POST', '/api/v1/admin/rebalance')).body.moves, [], 'nothing is left to move')
})

t.test('the work of a node that is gone is taken over within three heartbeats, and it cannot write when it is back', async (t) => {
  const { all, clock, shared } = await peers(t, 3)
  await clock.advance(BEAT)
  await call(all[1].node, 'POST', '/api/v1/admin/rebalance')
  await clock.advance(2 * BEAT)
  const [gone] = all
  const held = [...gone.claims]
  t.ok(held.length > 0)
  const store = shared.of('worker')
  const [[name, claim]] = held
  await store.transaction(async (tx) => {
    await claim.guard(tx)
    tx.put('written', 'before')
  })
  gone.reached = false
  const goneAt = clock.now()
  let takenAt = 0
  for (let i = 0; i < 40 && takenAt === 0; i++) {
    await clock.advance(500)
    for (const [work] of held) t.ok(ownersOf(all, work).length <= 1, `${work} after ${clock.now() - goneAt} ms`)
    if (held.every(([work]) => ownersOf(all.slice(1), work).length === 1)) takenAt = clock.now()
  }
  t.ok(takenAt > 0 && takenAt - goneAt <= 3 * BEAT, `${takenAt - goneAt} ms`)
  t.equal(claim.remainingMs(), 0)
  t.equal(claim.signal.aborted, true)
  await t.rejects(
    store.transaction((tx) => claim.guard(tx)),
    { code: 'CONFLICT' },
  )
  const [heir] = ownersOf(all, name)
  const theirs = heir.claims.get(name) as Claim
  t.ok(theirs.token > claim.token)
  await store.transaction((tx) => theirs.guard(tx))
  t.match((await call(heir.node, 'GET', '/api/v1/admin/health')).body, { status: 'degraded', total_nodes: 3, healthy_nodes: 2 })
  t.match((await heir.node.inject('/metrics')).body, /svc_cluster_nodes\{status="dead"\} 1/)

  gone.reached = true
  await clock.advance(2 * BEAT)
  for (const work of WORKS) t.equal(ownersOf(all, work).length, 1, work)
  t.match((await call(heir.node, 'GET', '/api/v1/admin/health')).body, { status: 'healthy', healthy_nodes: 3 })
})

t.test('a process that stood still, and does not know it, is fenced', async (t) => {
  const { all, clock, shared } = await peers(t, 2)
  await clock.advance(BEAT)
  const store = shared.of('worker')
  // One that stands still runs no timers: a claim whose own clock has not moved stands for it.
  const [name] = WORKS
  const stale = all[0].claims.get(name) as Claim
  const asleep: Claim = Object.assign(Object.create(stale), { remaining: () => 1000 })
  all[0].reached = false
  await clock.advance(4 * BEAT)
  t.equal(ownersOf(all, name)[0], all[1])
  t.equal(asleep.remainingMs(), 1000)
  await t.rejects(
    store.transaction(async (tx) => {
      await asleep.guard(tx)
      tx.put('written', 'too late')
    }),
    { code: 'CONFLICT', message: /another node has it now/ },
  )
  t.equal(await store.get('written'), undefined)
})

/** What changes the lease of a work is committed, and its answer waits. */
function slowLeases(storage: StorageEngine, work: string, answer: () => Promise<void> | undefined): void {
  const stateOf = storage.state.bind(storage)
  const slow = (store: StateStore): StateStore => ({
    ...store,
    async transaction(body) {
      let isLease = false
      const put = (tx: StateTransaction) => (key: string, value: unknown) => {
        isLease ||= key === `owner/${work}`
        tx.put(key, value)
      }
      const result = await store.transaction((tx) => body({ ...tx, put: put(tx) }))
      if (isLease) await answer()
      return result
    },
  })
  Object.assign(storage, { state: (owner: string) => (owner === 'kernel' ? slow(stateOf(owner)) : stateOf(owner)) })
}

t.test('work is not begun on a lease whose answer came too late', async (t) => {
  const clock = new ManualClock()
  const shared = new SharedState()
  let reached = true
  let answer: Promise<void> | undefined
  const add = async (id: number, storage: StorageEngine): Promise<Set<Claim>> => {
    const claims = new Set<Claim>()
    const worker = definePlugin({
      id: 'worker',
      summary: 'Works, and keeps nothing',
      stability: 'beta',
      setup(svc: Svc) {
        svc.own('work', async (claim) => {
          claims.add(claim)
          await new Promise((resolve) => claim.signal.addEventListener('abort', resolve, { once: true }))
          claims.delete(claim)
        })
      },
    })
    const node = await boot({ plugins: ['cluster', worker], clock, storage, config: { cluster: { node_id: id, addr: `n${id}:8086` } } })
    t.teardown(() => node.stop())
    return claims
  }
  const storage = await shared.engine(() => reached)
  slowLeases(storage, 'worker/work', () => answer)
  let arrives = () => {}
  answer = new Promise((resolve) => {
    arrives = resolve
  })
  const first = await add(1, storage)
  const second = await add(2, await shared.engine())
  await clock.advance(4 * BEAT)
  t.equal(second.size, 1, 'the node that hears nothing is dead for the other')
  reached = false
  arrives()
  await clock.advance(BEAT)
  t.equal(first.size, 0, 'what it hears at last is over')
  t.equal(second.size, 1)
  reached = true
  await clock.advance(2 * BEAT)
  t.equal(first.size + second.size, 1)
})

/** As Node.js has them: up to a millisecond early. */
function earlyTimers(): ManualClock {
  const clock = new ManualClock()
  const { after } = clock
  return Object.assign(clock, { after: (ms: number, callback: () => void) => after(ms > 1 ? ms - 0.75 : ms, callback) })
}

t.test('work is told to stop when its node can no longer be sure of it, also where timers go off early', async (t) => {
  const { all, clock } = await peers(t, 1, earlyTimers())
  await clock.advance(2 * BEAT)
  const [{ claims }] = all
  const held = [...claims.values()]
  t.equal(held.length, WORKS.length)
  all[0].reached = false
  await clock.advance(2 * BEAT)
  t.same(
    held.map((claim) => [claim.remainingMs(), claim.signal.aborted]),
    WORKS.map(() => [0, true]),
  )
  t.equal(claims.size, 0)
})

t.test('a node that starts under the id of another takes its place, and that one says so', async (t) => {
  const { all, clock, add } = await peers(t, 1)
  await clock.advance(BEAT)
  const second = await add(1)
  await clock.advance(2 * BEAT)
  t.equal(all[0].claims.size, 0)
  t.equal(second.claims.size, WORKS.length)
  t.match((await call(all[0].node, 'GET', '/ready')).body, { reason: /another process has started as node 1/ })
  t.match((await call(second.node, 'GET', '/api/v1/admin/nodes')).body, { total: 1, items: [{ generation: 2, status: 'active' }] })
})

t.test('a node that stops gives its work up at once', async (t) => {
  const { all, clock } = await peers(t, 2)
  await clock.advance(BEAT)
  t.equal(all[0].claims.size, WORKS.length)
  await all[0].node.stop()
  await clock.advance(BEAT)
  t.equal(all[1].claims.size, WORKS.length)
  t.match((await call(all[1].node, 'GET', '/api/v1/admin/nodes')).body.items[0], { node_id: 1, status: 'stopped' })
  t.match(await call(all[1].node, 'DELETE', '/api/v1/admin/nodes', { node_id: 1 }), { status: 200 })
})

t.test('a node stops though its state store answers nothing', async (t) => {
  const clock = new ManualClock()
  const shared = new SharedState()
  let silent = false
  const storage = await shared.engine()
  const stateOf = storage.state.bind(storage)
  const ifAtAll = async <T>(answer: Promise<T>): Promise<T> => (silent ? new Promise<T>(() => {}) : answer)
  const mute = (store: StateStore): StateStore => ({
    get: (key) => ifAtAll(store.get(key)),
    list: (range) => ifAtAll(store.list(range)),
    transaction: (body) => ifAtAll(store.transaction(body)),
  })
  Object.assign(storage, { state: (owner: string) => mute(stateOf(owner)) })
  const worker = (id: string) =>
    definePlugin({
      id,
      summary: 'Works',
      stability: 'beta',
      setup: (svc: Svc) => void svc.own('work', ({ signal }) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))),
    })
  const plugins = ['cluster', worker('one'), worker('two')]
  const node = await boot({ plugins, clock, storage, config: { cluster: { node_id: 1, addr: 'n1:8086' }, server: { shutdown_timeout_secs: 20 } } })
  await clock.advance(BEAT)
  t.equal((await call(node, 'GET', '/api/v1/admin/nodes')).body.items[0].work.length, 3)
  silent = true
  const stopped = node.stop()
  // What it tells others on its way out takes 15 % of the time at most, for all of it.
  await clock.advance(3000)
  t.same(await stopped, [])
})

t.test('a run is not begun whose turn was given too late', async (t) => {
  const clock = new ManualClock()
  const shared = new SharedState()
  let reached = true
  let answer: Promise<void> | undefined
  const runs: { id: number; turn: number }[] = []
  const add = async (id: number, storage: StorageEngine): Promise<void> => {
    const worker = definePlugin({
      id: 'worker',
      summary: 'Works, and keeps nothing',
      stability: 'beta',
      setup: (svc: Svc) => void svc.schedule('tick', 60_000, ({ turn }) => void runs.push({ id, turn }), { jitter: 0 }),
    })
    const node = await boot({ plugins: ['cluster', worker], clock, storage, config: { cluster: { node_id: id, addr: `n${id}:8086` } } })
    t.teardown(() => node.stop())
  }
  const storage = await shared.engine(() => reached)
  slowLeases(storage, 'worker/tick', () => answer)
  await add(1, storage)
  await add(2, await shared.engine())
  await clock.advance(58_000)
  let arrives = () => {}
  answer = new Promise((resolve) => {
    arrives = resolve
  })
  await clock.advance(2000)
  reached = false
  await clock.advance(6 * BEAT)
  const before = runs.length
  t.ok(before > 0, 'the other has the work')
  t.ok(runs.every(({ id }) => id === 2))
  arrives()
  await clock.advance(1000)
  t.ok(
    runs.every(({ id }) => id === 2),
    'and does it alone',
  )
})

t.test('a schedule has one run for each turn, whatever becomes of the nodes', async (t) => {
  const { all, clock } = await peers(t, 3)
  for (let i = 0; i < 12; i++) {
    const victim = all[i % 3]
    victim.reached = false
    await clock.advance(100_000)
    victim.reached = true
    await clock.advance(20_000)
  }
  const turns = all.flatMap(({ runs }) => runs.map(({ turn }) => turn)).sort((a, b) => a - b)
  t.ok(turns.length >= 18, `${turns.length} turns`)
  t.equal(new Set(turns).size, turns.length)
})
