import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { mapState } from '../testkit/map-state.ts'
import type { StateStore } from './state.ts'
import { followState } from './state-follow.ts'

type Told = (keys: readonly string[] | undefined) => void

/** A store whose other writers the test plays. */
function shared(): { state: StateStore; told: Set<Told> } {
  const told = new Set<Told>()
  const watch: StateStore['watch'] = async (_prefixes, one) => {
    told.add(one)
    return () => void told.delete(one)
  }
  return { state: { ...mapState(), watch }, told }
}

const turns = async (): Promise<void> => {
  for (let n = 0; n < 10; n++) await setImmediate()
}

t.test('all is read first, then what is told, together and one after the other', async (t) => {
  const { state, told } = shared()
  const applied: (readonly string[] | undefined)[] = []
  let go: () => void = () => {}
  const following = await followState(state, {
    prefixes: ['k/'],
    async apply(keys) {
      // What is told while all is read comes behind it.
      if (applied.length === 0) for (const one of told) one(['k/0'])
      applied.push(keys === undefined ? undefined : [...keys])
      if (applied.length === 2) await new Promise<void>((resolve) => (go = resolve))
    },
    failed: (error) => t.fail(error.message),
  })
  await turns()
  t.same(applied, [undefined, ['k/0']])
  for (const one of told) for (const key of ['k/1', 'k/2', 'k/1']) one([key])
  await turns()
  t.equal(applied.length, 2, 'one call at a time')
  go()
  await turns()
  t.same(applied.slice(2), [['k/1', 'k/2']])
  for (const one of told) one(['k/1'])
  for (const one of told) one(undefined)
  await following.stop()
  t.equal(told.size, 0)
})

t.test('what fails is tried again, with what came meanwhile', async (t) => {
  const { state, told } = shared()
  const applied: (readonly string[] | undefined)[] = []
  let failures = 0
  const done = Promise.withResolvers<void>()
  // It waits by itself, but keeps no process alive.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  const following = await followState(state, {
    prefixes: [''],
    async apply(keys) {
      applied.push(keys === undefined ? undefined : [...keys].sort())
      if (keys === undefined) return
      if (failures === 0) {
        for (const one of told) one(['b'])
        throw new Error('away')
      }
      done.resolve()
    },
    failed: () => void failures++,
  })
  for (const one of told) one(['a'])
  await done.promise
  t.equal(failures, 1)
  t.same(applied, [undefined, ['a'], ['a', 'b']])
  await following.stop()
})

t.test('what cannot be read at the start is thrown, and no longer followed; a store of one process is read once', async (t) => {
  const { state, told } = shared()
  const apply = async () => {
    throw new Error('unreadable')
  }
  await t.rejects(followState(state, { prefixes: [''], apply, failed: () => t.fail('it is thrown') }), /unreadable/)
  t.equal(told.size, 0)
  let times = 0
  const alone = await followState(mapState(), { prefixes: [''], apply: async () => void times++, failed: () => {} })
  await alone.stop()
  t.equal(times, 1)
})
