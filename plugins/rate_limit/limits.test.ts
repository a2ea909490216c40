import t from 'tap'
import { rateOf } from './gcra.ts'
import { type LimitOptions, Limits, namespaceRate } from './limits.ts'

const limits = (options: Partial<LimitOptions>) =>
  new Limits({ address: undefined, global: undefined, principal: undefined, namespace: () => undefined, maxTracked: 100, ...options })

/** How many of a thousand are let in at once. */
function count(ask: () => unknown): number {
  let allowed = 0
  for (let i = 0; i < 1000; i++) if (ask() === undefined) allowed++
  return allowed
}

t.test('a limit of 0 is none, and keeps nothing', async (t) => {
  const none = limits({})
  t.equal(
    count(() => none.arrival('a', 0) ?? none.admitted('n', 'p', 0)),
    1000,
  )
  t.same(none.tracked(), { address: 0, namespace: 0, principal: 0 })
})

t.test('each layer for itself', async (t) => {
  const one = limits({ address: rateOf(10, 20), global: rateOf(30, 30), principal: rateOf(5, 5), namespace: () => rateOf(7, 8) })
  t.equal(
    count(() => one.arrival('a', 0)),
    20,
  )
  t.match(one.arrival('a', 0), { layer: 'address', remaining: 0, waitMs: 100, fullMs: 2000 })
  t.equal(
    count(() => one.arrival('b', 0)),
    10,
    'the rest of the global bucket: what an address is refused is not taken out of it',
  )
  t.match(one.arrival('b', 0), { layer: 'global' })
  t.equal(
    count(() => one.admitted('n', 'p', 0)),
    5,
  )
  t.match(one.admitted('n', 'p', 0), { layer: 'principal' })
  t.equal(
    count(() => one.admitted('n', 'q', 0)),
    3,
    'the rest of the namespace: what a principal is refused is not taken out of it',
  )
  t.match(one.admitted('n', 'q', 0), { layer: 'namespace' })
  t.match(one.admitted('n', undefined, 0), { layer: 'namespace' })
  t.equal(one.admitted('other', undefined, 0), undefined)
})

t.test('anonymous callers have no bucket of their own', async (t) => {
  const one = limits({ principal: rateOf(1, 1) })
  t.equal(
    count(() => one.admitted('n', undefined, 0)),
    1000,
  )
  t.same(one.tracked().principal, 0)
})

t.test('memory is bounded, by number and by the length of names', async (t) => {
  const one = limits({ address: rateOf(1, 1), principal: rateOf(1, 1), namespace: () => rateOf(1, 1) })
  for (let i = 0; i < 10_000; i++) {
    one.arrival(`a${i}`, i)
    one.admitted(`n${i}`, `p${i}`, i)
  }
  t.same(one.tracked(), { address: 100, namespace: 100, principal: 100 })
  t.match(one.arrival('a9999', 10_000), { layer: 'address' }, 'the newest are there')
  const long = 'x'.repeat(10_000)
  t.equal(one.admitted('long', `${long}1`, 0), undefined)
  t.equal(one.admitted('long2', `${long}2`, 0), undefined, 'long names are told apart')
  t.match(one.admitted('long3', `${long}1`, 0), { layer: 'principal' })
})

t.test('what has been full for 300 s is forgotten, and nothing sooner', async (t) => {
  const one = limits({ address: rateOf(1, 400) })
  for (let i = 0; i < 400; i++) one.arrival('used up', 0)
  one.arrival('used once', 0)
  t.same([...one.sweep(300_999)], [])
  t.equal(one.tracked().address, 2)
  t.same([...one.sweep(301_000)], [])
  t.equal(one.tracked().address, 1)
  t.equal(
    count(() => one.arrival('used up', 301_000)),
    301,
    'waiting out the sweep does not give a new burst',
  )
  t.same([...one.sweep(1_002_000)], [])
  t.equal(one.tracked().address, 0)
})

t.test("a namespace's own quota counts before the config, and the config before the default", async (t) => {
  const quotas = new Map([
    ['quota', { max_request_rps: 3, max_request_burst: 9 }],
    ['both', { max_request_rps: 4, max_request_burst: 0 }],
    ['none', { max_request_rps: 0, max_request_burst: 50 }],
  ])
  const named = new Map([
    ['both', rateOf(70, 70)],
    ['named', rateOf(50, 100)],
    ['free', undefined],
  ])
  const rate = namespaceRate({ named, others: rateOf(1000, 2000), quota: (name) => quotas.get(name) })
  t.same(rate('quota'), { rps: 3, burst: 9 })
  t.same(rate('both'), { rps: 4, burst: 4 })
  t.same(rate('none'), { rps: 1000, burst: 2000 })
  t.same(rate('named'), { rps: 50, burst: 100 })
  t.equal(rate('free'), undefined)
  t.same(rate('constructor'), { rps: 1000, burst: 2000 })
})
