/** Nodes that share their state: one of them delivers, and what another did before it does not come back. */
import type { StateStore, Webhooks } from 'svcdb'
import { ManualClock, SharedState } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { NOTE, WAITING } from './outbox-transaction.ts'
import { at, delivery, receive, start, status } from './testing.ts'

const BEAT = 5000

interface Peer {
  clock: ManualClock
  hooks: Webhooks
  logged: string[]
  /** Whether it reaches the state store. */
  reached: boolean
  /** What its listings of the outbox wait for: of notes, or of what waits. */
  lists: { of: string; until: Promise<void> } | undefined
}

/** Nodes 1, 2 and so on. Each has a clock of its own, which stands still until it is moved. */
function cluster(t: Test, section: Record<string, unknown> = {}): () => Promise<Peer> {
  const shared = new SharedState()
  let id = 0
  return async () => {
    id++
    const peer: Peer = { clock: new ManualClock(), hooks: undefined as never, logged: [], reached: true, lists: undefined }
    const storage = await shared.engine(() => peer.reached)
    const plain = storage.state.bind(storage)
    const answer = (prefix = ''): Promise<void> | undefined => (peer.lists !== undefined && prefix.startsWith(peer.lists.of) ? peer.lists.until : undefined)
    const held = (store: StateStore): StateStore => ({
      ...store,
      list: async (range) => (await store.list<never>(range).finally(() => answer(range?.prefix))) as never,
    })
    Object.assign(storage, { state: (owner: string) => (owner === 'webhooks' ? held(plain(owner)) : plain(owner)) })
    const config = { cluster: { node_id: id, addr: `n${id}:8086` }, server: { shutdown_timeout_secs: 1 } }
    const { hooks, logged } = await start(t, { drain_secs: 0, timeout_secs: 120, ...section }, { plugins: ['cluster'], clock: peer.clock, storage, config })
    return Object.assign(peer, { hooks, logged })
  }
}

/** Time passes for them all, in small steps. */
async function pass(ms: number, ...of: readonly Peer[]): Promise<void> {
  for (let passed = 0; passed < ms; passed += 500) for (const { clock } of of) await clock.advance(500)
}

t.test('a node that has the work again sends what is kept then, and where that says', async (t) => {
  const add = cluster(t)
  const [a, b] = [await add(), await add()]
  const before = await receive(t, undefined, () => {})
  const after = await receive(t, undefined, status(503))
  await pass(BEAT, a, b)
  await a.hooks.define(at('e'), before.url)
  await a.hooks.enqueue([delivery('e', '1'), delivery('e', '2')])
  await until('the first is sent', () => before.received.length === 1)
  a.reached = false
  await pass(4 * BEAT, a, b)
  await until('the other sends it', () => before.received.length === 2)
  await b.hooks.define(at('e'), after.url)
  const sent = before.received.length

  b.reached = false
  a.reached = true
  await pass(6 * BEAT, a, b)
  await until('it goes to the new address', async () => {
    await pass(500, a)
    return after.received.length > 0
  })
  await pass(2 * BEAT, a)
  t.equal(before.received.length, sent, 'and not to the one before')
})

for (const [what, of] of Object.entries({ 'looks for notes': NOTE, 'reads what waits': WAITING })) {
  t.test(`a process that stood still, and hears while it ${what} that another delivers, takes no notes of what is for that one`, async (t) => {
    const add = cluster(t)
    const [a, b] = [await add(), await add()]
    const receiver = await receive(t, undefined)
    await pass(BEAT, a, b)
    await a.hooks.define(at('e'), receiver.url)
    await pass(BEAT, a, b) // no note is left for b to take
    await pass(4 * BEAT, b) // a stands still meanwhile
    const c = await add()
    await c.hooks.enqueue([delivery('e', '1')])
    // It goes on: its timers go off in turn, the one that looks for notes first. Answers of the store take a while.
    let answer = () => {}
    a.lists = {
      of,
      until: new Promise((resolve) => {
        answer = resolve
      }),
    }
    await pass(BEAT, a)
    a.lists = undefined
    answer()
    await until('it is delivered', async () => {
      await pass(500, a, b, c)
      return receiver.received.length === 1
    })
  })
}

t.test('a process that stood still parks no endpoint that takes what another delivers', async (t) => {
  const add = cluster(t, { park_after_secs: 3600 })
  const [a, b] = [await add(), await add()]
  const receiver = await receive(t, undefined, status(503))
  await pass(BEAT, a, b)
  await a.hooks.define(at('e'), receiver.url)
  await a.hooks.enqueue([delivery('e', '1')])
  await until('it fails', async () => (await a.hooks.list('teller'))[0].failing_since !== undefined)
  let refuse = () => {}
  receiver.answer = (_, response) => {
    refuse = () => void response.writeHead(503).end()
  }
  await until('it is tried again', async () => {
    await pass(500, a)
    return receiver.received.length === 2
  })
  // That attempt is under way when its process stops; another delivers.
  receiver.answer = status(204)
  await until('the other delivers it', async () => {
    await pass(500, b)
    return receiver.received.length === 3 && (await b.hooks.list('teller'))[0].failing_since === undefined
  })
  a.clock.skip(2 * 3_600_000)
  refuse()
  const parked = async () => (await b.hooks.list('teller'))[0].state === 'parked'
  await until(
    'it has judged the attempt',
    async () => a.logged.some((line) => line.includes('cannot keep the state of a webhook endpoint')) || (await parked()),
  )
  t.notOk(await parked())
})

t.test('since when an endpoint fails is known to who takes over, also where it could not be kept at once', async (t) => {
  const add = cluster(t)
  const [a, b] = [await add(), await add()]
  const receiver = await receive(t, undefined, (_, response) => {
    a.reached = false
    response.writeHead(503).end()
  })
  await pass(BEAT, a, b)
  await a.hooks.define(at('e'), receiver.url)
  const since = async (of: Peer) => (await of.hooks.list('teller'))[0].failing_since
  await a.hooks.enqueue([delivery('e', '1')])
  await until('it could not be kept', () => a.logged.some((line) => line.includes('cannot keep the state of a webhook endpoint')))
  a.reached = true
  const first = await since(a)
  t.ok(first !== undefined)
  receiver.answer = status(503)
  await until('it is tried again, and kept', async () => {
    await pass(500, a, b)
    return (await since(b)) !== undefined
  })
  t.equal(await since(b), first)
  a.reached = false
  const tried = receiver.received.length
  await until('the other tries', async () => {
    await pass(500, b)
    return receiver.received.length > tried
  })
  t.equal(await since(b), first)
})
