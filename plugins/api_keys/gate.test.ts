/** How tokens are verified: the cache, the limit of failures, the queue. */
import { hash } from 'argon2'
import { isJwtShaped } from 'svcdb'
import { ManualClock } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { FailureLimiter } from './failure-limiter.ts'
import type { GateDependencies } from './gate.ts'
import { type ApiKey, makeKey } from './key.ts'
import { lookupOf, MAX_TOKEN_LENGTH } from './key-text.ts'
import { Keyring } from './keyring.ts'
import { dummyPhc } from './phc.ts'
import { bareGate, credentialsOf, keyText, start } from './testing.ts'
import { VerificationQueue } from './verification-queue.ts'
import { VerifiedCache } from './verified-cache.ts'

const ADMIN = keyText()
const admin = { name: 'root', key: ADMIN, admin: true }

async function hashedKey(name = 'user', text = keyText()) {
  return { text, key: { name, key: await hash(text, { memoryCost: 19_456, timeCost: 2, parallelism: 1 }), key_prefix: lookupOf(text) } }
}
/** Another key with the same first characters. */
const like = (text: string): string => text.slice(0, 12) + keyText().slice(12)

t.test('a verified key is remembered for a time, and a failure is not', async (t) => {
  const clock = new ManualClock(Date.now())
  const { text, key } = await hashedKey()
  const node = await start({ keys: [admin, key], clock, tuning: { cache_ttl_secs: 10 } })
  t.teardown(() => node.stop())
  const hashed = () => node.metric(ADMIN, 'api_key_verification_seconds_count')
  for (let i = 0; i < 3; i++) t.equal((await node.who(text)).status, 200)
  t.equal(await hashed(), 1)
  clock.skip(10_001)
  t.equal((await node.who(text)).status, 200)
  t.equal(await hashed(), 2)
  const wrong = like(text)
  for (let i = 0; i < 2; i++) t.equal((await node.who(wrong)).status, 401)
  t.equal(await hashed(), 4)
  t.equal(await node.metric(ADMIN, 'api_key_verifications_total{result="refused"}'), 2)
  t.equal(await node.metric(ADMIN, 'api_key_verifications_total{result="accepted"}'), 2)
  t.equal(await node.metric(ADMIN, 'api_keys{source="config"}'), 2)
  t.equal(await node.metric(ADMIN, 'api_key_cache_entries'), 1)
})

t.test('a token that is longer than any key may be is refused and not hashed', async (t) => {
  const node = await start({ keys: [admin, (await hashedKey()).key] })
  t.teardown(() => node.stop())
  t.equal((await node.who('x'.repeat(MAX_TOKEN_LENGTH + 1))).status, 401)
  t.equal(await node.metric(ADMIN, 'api_key_verification_seconds_count'), 0)
  t.equal((await node.who('x'.repeat(MAX_TOKEN_LENGTH))).status, 401)
  t.equal(await node.metric(ADMIN, 'api_key_verification_seconds_count'), 1)
})

t.test('the cache is bounded', async (t) => {
  const [a, b] = [await hashedKey('a'), await hashedKey('b')]
  const node = await start({ keys: [admin, a.key, b.key], tuning: { cache_max_entries: 1 } })
  t.teardown(() => node.stop())
  for (const text of [a.text, b.text, a.text]) t.equal((await node.who(text)).status, 200)
  t.equal(await node.metric(ADMIN, 'api_key_cache_entries'), 1)
  t.equal(await node.metric(ADMIN, 'api_key_verification_seconds_count'), 3)
})

t.test('a client that comes many times at once is verified once', async (t) => {
  const { text, key } = await hashedKey()
  const node = await start({ keys: [admin, key], tuning: { max_queued_verifications: 1 } })
  t.teardown(() => node.stop())
  const answers = await Promise.all(Array.from({ length: 50 }, () => node.who(text)))
  t.ok(answers.every(({ status }) => status === 200))
  t.equal(await node.metric(ADMIN, 'api_key_verification_seconds_count'), 1)
})

t.test('20 failures in 60 s for the same first characters', async (t) => {
  const clock = new ManualClock(Date.now())
  const { text, key } = await hashedKey()
  const late = like(text) // the right key of somebody who comes late
  const node = await start({ keys: [admin, key, { name: 'late', key: (await hashedKey('x', late)).key.key, key_prefix: lookupOf(late) }], clock })
  t.teardown(() => node.stop())
  t.equal((await node.who(text)).status, 200)
  for (let i = 0; i < 20; i++) {
    t.equal((await node.who(like(text))).status, 401)
    clock.skip(1000)
  }
  const limited = await node.who(like(text))
  t.match(limited, { status: 429, code: 'RATE_LIMITED', error: /Too Many Requests.*retry in 40 s/, headers: { 'retry-after': '40' } })
  t.match(await node.who(late), { status: 429 }, 'a right key that was not seen before has to wait as well')
  t.equal((await node.who(text)).status, 200, 'a right key that is remembered is let in')
  t.equal((await node.who(ADMIN)).status, 200, 'and so is one of the config')
  t.equal((await node.who(keyText())).status, 401, 'other keys are not touched')
  t.equal(await node.metric(ADMIN, 'api_key_limited_total{reason="failures"}'), 2)
  clock.skip(40_000)
  t.equal((await node.who(late)).status, 200, 'the oldest failure is 60 s old')
})

