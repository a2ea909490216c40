/** What a state store does, the engine's own or one beside it. */
import { setImmediate } from 'node:timers/promises'
import type { StateStore, StateTransaction } from 'svcdb'
import type { Test } from 'tap'

export interface States {
  state(owner: string): StateStore
}

/** With nothing stored before each. */
export const stateRules: readonly [rule: string, body: (t: Test, engine: States) => Promise<void>][] = [
  [
    'state: ordered, transactional, each owner for itself',
    async (t: Test, engine: States) => {
      const state = engine.state('one')
      t.equal(await state.get('k'), undefined)
      const value = { list: [1, 'a', null, true], nested: { x: 1.5 } }
      t.equal(
        await state.transaction(async (tx) => {
          tx.put('b/2', 2)
          tx.put('b/1', value)
          tx.put('c', 'c')
          tx.put('a', null)
          tx.put('bä', 'ä')
          tx.delete('c')
          t.equal(await tx.get('c'), undefined, 'a transaction sees what it has done')
          return (await tx.list({ prefix: 'b/' })).length
        }),
        2,
      )
      value.list.push('changed later')
      t.same(await state.get('b/1'), { list: [1, 'a', null, true], nested: { x: 1.5 } })
      const keys = async (range?: Parameters<typeof state.list>[0]) => (await state.list(range)).map((e) => e.key)
      t.same(await keys(), ['a', 'b/1', 'b/2', 'bä'])
      t.same(await keys({ prefix: 'b/' }), ['b/1', 'b/2'])
      t.same(await keys({ start: 'b/1', end: 'b/2' }), ['b/1'])
      t.same(await keys({ start: 'b/2' }), ['b/2', 'bä'])
      t.same(await keys({ limit: 2 }), ['a', 'b/1'])
      t.same(await keys({ prefix: 'b', start: 'b/2', limit: 1 }), ['b/2'])
      t.same(await engine.state('two').list(), [])
      t.same(await engine.state('on').list(), [], 'a prefix of an owner is another owner')
      await engine.state('two').transaction((tx) => tx.put('a', 'two'))
      t.equal(await state.get('a'), null)
      t.equal(await engine.state('one').get('b/2'), 2)
      await t.rejects(
        state.transaction((tx) => {
          tx.put('a', 'lost')
          throw new Error('the body fails')
        }),
        /the body fails/,
      )
      t.equal(await state.get('a'), null, 'a failed transaction leaves nothing')
      const [beyond, last] = ['b/\u{1f600}', 'b/\u{10ffff}']
      await state.transaction(async (tx) => {
        tx.put(last, 'last')
        tx.put(beyond, 'beyond')
        tx.put('b/\uffee', 'before')
        t.same(
          (await tx.list({ prefix: 'b/', start: 'b/3' })).map(({ key }) => key),
          ['b/\uffee', beyond, last],
          'keys are ordered by their UTF-8, in a transaction as well',
        )
      })
      t.same(await keys({ prefix: 'b/', start: 'b/3' }), ['b/\uffee', beyond, last])
      t.same(await keys({ start: beyond }), [beyond, last, 'bä'])
      t.same(await keys({ prefix: 'b/', start: 'b/\uffee', end: last }), ['b/\uffee', beyond])
      await Promise.all(Array.from({ length: 20 }, () => state.transaction(async (tx) => tx.put('n', ((await tx.get<number>('n')) ?? 0) + 1))))
      t.equal(await state.get('n'), 20)
    },
  ],
  [
    'state: keys of every length may have control characters',
    async (t: Test, engine: States) => {
      const state = engine.state('one')
      const keys = ['\u0001', '\u0002', '\u0003', '\u0004', '\u0005'].flatMap((each) =>
        [1, 40, 64, 300].map((length) => `n${each}${'a'.repeat(length)}${each}${each}z`),
      )
      await state.transaction((tx) => {
        for (const key of keys) tx.put(key, key)
      })
      for (const key of keys) t.equal(await state.get(key), key)
      t.same(
        await state.list(),
        keys.toSorted().map((key) => ({ key, value: key })),
      )
      for (const prefix of ['n\u0001', `n\u0004${'a'.repeat(64)}`])
        t.same(
          (await state.list({ prefix })).map(({ key }) => key),
          keys.filter((key) => key.startsWith(prefix)).toSorted(),
        )
      await state.transaction((tx) => {
        for (const key of keys) tx.delete(key)
      })
      t.same(await state.list(), [])
    },
  ],
  [
    'state: transactions that meet come one after the other, though their bodies wait',
    async (t: Test, engine: States) => {
      const state = engine.state('one')
      const queue = async (turns: number) =>
        state.transaction(async (tx) => {
          const waiting = await tx.list({ prefix: 'queue/' })
          for (let i = 0; i < turns; i++) await setImmediate()
          const place = `queue/${String(waiting.length).padStart(3, '0')}`
          tx.put(place, turns)
          return place
        })
      const places = await Promise.all(Array.from({ length: 10 }, (_, i) => queue(i % 4)))
      t.equal(new Set(places).size, 10, 'what a listing does not show is seen to have come')
      t.same(
        (await state.list({ prefix: 'queue/' })).map(({ key }) => key),
        places.toSorted(),
      )
      const both = (value: number) => state.transaction((tx) => ['pair/a', 'pair/b'].forEach((key) => void tx.put(key, value)))
      await both(1)
      const read = state.transaction(async (tx) => {
        const first = await tx.get<number>('pair/a')
        for (let i = 0; i < 10; i++) await setImmediate()
        if ((await tx.get('pair/b')) !== first) throw new Error('the two are of two times')
        return first
      })
      await both(2)
      t.ok([1, 2].includes((await read) as number), 'a transaction answers of one time')
      let after: StateTransaction | undefined
      await state.transaction((tx) => {
        after = tx
      })
      await t.rejects(async () => after?.get('stock'), /it has ended/)
      t.throws(() => after?.put('stock', 2), /it has ended/)
      t.equal(await state.get('stock'), undefined)
    },
  ],
]
