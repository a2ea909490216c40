/** The outbox against a model, at random; and what one namespace can do to another. */
import { seeded } from 'svcdb/lib/random'
import { loadEngine } from 'svcdb/testkit'
import t from 'tap'
import { ENTRY_BYTES, keyOf } from './endpoint.ts'
import { Outbox } from './outbox.ts'
import { enqueue } from './testing.ts'

const { SVC_OUTBOX_SEED, SVC_OUTBOX_STEPS = '600' } = process.env
const seed = Number(SVC_OUTBOX_SEED ?? Date.now() % 1_000_000)
const limits = { queueSize: 5, namespaceBytes: 4000, totalBytes: 10_000, namespaceEndpoints: 3, endpoints: 8 }

async function memory() {
  const { createEngine } = await loadEngine('memory', '.')
  return createEngine({ config: {}, now: Date.now } as never).state('webhooks')
}

interface Modelled {
  waiting: { seq: number; id: string; body: string }[]
  /** Ids that were queued, the newest last. */
  ids: string[]
  lost: number
  delivered: number
}

t.test(`random operations, seed ${seed}`, async (t) => {
  const random = seeded(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const state = await memory()
  let clock = 1_700_000_000_000
  const open = () => new Outbox(state, limits, () => clock++)
  let outbox = open()
  const model = new Map<string, Modelled>()
  const refs = ['a', 'b', 'c', 'd'].flatMap((namespace) => ['1', '2', '3', '4'].map((name) => ({ owner: 'o', namespace, name })))
  const inNamespace = (namespace: string) => [...model].filter(([key]) => key.startsWith(`${namespace}/`))
  const bytesOf = (entries: [string, Modelled][]) =>
    entries.reduce((sum, [, { waiting }]) => sum + waiting.reduce((own, { body }) => own + body.length + ENTRY_BYTES, 0), 0)
  for (let step = 0; step < Number(SVC_OUTBOX_STEPS); step++) {
    const ref = pick(refs)
    const key = keyOf(ref)
    const roll = random()
    if (roll < 0.15) {
      const full = !model.has(key) && (inNamespace(ref.namespace).length >= 3 || model.size >= 8)
      if (full) await t.rejects(outbox.define(ref, 'https://example.com/'), { code: 'RATE_LIMITED' })
      else await outbox.define(ref, 'https://example.com/')
      if (!full && !model.has(key)) model.set(key, { waiting: [], ids: [], lost: 0, delivered: 0 })
    } else if (roll < 0.2) {
      t.equal(await outbox.remove(key), model.delete(key))
    } else if (roll < 0.75) {
      const known = model.get(key)
      const deliveries = Array.from({ length: 1 + Math.floor(random() * 4) }, () => {
        const old = known !== undefined && random() < 0.2 ? pick(known.ids) : undefined
        const id = old ?? `id-${step}-${Math.floor(random() * 1e9)}`
        return { endpoint: key, message: `m-${id}`, id, body: 'x'.repeat(Math.floor(random() * (random() < 0.05 ? 6000 : 1000))) }
      })
      const { answers, dropped, added } = await enqueue(outbox, deliveries)
      if (known === undefined) t.ok(answers.every((answer) => answer === 'unrouted'))
      else {
        const before = new Set(known.ids)
        for (const [i, { id, body }] of deliveries.entries()) {
          // Twice as many as may wait.
          const recent = known.ids.slice(-2 * limits.queueSize)
          if (known.waiting.some((each) => each.id === id) || recent.includes(id)) t.equal(answers[i], 'known', id)
          if (!before.has(id)) t.equal(answers[i], body.length + ENTRY_BYTES > 4000 ? 'too_large' : 'queued', id)
          before.add(id)
          if (answers[i] === 'queued') {
            known.ids.push(id)
            const place = added.find((each) => each.id === id)
            if (place !== undefined) known.waiting.push({ seq: place.seq, id, body })
          }
        }
        for (const { endpoint, seq } of dropped) {
          const from = model.get(endpoint) as Modelled
          from.lost++
          const at = from.waiting.findIndex((each) => each.seq === seq)
          if (at >= 0) {
            t.equal(at, 0, 'the oldest goes')
            from.waiting.splice(at, 1)
          }
        }
      }
    } else if (roll < 0.95) {
      const finished = [...model].flatMap(([endpoint, { waiting }]) =>
        waiting.filter(() => random() < 0.3).map(({ seq }) => ({ endpoint, seq, result: pick(['delivered', 'expired'] as const) })),
      )
      await outbox.finish([...finished, ...finished.slice(0, 1), { endpoint: key, seq: 3, result: 'delivered' }])
      for (const { endpoint, seq, result } of finished) {
        const from = model.get(endpoint) as Modelled
        from.waiting = from.waiting.filter((each) => each.seq !== seq)
        from[result === 'delivered' ? 'delivered' : 'lost']++
      }
    } else outbox = open() // another process, or a restart
    // What is kept is what the model has, bodies included, and within every bound.
    const endpoints = await outbox.endpoints()
    t.same(endpoints.map((each) => each.key).sort(), [...model.keys()].sort())
    for (const { key, record } of endpoints) {
      const { waiting, lost, delivered } = model.get(key) as Modelled
      const bytes = waiting.reduce((sum, { body }) => sum + body.length + ENTRY_BYTES, 0)
      t.match(record, { waiting: waiting.length, bytes, lost, delivered }, `${key} at step ${step}`)
      t.ok(waiting.length <= limits.queueSize)
      const kept = await outbox.waiting(key)
      t.same(
        kept.map(({ seq, id }) => [seq, id]),
        waiting.map(({ seq, id }) => [seq, id]),
      )
      for (const { seq, body } of waiting) t.equal(await outbox.body(key, seq), body)
    }
    for (const namespace of ['a', 'b', 'c', 'd']) t.ok(bytesOf(inNamespace(namespace)) <= limits.namespaceBytes)
    t.ok(bytesOf([...model]) <= limits.totalBytes)
    if (!t.passing()) break
  }
  for (const key of [...model.keys()]) await outbox.remove(key)
  t.same(await state.list(), [], 'nothing is left over')
})

t.test('a message is known for as long as twice as many have been queued behind it, also when it was delivered last', async (t) => {
  const outbox = new Outbox(await memory(), limits, Date.now)
  const { key: endpoint } = await outbox.define({ owner: 'o', namespace: 'n', name: '1' }, 'https://example.com/')
  const put = async (n: number) => enqueue(outbox, [{ endpoint, message: `m${n}`, id: `e${n}`, body: '' }])
  const finish = (seq: number) => outbox.finish([{ endpoint, seq, result: 'delivered' }])
  const [first] = (await put(0)).added
  for (let n = 1; n < 2 * limits.queueSize; n++) await finish((await put(n)).added[0].seq)
  await finish(first.seq)
  t.same((await put(0)).answers, ['known'])
  await put(2 * limits.queueSize)
  t.same((await put(0)).answers, ['queued'])
})

t.test('of a delivery that ends when twice as many have been queued behind it nothing is remembered', async (t) => {
  const state = await memory()
  const outbox = new Outbox(state, limits, Date.now)
  const { key: endpoint } = await outbox.define({ owner: 'o', namespace: 'n', name: '1' }, 'https://example.com/')
  const put = async (n: number) => enqueue(outbox, [{ endpoint, message: `m${n}`, id: `e${n}`, body: '' }])
  const finish = (seq: number) => outbox.finish([{ endpoint, seq, result: 'delivered' }])
  const [stuck] = (await put(0)).added
  const remembered = 2 * limits.queueSize
  for (let n = 1; n <= 3 * remembered; n++) await finish((await put(n)).added[0].seq)
  await finish(stuck.seq)
  t.same((await put(0)).answers, ['queued'])
  for (const prefix of ['message/', 'done/']) t.ok((await state.list({ prefix })).length <= remembered, prefix)
})

t.test('an endpoint that is defined anew is sent to again', async (t) => {
  const outbox = new Outbox(await memory(), limits, Date.now)
  const ref = { owner: 'o', namespace: 'n', name: '1' }
  const { key } = await outbox.define(ref, 'https://example.com/old')
  await outbox.change(key, (record) => Object.assign(record, { delivered: 3, failing_since: 1, parked: { at: 2, reason: 'it is gone' } }))
  await outbox.define(ref, 'https://example.com/new')
  const record = (await outbox.endpoint(key))?.record
  t.match(record, { url: 'https://example.com/new', delivered: 3 })
  t.same([record?.parked, record?.failing_since], [undefined, undefined])
})

t.test('an endpoint keeps as many deliveries as its queue has room for, and loses its oldest', async (t) => {
  const outbox = new Outbox(await memory(), { ...limits, namespaceBytes: 100_000, totalBytes: 100_000 }, Date.now)
  const { key: endpoint } = await outbox.define({ owner: 'o', namespace: 'n', name: '1' }, 'https://example.com/')
  const put = (n: number) => enqueue(outbox, [{ endpoint, message: `m${n}`, id: `e${n}`, body: '' }])
  for (let n = 0; n < limits.queueSize; n++) t.same((await put(n)).dropped, [])
  t.match((await put(limits.queueSize)).dropped, [{ id: 'e0' }])
  t.same(
    (await outbox.waiting(endpoint)).map(({ id }) => id),
    Array.from({ length: limits.queueSize }, (_, i) => `e${i + 1}`),
  )
})

t.test('a namespace has as many endpoints as it may, and no more, where others have none', async (t) => {
  const outbox = new Outbox(await memory(), limits, Date.now)
  const define = (name: string) => outbox.define({ owner: 'o', namespace: 'n', name }, 'https://example.com/')
  for (let n = 0; n < limits.namespaceEndpoints; n++) await define(String(n))
  await t.rejects(define('more'), { code: 'RATE_LIMITED', message: /namespace "n" has 3 already.*webhooks\.namespace_endpoints/ })
  await define('0')
  await outbox.remove('n/o/0')
  await define('more')
})

t.test('the room of an endpoint that is removed is free again', async (t) => {
  const outbox = new Outbox(await memory(), limits, Date.now)
  const put = (endpoint: string, id: string, length: number) => enqueue(outbox, [{ endpoint, message: id, id, body: 'x'.repeat(length) }])
  const most = limits.namespaceBytes - ENTRY_BYTES
  for (let n = 0; n < 10; n++) {
    // Something stays, so that the totals do.
    for (const name of ['stays', 'goes']) await outbox.define({ owner: 'o', namespace: 'n', name }, 'https://example.com/')
    t.match(await put('n/o/goes', `m${n}`, most), { answers: ['queued'], dropped: [] })
    await outbox.remove('n/o/goes')
  }
  t.match(await put('n/o/stays', 'last', most), { answers: ['queued'], dropped: [] })
})

t.test('what the whole outbox has no room for is not taken, whatever a namespace may have', async (t) => {
  const outbox = new Outbox(await memory(), { ...limits, namespaceBytes: 20_000 }, Date.now)
  const { key: endpoint } = await outbox.define({ owner: 'o', namespace: 'n', name: '1' }, 'https://example.com/')
  const put = async (message: string, length: number) => (await enqueue(outbox, [{ endpoint, message, id: message, body: 'x'.repeat(length) }])).answers
  t.same(await put('a', 10), ['queued'])
  t.same(await put('b', 10_001 - ENTRY_BYTES), ['too_large'])
  t.same(await put('c', 10_000 - ENTRY_BYTES), ['queued'])
})

t.test('a namespace that fills the outbox loses its own, never those of others', async (t) => {
  const outbox = new Outbox(await memory(), { ...limits, queueSize: 1000, namespaceBytes: 20 * ENTRY_BYTES, totalBytes: 25 * ENTRY_BYTES }, Date.now)
  const ref = (namespace: string, name: string) => ({ owner: 'o', namespace, name })
  for (const one of [ref('quiet', '1'), ref('greedy', '1'), ref('greedy', '2'), ref('other', '1')]) await outbox.define(one, 'https://example.com/')
  const put = (endpoint: string, from: number, count: number) =>
    enqueue(
      outbox,
      Array.from({ length: count }, (_, i) => ({ endpoint, message: `m${from + i}`, id: `e${from + i}`, body: '' })),
    )
  await put('quiet/o/1', 0, 3)
  await put('other/o/1', 0, 6)
  for (let i = 0; i < 50; i++) await put(i % 2 ? 'greedy/o/1' : 'greedy/o/2', i * 10, 10)
  const counts = async () => Object.fromEntries((await outbox.endpoints()).map(({ key, record }) => [key, [record.waiting, record.lost]]))
  const after = await counts()
  t.same(
    [after['quiet/o/1'], after['other/o/1']],
    [
      [3, 0],
      [6, 0],
    ],
  )
  t.equal(after['greedy/o/1'][0] + after['greedy/o/2'][0], 16)
  // Those who have little get room when all is full.
  await put('quiet/o/1', 100, 4)
  t.same((await counts())['quiet/o/1'], [7, 0])
  // And nobody can bring a tenant below an even share.
  for (let i = 0; i < 30; i++) await put('other/o/1', 1000 + i, 1)
  const end = await counts()
  t.same(end['quiet/o/1'], [7, 0])
  t.ok(end['other/o/1'][0] <= 10 && end['greedy/o/1'][0] + end['greedy/o/2'][0] >= 8, JSON.stringify(end))
})

t.test('room for many at once is made where most waits at each step', async (t) => {
  const outbox = new Outbox(await memory(), { ...limits, queueSize: 1000, namespaceBytes: 20 * ENTRY_BYTES, totalBytes: 25 * ENTRY_BYTES }, Date.now)
  const waiting = { 'big/o/1': 8, 'big/o/2': 6, 'other/o/1': 11, 'quiet/o/1': 8 }
  for (const key of Object.keys(waiting)) {
    const [namespace, owner, name] = key.split('/')
    await outbox.define({ namespace, owner, name }, 'https://example.com/')
  }
  for (const [endpoint, count] of Object.entries(waiting))
    await enqueue(
      outbox,
      Array.from({ length: count }, (_, i) => ({ endpoint, message: `m${i}`, id: `e${i}`, body: '' })),
    )
  const left = Object.fromEntries((await outbox.endpoints()).map(({ key, record }) => [key, record.waiting]))
  t.same(left, { 'big/o/1': 4, 'big/o/2': 4, 'other/o/1': 9, 'quiet/o/1': 8 })
})

t.test('namespaces and endpoints whose names begin alike have nothing to do with one another', async (t) => {
  const outbox = new Outbox(await memory(), { ...limits, namespaceBytes: 3 * ENTRY_BYTES }, Date.now)
  const waiting = { 'a/o/1': 1, 'a/o/12': 2, 'ab/o/1': 3 }
  for (const [endpoint, count] of Object.entries(waiting)) {
    const [namespace, owner, name] = endpoint.split('/')
    await outbox.define({ namespace, owner, name }, 'https://example.com/')
    await enqueue(
      outbox,
      Array.from({ length: count }, (_, i) => ({ endpoint, message: `m${i}`, id: `e${i}`, body: '' })),
    )
  }
  const keys = async (namespace?: string) => (await outbox.endpoints(namespace)).map(({ key }) => key)
  t.same(await keys('a'), ['a/o/1', 'a/o/12'])
  t.equal((await outbox.waiting('a/o/1')).length, 1)
  const { dropped } = await enqueue(outbox, [{ endpoint: 'a/o/1', message: 'm', id: 'e', body: '' }])
  t.match(dropped, [{ endpoint: 'a/o/12', id: 'e0' }], 'what waits most in the namespace goes')
  await outbox.remove('a/o/1')
  t.same(await keys(), ['a/o/12', 'ab/o/1'])
  t.same([(await outbox.waiting('a/o/12')).length, (await outbox.waiting('ab/o/1')).length], [1, 3])
})

t.test('endpoints are read some hundred at a time, however many there are', async (t) => {
  const state = await memory()
  const outbox = new Outbox(state, { ...limits, namespaceEndpoints: 5000, endpoints: 5000 }, Date.now)
  const names = Array.from({ length: 1201 }, (_, i) => `n${String(i).padStart(4, '0')}`)
  for (const name of names) await outbox.define({ owner: 'o', namespace: 'a', name }, 'https://example.com/')
  await outbox.define({ owner: 'o', namespace: 'b', name: 'other' }, 'https://example.com/')
  const most: (number | undefined)[] = []
  const list = state.list.bind(state)
  state.list = (options) => {
    most.push(options?.limit)
    return list(options)
  }
  const sizes: number[] = []
  for await (const some of outbox.slices('a')) sizes.push(some.length)
  t.same(sizes, [500, 500, 201])
  t.same(most, [500, 500, 500])
  t.same(
    (await outbox.endpoints('a')).map(({ ref }) => ref.name),
    names,
  )
  t.equal((await outbox.endpoints()).length, 1202)
})

t.test('nothing is queued for an endpoint of which a part is removed', async (t) => {
  const state = await memory()
  const outbox = new Outbox(state, { ...limits, queueSize: 2000, namespaceBytes: 1e7, totalBytes: 1e7 }, Date.now)
  await outbox.define({ owner: 'o', namespace: 'n', name: '1' }, 'https://example.com/')
  const endpoint = 'n/o/1'
  const some = (count: number, name: string) => Array.from({ length: count }, (_, i) => ({ endpoint, message: `${name}${i}`, id: `${name}${i}`, body: '' }))
  await enqueue(outbox, some(1200, 'before'))
  const removing = outbox.remove(endpoint)
  const answers: string[] = []
  while ((await outbox.endpoint(endpoint)) !== undefined) {
    await new Promise((resolve) => setImmediate(resolve))
    const { removed } = (await outbox.endpoint(endpoint))?.record ?? {}
    if (removed) answers.push(...(await outbox.enqueue(some(1, 'after'), () => {})))
  }
  t.equal(await removing, true)
  t.ok(answers.length > 0)
  t.same([...new Set(answers)], ['unrouted'])
  t.same(await outbox.endpoints(), [])
})

t.test('one transaction drops some hundred deliveries, however many are to make way', async (t) => {
  const outbox = new Outbox(await memory(), { ...limits, queueSize: 2000, namespaceBytes: 1200 * ENTRY_BYTES, totalBytes: 1e7 }, Date.now)
  const { key: endpoint } = await outbox.define({ owner: 'o', namespace: 'n', name: '1' }, 'https://example.com/')
  await enqueue(
    outbox,
    Array.from({ length: 1200 }, (_, i) => ({ endpoint, message: `m${i}`, id: `e${i}`, body: '' })),
  )
  const dropped: number[] = []
  const large = { endpoint, message: 'large', id: 'large', body: 'x'.repeat(1199 * ENTRY_BYTES) }
  t.same(await outbox.enqueue([large], (part) => dropped.push(part.dropped.length)), ['queued'])
  t.same(dropped, [500, 500, 200])
  t.match(await outbox.endpoint(endpoint), { record: { waiting: 1, lost: 1200, bytes: 1200 * ENTRY_BYTES } })
})

t.test('an endpoint that is defined anew while it is removed in parts stays', async (t) => {
  const ref = { owner: 'o', namespace: 'n', name: '1' }
  const endpoint = keyOf(ref)
  // Who removes the last part depends on their number.
  for (const count of [600, 1100, 1600, 2100]) {
    const outbox = new Outbox(await memory(), { ...limits, queueSize: 3000, namespaceBytes: 1e7, totalBytes: 1e7 }, Date.now)
    await outbox.define(ref, 'https://example.com/')
    await enqueue(
      outbox,
      Array.from({ length: count }, (_, i) => ({ endpoint, message: `m${i}`, id: `e${i}`, body: '' })),
    )
    const removing = outbox.remove(endpoint)
    while ((await outbox.endpoint(endpoint))?.record.removed !== true) await new Promise((resolve) => setImmediate(resolve))
    await outbox.define(ref, 'https://example.com/anew')
    t.equal(await removing, true)
    t.match(await outbox.endpoint(endpoint), { record: { url: 'https://example.com/anew', waiting: 0 } }, `${count}`)
  }
})
