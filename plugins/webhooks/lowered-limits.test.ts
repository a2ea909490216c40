/** Limits that were lowered over a full outbox, and endpoints that go with all that waits: a bounded part goes in each transaction. */
import type { StateRange, StateStore, StateTransaction } from 'svcdb'
import { loadEngine } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { ENTRY_BYTES } from './endpoint.ts'
import { Outbox, type OutboxLimits, type Queued } from './outbox.ts'
import { enqueue } from './testing.ts'

const WIDE: OutboxLimits = { queueSize: 100_000, namespaceBytes: 2 ** 40, totalBytes: 2 ** 40, namespaceEndpoints: 100, endpoints: 100 }
const ENDPOINTS = ['n/o/0', 'n/o/1', 'n/o/2', 'other/o/0']
const EACH = 1500
const PART = 500

/** An outbox for which 6000 deliveries wait. */
async function full(): Promise<StateStore> {
  const { createEngine } = await loadEngine('memory', '.')
  const state = createEngine({ config: {}, now: Date.now } as never).state('webhooks')
  const outbox = new Outbox(state, WIDE, Date.now)
  for (const endpoint of ENDPOINTS) {
    const [namespace, owner, name] = endpoint.split('/')
    await outbox.define({ namespace, owner, name }, 'https://example.com/')
    await enqueue(
      outbox,
      Array.from({ length: EACH }, (_, i) => ({ endpoint, message: `m${i}`, id: `e${i}`, body: '' })),
    )
  }
  return state
}

interface Seen {
  endpointLists: number
  read: number
  writes: number
}

/** What each transaction reads and writes. */
function watched(state: StateStore): { state: StateStore; seen: Seen[] } {
  const seen: Seen[] = []
  const transaction: StateStore['transaction'] = (body) =>
    state.transaction((tx) => {
      const one: Seen = { endpointLists: 0, read: 0, writes: 0 }
      seen.push(one)
      const watching: StateTransaction = {
        get: (key) => tx.get(key),
        async list<T>(range?: StateRange) {
          const entries = await tx.list<T>(range)
          if (range?.prefix?.startsWith('endpoint/')) one.endpointLists++
          one.read += entries.length
          return entries
        },
        put(key, value) {
          one.writes++
          tx.put(key, value)
        },
        delete(key) {
          one.writes++
          tx.delete(key)
        },
      }
      return body(watching)
    })
  return { state: { get: (key) => state.get(key), list: (range) => state.list(range), transaction }, seen }
}

/** Hands one more over under other limits. */
async function handOver(t: Test, lowered: Partial<OutboxLimits>): Promise<{ left: Record<string, number>; parts: Queued[]; seen: Seen[] }> {
  const { state, seen } = watched(await full())
  const outbox = new Outbox(state, { ...WIDE, ...lowered }, Date.now)
  const parts: Queued[] = []
  const began = seen.length
  const answers = await outbox.enqueue([{ endpoint: ENDPOINTS[0], message: 'new', id: 'new', body: '' }], (part) => void parts.push(part))
  t.same(answers, ['queued'])
  t.match(parts.at(-1)?.added, [{ endpoint: ENDPOINTS[0], id: 'new' }])
  const endpoints = await outbox.endpoints()
  for (const { key, record } of endpoints) {
    const dropped = parts.flatMap((part) => part.dropped).filter(({ endpoint }) => endpoint === key)
    t.equal(record.lost, dropped.length, `${key}: what was dropped was told`)
    t.same(
      dropped.map(({ id }) => id),
      Array.from(dropped, (_, i) => `e${i}`),
      `${key}: the oldest went, in order`,
    )
    t.equal((await outbox.waiting(key)).length, record.waiting)
  }
  return { left: Object.fromEntries(endpoints.map(({ key, record }) => [key, record.waiting])), parts, seen: seen.slice(began) }
}