t.test('a right key that was verified before is let in during an attack, however long that lasts', async (t) => {
  const clock = new ManualClock(Date.now())
  const { text, key } = await hashedKey()
  const node = await start({ keys: [admin, key], clock, tuning: { cache_ttl_secs: 10, max_failures: 2 } })
  t.teardown(() => node.stop())
  t.equal((await node.who(text)).status, 200)
  clock.skip(11_000)
  for (let i = 0; i < 2; i++) await node.who(like(text))
  t.equal((await node.who(like(text))).status, 429)
  t.equal((await node.who(text)).status, 200)
  t.equal((await node.call('DELETE', ADMIN, '/user')).status, 204)
  t.equal((await node.who(text)).status, 429, 'but not once it is revoked')
})

t.test('under load a key that was verified before is asked for where it is kept', async (t) => {
  const token = keyText()
  const made = () =>
    makeKey({ id: '1', name: 'one', source: 'store', phc: dummyPhc(), lookup: lookupOf(token), namespaces: [], admin: true, roles: [], enabled: true })
  const answerOf = async (kept: (key: ApiKey, keyring: Keyring) => ApiKey | undefined, limits: 'failures' | 'queue') => {
    const keyring = new Keyring()
    const key = made()
    keyring.add(key)
    let now = 0
    const monotonic = () => now
    const cache = new VerifiedCache({ maxEntries: 1, ttlMs: 1000 }, monotonic)
    cache.add(keyring.digestOf(token), key)
    now = 1000
    const limiter = new FailureLimiter({ maxFailures: limits === 'failures' ? 1 : 0, windowMs: 10_000 }, monotonic)
    limiter.enter(lookupOf(token))
    const queue = new VerificationQueue({ maxRunning: 1, maxWaiting: 1 })
    if (limits === 'queue') for (let i = 0; i < 2; i++) void queue.run(undefined, () => new Promise<undefined>(() => {}))
    let asked = 0
    const confirm = async (stale: ApiKey) => {
      asked++
      return kept(stale, keyring)
    }
    const matches = async () => t.fail('it is not hashed') as never
    const { gate, registry } = bareGate({ keyring, cache, limiter, queue, confirm, matches }, monotonic)
    const answer = await gate.authenticate(credentialsOf(`Bearer ${token}`))
    registry.close()
    t.equal(asked, 1)
    return answer
  }
  for (const limits of ['failures', 'queue'] as const) {
    const refusal = { code: limits === 'failures' ? 'RATE_LIMITED' : 'BACKPRESSURE' }
    t.match(await answerOf((key) => key, limits), { principal: 'one' }, `${limits}: it still stands`)
    t.match(await answerOf(() => undefined, limits), refusal, `${limits}: it was revoked elsewhere`)
    const removed = (key: ApiKey, keyring: Keyring) => {
      keyring.remove(key)
      return key
    }
    t.match(await answerOf(removed, limits), refusal, `${limits}: it was revoked meanwhile`)
    const replaced = (key: ApiKey, keyring: Keyring) => {
      keyring.remove(key)
      const next = { ...made(), identity: { ...key.identity, principal: 'another' } }
      keyring.add(next)
      return next
    }
    t.match(await answerOf(replaced, limits), { principal: 'another' }, `${limits}: as it is kept by now`)
  }
})

t.test('no limit with max_failures = 0', async (t) => {
  const node = await start({ keys: [admin], tuning: { max_failures: 0 } })
  t.teardown(() => node.stop())
  const wrong = keyText()
  for (let i = 0; i < 25; i++) t.equal((await node.who(wrong)).status, 401)
})

/** A gate whose hashes end when told to. */
function heldGate(t: Test, dependencies: Partial<GateDependencies> = {}) {
  const keyring = new Keyring()
  const waiting: ((right: boolean) => void)[] = []
  const { gate, registry } = bareGate({ keyring, matches: () => new Promise((resolve) => waiting.push(resolve)), ...dependencies }, () => 0)
  t.teardown(() => registry.close())
  const ask = (token: string, address?: string) => gate.authenticate(credentialsOf(`Bearer ${token}`, address))
  /** Resolves when a hash is under way. */
  const begun = async (): Promise<void> => {
    while (waiting.length === 0) await new Promise(setImmediate)
  }
  /** Ends the next hash. */
  const end = async (right: boolean): Promise<void> => {
    await begun()
    waiting.shift()?.(right)
  }
  return { keyring, ask, begun, end }
}

