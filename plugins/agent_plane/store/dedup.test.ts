/** For how long an event is known that has come, and a dead letter. */
import t from 'tap'
import { start } from '../testing/node.ts'
import { memoryState } from '../testing/world.ts'
import { beginWait, deadLetters, deliver, forget, inParts } from './events.ts'

const DAY = 86_400_000
const NOW = Date.UTC(2026, 10, 23)
const RUN = 'run_01HF7YAT003MQHVMK0TR0T4D8Z'

t.test('events are known for good, or until they are forgotten, the oldest first', async (t) => {
  const state = await memoryState()
  const event = (id: string) => ({ id, source: 's', kind: 'order', correlation: [], payload: null })
  const come = (id: string, now: number) => state.transaction((tx) => deliver(tx, event(id), now))
  const forgets = (before: number, limit = 10) => state.transaction((tx) => forget(tx, before, limit))
  for (const [index, id] of ['a', 'b', 'c'].entries()) t.match(await come(id, NOW + index * DAY), { delivery: 'buffered' })
  t.match(await come('a', NOW + 1000 * DAY), { delivery: 'duplicate' })
  t.equal(await forgets(NOW), 0)
  t.equal(await forgets(NOW + 2 * DAY, 1), 1, 'as many as are asked for')
  t.match(await come('a', NOW + 3 * DAY), { delivery: 'buffered' })
  t.match(await come('b', NOW + 3 * DAY), { delivery: 'duplicate' })
  t.equal(await forgets(NOW + 2 * DAY), 1)
  t.match(await come('b', NOW + 3 * DAY), { delivery: 'buffered' })
  t.match(await come('c', NOW + 3 * DAY), { delivery: 'duplicate' })
  const wait = { run: RUN, key: 'k', until: NOW + 9 * DAY, event: { kind: 'order', correlation: [] } }
  t.match(await state.transaction((tx) => beginWait(tx, wait)), { source: 's' }, 'one that lies there')
  t.equal(await forgets(NOW + 9 * DAY), 3)
  t.same(await state.list({ prefix: 'seen' }), [])
})

t.test('a node forgets what came before its retention', async (t) => {
  const { node, plane } = await start(t, [], { config: { agent_plane: { sweep_interval_secs: 0.1, dedup_retention_days: 2 } } })
  const event = { id: 'now', source: 's', kind: 'order', payload: null }
  await plane.deliver(event)
  const state = node.storage.state('agent_plane')
  const came = (days: number) => String(Date.now() - days * DAY).padStart(16, '0')
  const old = (days: number) => ({ id: 'x'.repeat(days), key: `seen_at/${came(days)}/${'x'.repeat(days)}` })
  await state.transaction((tx) => {
    for (const { id, key } of [1, 3, 5].map(old)) {
      tx.put(`seen/${id}`, {})
      tx.put(key, null)
    }
  })
  const known = async () => (await state.list({ prefix: 'seen/x' })).map(({ key }) => key)
  const end = Date.now() + 20_000
  while ((await known()).length > 1 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20))
  t.same(await known(), ['seen/x'])
  t.match(await plane.deliver(event), { delivery: 'duplicate' })
})

t.test('a node drops dead letters that are older than their retention, and no others', async (t) => {
  const { node, plane } = await start(t, [], { config: { agent_plane: { sweep_interval_secs: 0.1, event_grace_secs: 1, dead_letter_retention_days: 2 } } })
  const state = node.storage.state('agent_plane')
  const letter = (id: string) => ({ source: 's', id, kind: 'order', correlation: [], received_at: '', reason: '' })
  const put = (days: number, index: number) => {
    const id = `${days}.${index}`
    return { key: `dead/${String(Date.now() - days * DAY).padStart(16, '0')}/${id}`, value: letter(id) }
  }
  // More than one transaction takes.
  const old = Array.from({ length: 2500 }, (_, index) => put(3, index))
  await state.transaction((tx) => {
    for (const { key, value } of [...old, put(1, 0)]) tx.put(key, value)
  })
  await plane.deliver({ id: 'now', source: 's', kind: 'order', payload: null })
  const kept = async () => (await deadLetters(state, 10_000)).map(({ id }) => id)
  const end = Date.now() + 20_000
  while (((await kept()).length > 2 || !(await kept()).includes('now')) && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20))
  t.same(await kept(), ['1.0', 'now'])
})

t.test('more is forgotten by a sweep than one transaction takes', async (t) => {
  const state = await memoryState()
  for (let id = 0; id < 50; id++) await state.transaction((tx) => void tx.put(`seen_at/${String(NOW).padStart(16, '0')}/${id}`, null))
  t.equal(await inParts(state, { part: 8, limit: 30 }, (tx, some) => forget(tx, NOW + 1, some)), 30)
  t.equal(await inParts(state, { part: 8, limit: 30 }, (tx, some) => forget(tx, NOW + 1, some)), 20)
  t.same(await state.list({ prefix: 'seen' }), [])
})
