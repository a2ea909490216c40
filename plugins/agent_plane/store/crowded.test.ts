/** Very many events of one key, and very many who wait by one: each is found among them, and others get their turn meanwhile. */
import type { StateReader, StateTransaction } from 'svcdb'
import type { AgentEvent } from 'svcdb/agents'
import t from 'tap'
import { turnsDuring } from '../../../test/support/turns-during.ts'
import { memoryState } from '../testing/world.ts'
import { beginWait, deliver } from './events.ts'
import type { Wait } from './waits.ts'

const MANY = 2000
const NOW = 1_700_000_000_000
const key = (namespace: string, value: string) => ({ namespace, value })
const RUN = 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'
const OTHER = 'run_01ARZ3NDEKTSV4RRFFQ69G5FAW'

const event = (id: number | string, ...correlation: AgentEvent['correlation']): AgentEvent => ({
  id: `${id}`,
  source: 's',
  kind: 'k',
  correlation,
  payload: id,
})
const wait = (of: string, ...correlation: AgentEvent['correlation']): Wait => ({ run: RUN, key: of, until: NOW + 1e9, event: { kind: 'k', correlation } })

/** A transaction that counts what it gives. */
function counting(tx: StateTransaction): { tx: StateTransaction; read(): number } {
  let read = 0
  const get: StateReader['get'] = (key) => {
    read++
    return tx.get(key)
  }
  const list: StateReader['list'] = async (range) => {
    const rows = await tx.list(range)
    read += rows.length
    return rows as never
  }
  return { tx: { get, list, put: (key, value) => tx.put(key, value), delete: (key) => tx.delete(key) }, read: () => read }
}

t.test('a wait by two keys does not look at all events that have one of them', async (t) => {
  const state = await memoryState()
  const [shop, order, other] = [key('a', 'shop'), key('b', 'order'), key('b', 'another')]
  await state.transaction(async (tx) => {
    for (let i = 0; i < MANY; i++) await deliver(tx, event(i, shop, ...(i % 2 === 0 ? [other] : [])), NOW + i)
  })
  await state.transaction(async (tx) => {
    const counted = counting(tx)
    t.equal(await beginWait(counted.tx, wait('w1', shop, order)), undefined)
    t.ok(counted.read() < 10, `${counted.read()} rows`)
  })
  await state.transaction(async (tx) => {
    t.equal((await beginWait(tx, wait('w2', shop, other)))?.id, '0', 'the oldest that has both')
    t.equal((await beginWait(tx, wait('w3', shop, other)))?.id, '2')
    t.equal((await beginWait(tx, wait('w4', shop)))?.id, '1')
    t.equal((await beginWait(tx, { ...wait('w5', order, other), any: true }))?.id, '4')
    t.equal((await beginWait(tx, wait('w6')))?.id, '3')
  })
})

t.test('who looks through very many events lets others have their turn', async (t) => {
  const state = await memoryState()
  const shop = key('a', 'shop')
  await state.transaction(async (tx) => {
    tx.put(`status/${OTHER}`, 'running')
    for (let i = 0; i < MANY; i++) await deliver(tx, { ...event(i, shop), to: OTHER }, NOW + i)
  })
  const turns = await turnsDuring(() => state.transaction((tx) => beginWait(tx, wait('w', shop))))
  t.ok(turns >= MANY / 200, `${turns} turns`)
})

t.test('who looks through very many waits does as well; for an event to one run only those of that run are looked at', async (t) => {
  const state = await memoryState()
  const shop = key('a', 'shop')
  await state.transaction(async (tx) => {
    tx.put(`status/${OTHER}`, 'running')
    for (let i = 0; i < MANY; i++) await beginWait(tx, wait(`w${i}`, shop, key('b', `${i}`)))
  })
  const turns = await turnsDuring(() => state.transaction((tx) => deliver(tx, event('1', shop), NOW)))
  t.ok(turns >= MANY / 200, `${turns} turns`)
  await state.transaction(async (tx) => {
    const counted = counting(tx)
    t.same(await deliver(counted.tx, { ...event('2', shop), to: OTHER }, NOW), { delivery: 'buffered' })
    t.ok(counted.read() < 10, `${counted.read()} rows`)
  })
  t.match(await state.transaction((tx) => deliver(tx, event('3', shop, key('b', `${MANY - 1}`)), NOW)), { delivery: 'resumed', run: RUN })
})