const CASES: { what: string; lowered: Partial<OutboxLimits>; left: number[] }[] = [
  { what: 'bytes of a namespace', lowered: { namespaceBytes: 300 * ENTRY_BYTES }, left: [101, 100, 99, EACH] },
  { what: 'bytes in all', lowered: { totalBytes: 600 * ENTRY_BYTES }, left: [101, 100, 99, 300] },
  { what: 'deliveries of an endpoint', lowered: { queueSize: 10 }, left: [10, EACH, EACH, EACH] },
]
for (const { what, lowered, left: expected } of CASES)
  t.test(`${what}: one delivery more and all is within the limit, though no transaction is large`, async (t) => {
    const { left, parts, seen } = await handOver(t, lowered)
    const sum = (counts: number[]) => counts.reduce((a, b) => a + b, 0)
    t.equal(sum(Object.values(left)), sum(expected))
    for (const [i, key] of ENDPOINTS.entries()) t.ok(Math.abs(left[key] - expected[i]) <= 1, `${key}: ${left[key]}`)
    t.ok(parts.length > 2)
    for (const { dropped } of parts) t.ok(dropped.length <= PART, `${dropped.length} dropped at once`)
    for (const { endpointLists, read, writes } of seen) {
      t.ok(endpointLists <= 2, `endpoints were listed ${endpointLists} times, once for each namespace at most`)
      t.ok(read <= 2 * PART, `${read} entries were read`)
      t.ok(writes <= 4 * PART, `${writes} entries were written`)
    }
  })

t.test('what was dropped before a step that fails is told, and the next delivery goes on', async (t) => {
  const state = await full()
  let transactions = 0
  const failing: StateStore = {
    get: (key) => state.get(key),
    list: (range) => state.list(range),
    transaction: (body) => (++transactions === 3 ? Promise.reject(new Error('the store fails')) : state.transaction(body)),
  }
  const outbox = new Outbox(failing, { ...WIDE, namespaceBytes: 300 * ENTRY_BYTES }, Date.now)
  const one = [{ endpoint: ENDPOINTS[0], message: 'new', id: 'new', body: '' }]
  let told = 0
  await t.rejects(
    outbox.enqueue(one, ({ dropped }) => void (told += dropped.length)),
    { message: 'the store fails' },
  )
  t.equal(told, 2 * PART)
  const { answers, dropped } = await enqueue(outbox, one)
  t.same([answers, told + dropped.length], [['queued'], 3 * EACH - 299])
})

t.test('an endpoint goes with all that waits for it, though no transaction is large', async (t) => {
  const { state, seen } = watched(await full())
  const outbox = new Outbox(state, WIDE, Date.now)
  const [endpoint] = ENDPOINTS
  const waiting = await outbox.waiting(endpoint)
  t.same(
    waiting.map(({ id }) => id),
    Array.from({ length: EACH }, (_, i) => `e${i}`),
    'read in parts, all are there in order',
  )
  await outbox.finish(waiting.slice(0, 700).map(({ seq }) => ({ endpoint, seq, result: 'delivered' as const })))
  const began = seen.length
  t.equal(await outbox.remove(endpoint), true)
  for (const { read, writes } of seen.slice(began)) {
    t.ok(read <= 2 * PART, `${read} entries were read`)
    t.ok(writes <= 6 * PART, `${writes} entries were written`)
  }
  t.same(await state.list({ prefix: 'total/n' }), [{ key: 'total/n', value: { endpoints: 2, waiting: 2 * EACH, bytes: 2 * EACH * ENTRY_BYTES } }])
  for (const kind of ['endpoint', 'waiting', 'body', 'done', 'message']) t.same(await state.list({ prefix: `${kind}/${endpoint}` }), [], kind)
})

t.test('an endpoint whose removal was broken off takes nothing, and is empty when it is defined anew', async (t) => {
  const state = await full()
  let left = 1
  const failing: StateStore = {
    get: (key) => state.get(key),
    list: (range) => state.list(range),
    transaction: (body) => (left-- > 0 ? state.transaction(body) : Promise.reject(new Error('the store fails'))),
  }
  const [endpoint] = ENDPOINTS
  await t.rejects(new Outbox(failing, WIDE, Date.now).remove(endpoint), { message: 'the store fails' })
  const outbox = new Outbox(state, WIDE, Date.now)
  const one = [{ endpoint, message: `m${EACH - 1}`, id: 'new', body: '' }]
  t.same((await enqueue(outbox, one)).answers, ['unrouted'])
  t.match(await outbox.endpoint(endpoint), { record: { removed: true, waiting: EACH - PART } }, 'whoever owns it finds it, and removes it again')
  // Whoever still removes it takes nothing of the new one.
  const [, defined] = await Promise.all([outbox.remove(endpoint), outbox.define({ namespace: 'n', owner: 'o', name: '0' }, 'https://example.com/new')])
  t.match(defined, { record: { url: 'https://example.com/new', waiting: 0, removed: undefined } })
  t.match(await outbox.endpoint(endpoint), { record: { url: 'https://example.com/new' } })
  t.same(await outbox.waiting(endpoint), [])
  t.same((await enqueue(outbox, one)).answers, ['queued'], 'nothing of before is known')
})