t.test('what does not fit into the queue is answered with 503 at once, and known keys do not wait', async (t) => {
  const queue = new VerificationQueue({ maxRunning: 1, maxWaiting: 4 })
  const { keyring, ask, end } = heldGate(t, { queue })
  keyring.add(makeKey({ id: 'root', name: 'root', source: 'config', namespaces: [], admin: true, roles: [], enabled: true }), keyring.digestOf(ADMIN))
  const asked = Array.from({ length: 5 }, () => ask(keyText(), 'one'))
  const others = Array.from({ length: 5 }, () => ask(keyText(), 'two'))
  for (const turned of [...asked.slice(3), ...others.slice(2)]) t.match(await turned, { code: 'BACKPRESSURE', message: /too many others/ })
  t.equal(queue.depth, 4)
  t.match(ask(ADMIN), { principal: 'root' }, 'answered at once')
  for (let i = 0; i < 5; i++) await end(false)
  for (const refused of [...asked.slice(0, 3), ...others.slice(0, 2)]) t.match(await refused, { code: 'UNAUTHORIZED' })
})

t.test('keys with the same first characters are told apart', async (t) => {
  const first = await hashedKey('first')
  const second = await hashedKey('second', like(first.text))
  const node = await start({ keys: [admin, first.key, second.key] })
  t.teardown(() => node.stop())
  t.match(await node.who(second.text), { status: 200, principal: 'second' })
  t.match(await node.who(first.text), { status: 200, principal: 'first' })
  t.equal((await node.who(like(first.text))).status, 401)
})

t.test('a key that is revoked while it is verified is refused', async (t) => {
  const { keyring, ask, begun, end } = heldGate(t)
  const text = keyText()
  const key = makeKey({
    id: 'x',
    name: 'x',
    source: 'runtime',
    namespaces: [],
    admin: false,
    roles: [],
    enabled: true,
    phc: dummyPhc(),
    lookup: lookupOf(text),
  })
  keyring.add(key)
  const [first, second] = [ask(text), ask(text)]
  t.equal(first, second, 'one hash for both')
  await begun()
  keyring.remove(key)
  await end(true)
  t.match(await first, { code: 'UNAUTHORIZED' })
  keyring.add(key)
  const third = ask(text)
  await end(true)
  t.match(await third, { principal: 'x' })
  t.match(ask(text), { principal: 'x' }, 'remembered')
})

t.test('a key that is revoked elsewhere while it is verified is refused', async (t) => {
  let standing = true
  const keyring = new Keyring()
  const text = keyText()
  const matches: GateDependencies['matches'] = async (_phc, token) => {
    standing = false
    return token === text
  }
  const { gate, registry } = bareGate({ keyring, matches, confirm: async (key) => (standing ? key : undefined) }, () => 0)
  t.teardown(() => registry.close())
  const more = { source: 'runtime', namespaces: [], admin: false, roles: [], enabled: true, phc: dummyPhc(), lookup: lookupOf(text) } as const
  keyring.add(makeKey({ id: 'x', name: 'x', ...more }))
  for (let i = 0; i < 2; i++) t.match(await gate.authenticate(credentialsOf(`Bearer ${text}`)), { code: 'UNAUTHORIZED' }, 'nor is it remembered')
})

t.test('a key that was revoked elsewhere is refused during an attack as well', async (t) => {
  let time = 0
  let standing = true
  const limiter = new FailureLimiter({ maxFailures: 1, windowMs: 60_000 }, () => time)
  const keyring = new Keyring()
  const [text, name] = [keyText(), 'x']
  const { gate, registry } = bareGate(
    { keyring, limiter, matches: async (_phc, token) => token === text, confirm: async (key) => (standing ? key : undefined) },
    () => time,
  )
  t.teardown(() => registry.close())
  const ask = (token: string) => gate.authenticate(credentialsOf(`Bearer ${token}`))
  const more = { source: 'runtime', namespaces: [], admin: false, roles: [], enabled: true, phc: dummyPhc(), lookup: lookupOf(text) } as const
  keyring.add(makeKey({ id: name, name, ...more }))
  t.match(await ask(text), { principal: 'x' })
  time += 1001 // it is no longer remembered
  t.match(await ask(like(text)), { code: 'UNAUTHORIZED' })
  t.match(await ask(text), { principal: 'x' }, 'too many failures, and it was verified before')
  time += 1001
  standing = false
  t.match(await ask(text), { code: 'RATE_LIMITED' })
})

