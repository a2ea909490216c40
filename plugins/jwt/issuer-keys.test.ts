/** The key set of an issuer by a clock of the test's own: how old it may be, how many names are remembered, and for how long what it has verified counts. */
import t from 'tap'
import { IssuerKeys } from './issuer-keys.ts'
import { type KeySet, parseKeySet } from './key-set.ts'
import { jwkOf, makeKey } from './testing.ts'
import { TokenCache } from './token-cache.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

async function opened() {
  const set = parseKeySet({ keys: [jwkOf(makeKey('ES256', 'first'))] })
  const state = { now: 0, loads: 0, load: async (): Promise<KeySet> => set }
  const keys = new IssuerKeys({
    load: () => {
      state.loads++
      return state.load()
    },
    ttlMs: HOUR,
    waitMs: 100,
    unknownMs: 10_000,
    monotonic: () => state.now,
    rotating: async () => {},
    refreshed() {},
    failed() {},
  })
  await keys.open()
  return { keys, set, state }
}

t.test('names of unknown keys that are remembered are bounded', async (t) => {
  const { keys, state } = await opened()
  for (let i = 0; i < 5000; i++) await keys.sought(`${i}`.padEnd(300, 'x'))
  t.equal(keys.unknownNames, 1024)
  t.equal(state.loads, 2)
  state.now += 9999
  await keys.sought('another')
  t.equal(state.loads, 2)
  state.now += 1
  await keys.sought('another')
  t.equal(state.loads, 2, 'it was asked for a moment ago')
  await keys.sought('one more')
  t.equal(state.loads, 3)
})

t.test('a set is as old as the question that it answers', async (t) => {
  const { keys, set, state } = await opened()
  state.now = HOUR
  state.load = async () => {
    state.now += 30 * MINUTE
    return set
  }
  t.equal(await keys.current(), set)
  t.equal(keys.ageMs, 30 * MINUTE)
  t.equal(keys.goodUntil, 2 * HOUR)
})

t.test('what a set has verified counts no longer than the set, which is a day at most', async (t) => {
  const { keys, state } = await opened()
  state.load = () => Promise.reject(new Error('away'))
  t.equal(keys.goodUntil, HOUR)
  state.now = HOUR + 1
  t.equal(keys.goodUntil, HOUR + 10_001, 'while it cannot be had anew, until it is tried again')
  state.now = 24 * HOUR - 1000
  t.equal(keys.goodUntil, 24 * HOUR)
  t.ok(await keys.current())
  state.now = 24 * HOUR
  await t.rejects(keys.current())
})

t.test('a token that was verified counts for a minute, and no longer than it lives and the keys count', (t) => {
  const time = { wall: 0, monotonic: 0 }
  const cache = new TokenCache({ clockSkewMs: 5000, now: () => time.wall, monotonic: () => time.monotonic })
  const identity = { principal: 'ann', method: 'jwt', claims: {}, namespaces: [], admin: false }
  const counts = (expiresAt: number, goodUntil: number, later: typeof time): boolean => {
    Object.assign(time, { wall: 0, monotonic: 0 })
    cache.admission('token')({ ...identity, expiresAt }, goodUntil)
    Object.assign(time, later)
    return cache.get('token') !== undefined
  }
  const far = 1e9
  t.same(
    [59_999, MINUTE].map((monotonic) => counts(far, far, { wall: 0, monotonic })),
    [true, false],
  )
  t.same(
    [999, 1000].map((monotonic) => counts(far, 1000, { wall: 0, monotonic })),
    [true, false],
    'the keys',
  )
  t.same(
    [5999, 6000].map((wall) => counts(1000, far, { wall, monotonic: 0 })),
    [true, false],
    'its end, with the skew',
  )
  t.notOk(counts(far, 0, { wall: 0, monotonic: 0 }), 'keys that count no more')
  t.end()
})

t.test('what a key has verified stands until the issuer is known to have withdrawn it', async (t) => {
  const { keys, set, state } = await opened()
  const [print] = set.prints.keys()
  state.now += HOUR - 1
  t.same([keys.holds(print), keys.holds('another'), state.loads], [true, false, 1])
  // Nobody waits for it, and it is fetched once.
  state.now += 1
  t.same([keys.holds(print), keys.holds(print), state.loads], [true, true, 2])
  state.load = async () => parseKeySet({ keys: [jwkOf(makeKey('ES256', 'next'))] })
  await new Promise(setImmediate)
  t.ok(keys.holds(print), 'it was still there')
  state.now += HOUR
  t.ok(keys.holds(print))
  await new Promise(setImmediate)
  t.notOk(keys.holds(print))
})

t.test('while an issuer is down what its key has verified stands for a day', async (t) => {
  const { keys, set, state } = await opened()
  const [print] = set.prints.keys()
  state.load = () => Promise.reject(new Error('down'))
  for (state.now += HOUR; state.now < 24 * HOUR; state.now += 10 * MINUTE) {
    t.ok(keys.holds(print))
    await new Promise(setImmediate)
  }
  t.notOk(keys.holds(print))
})