t.test('where the hash fails, the call fails, and nothing is remembered', async (t) => {
  let broken = true
  const keyring = new Keyring()
  const matches = async () => {
    if (broken) throw new Error('no memory')
    return true
  }
  const { gate, registry } = bareGate({ keyring, matches }, () => 0)
  t.teardown(() => registry.close())
  const text = keyText()
  keyring.add(
    makeKey({ id: 'x', name: 'x', source: 'runtime', namespaces: [], admin: false, roles: [], enabled: true, phc: dummyPhc(), lookup: lookupOf(text) }),
  )
  for (let i = 0; i < 3; i++) await t.rejects(gate.authenticate(credentialsOf(`Bearer ${text}`)) as Promise<unknown>, /no memory/)
  broken = false
  t.match(await gate.authenticate(credentialsOf(`Bearer ${text}`)), { principal: 'x' })
})

t.test('made under another prefix, a key is found as well', async (t) => {
  const { text, key } = await hashedKey('old', keyText('old_'))
  const node = await start({ keys: [admin, key], auth: { api_key_prefix: 'acme-' } })
  t.teardown(() => node.stop())
  t.equal((await node.who(text)).status, 200)
  const made = (await node.call('POST', ADMIN, '', { name: 'new' })).body.key
  t.match(made, /^acme-[\w-]{43}$/)
  t.equal((await node.who(made)).status, 200)
})

t.test('the limiter counts what is under way, and forgets', (t) => {
  let now = 0
  const limiter = new FailureLimiter({ maxFailures: 2, windowMs: 1000 }, () => now)
  t.equal(limiter.enter('a'), undefined)
  t.equal(limiter.enter('a'), undefined)
  t.equal(limiter.enter('a'), 1, 'two may yet fail')
  limiter.leave('a', false)
  t.equal(limiter.enter('a'), undefined)
  limiter.leave('a', true)
  now = 500
  limiter.leave('a', true)
  t.equal(limiter.enter('a'), 1)
  now = 1000
  t.equal(limiter.enter('a'), undefined)
  limiter.leave('a', false)
  now = 1500
  t.equal(limiter.enter('a'), undefined)
  limiter.leave('a', false)
  t.equal(limiter.size, 0)
  for (let i = 0; i < 20_000; i++) {
    limiter.enter(String(i))
    limiter.leave(String(i), true)
  }
  t.equal(limiter.size, 10_000)
  t.end()
})

t.test('the queue', async (t) => {
  const queue = new VerificationQueue({ maxRunning: 2, maxWaiting: 4 })
  const open: (() => void)[] = []
  const order: string[] = []
  const job = (name: string) => () =>
    new Promise<string>((resolve) => {
      order.push(name)
      open.push(() => resolve(name))
    })
  const [a, b] = [queue.run('x', job('a')), queue.run('x', job('b'))]
  const [c, d] = [queue.run('x', job('c')), queue.run('x', job('d'))]
  t.equal(queue.run('x', job('e')), undefined, 'half of the places for one address')
  const [f, g] = [queue.run('y', job('f')), queue.run(undefined, job('g'))]
  t.equal(queue.run('z', job('h')), undefined, 'no more places')
  t.equal(queue.depth, 4)
  t.same(order, ['a', 'b'])
  for (let i = 0; i < 6; i++) {
    open[i]()
    await new Promise(setImmediate)
  }
  t.same(await Promise.all([a, b, c, d, f, g]), ['a', 'b', 'c', 'd', 'f', 'g'])
  t.equal(queue.depth, 0)
  await t.rejects(queue.run('x', () => Promise.reject(new Error('no'))) as Promise<unknown>, /no/)
  t.equal(await queue.run('x', async () => 'again'), 'again', 'a failure gives its place back')
  const later = ['y', 'y', 'x', 'x'].map((address) => queue.run(address, job(address)))
  t.notOk(later.includes(undefined), 'who has waited may wait again')
  for (const end of open.slice(6)) end()
  await Promise.all(later.slice(0, 2))
  await new Promise(setImmediate)
  for (const end of open.slice(8)) end()
  t.same(await Promise.all(later), ['y', 'y', 'x', 'x'])
})

t.test('texts', (t) => {
  t.equal(lookupOf(`svc_${'abcdefgh'}${'x'.repeat(35)}`), 'abcdefgh')
  t.equal(lookupOf('x'.repeat(43)), 'xxxxxxxx')
  t.equal(lookupOf('short'), 'short')
  for (const [text, shaped] of [
    ['a.b.c', true],
    ['a.b', false],
    ['..', true],
    ['', false],
    ['a.b.c.d.e', true],
  ] as const)
    t.equal(isJwtShaped(text), shaped, text)
  t.end()
})
