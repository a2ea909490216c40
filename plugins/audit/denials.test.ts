import t from 'tap'
import { Denials, networkOf } from './denials.ts'
import type { DraftInput } from './draft.ts'

const limits = { perAddress: 3, perWindow: 10, windowSecs: 60 }
const denied = (address: string, more: Partial<DraftInput> = {}): DraftInput => ({
  action: 'login_failure',
  resource: '/x',
  decision: 'deny',
  principal: 'anonymous',
  address,
  requestId: 'r1',
  metadata: { reason: 'no', code: 'UNAUTHORIZED', path: '/x/y' },
  ...more,
})
const countsOf = (denials: Denials) => denials.end().map(({ record }) => [record.address, record.metadata?.count])

t.test('so many from one address, and the rest as a count', async (t) => {
  let now = 100n
  const denials = new Denials(limits, () => now++)
  const written = Array.from({ length: 50 }, () => denials.admit(denied('192.0.2.1')))
  t.equal(written.filter(Boolean).length, 3)
  t.ok(denials.admit(denied('192.0.2.2')), 'another address has its own')
  t.ok(denials.admit(denied('192.0.2.1', { principal: 'ann', action: 'admin' })), 'and so has another caller and kind')
  const [{ record }, ...more] = denials.end()
  t.same(more, [])
  t.same(record, {
    action: 'login_failure',
    resource: '/x',
    decision: 'deny',
    principal: 'anonymous',
    address: '192.0.2.1',
    metadata: { reason: 'no', code: 'UNAUTHORIZED', event: 'counted', count: '47', first: '100', last: '146', window_secs: '60', network: '192.0.2.1' },
  })
  t.ok(denials.idle)
  t.ok(denials.admit(denied('192.0.2.1')), 'a new window begins')
})

t.test('many addresses together are bounded too, and none is lost', async (t) => {
  const denials = new Denials(limits, () => 1n)
  let written = 0
  for (let i = 0; i < 5000; i++) if (denials.admit(denied(`10.${i >> 8}.0.${i & 255}`))) written++
  t.equal(written, limits.perWindow)
  const summaries = denials.end().map(({ record }) => record)
  t.ok(summaries.length <= 1001)
  t.equal(
    summaries.reduce((sum, { metadata }) => sum + Number(metadata?.count), written),
    5000,
  )
  t.match(summaries.at(-1), { action: 'custom', principal: '*', resource: '*', decision: 'deny' })
  t.ok(denials.admit(denied('10.99.0.1')), 'a new window begins')
})

t.test('a count that could not be written goes into the next one', async (t) => {
  const denials = new Denials(limits, () => 1n)
  for (let i = 0; i < 5; i++) denials.count(denied('192.0.2.1'))
  for (const { restore } of denials.end()) restore()
  t.notOk(denials.idle)
  denials.count(denied('192.0.2.1'))
  t.same(countsOf(denials), [['192.0.2.1', '6']])
  for (let i = 0; i < 5; i++) denials.count(denied('192.0.2.1'))
  const ended = denials.end()
  t.ok(denials.admit(denied('192.0.2.1')), 'written meanwhile')
  for (const { restore } of ended) restore()
  t.same(countsOf(denials), [['192.0.2.1', '5']])
  t.same(countsOf(denials), [])
})

t.test('counts that cannot be written for long, of ever new addresses, stay bounded, and none is lost', async (t) => {
  let now = 1n
  const denials = new Denials(limits, () => now++)
  for (let window = 0; window < 5; window++) {
    const ended = denials.end()
    t.ok(ended.length <= 1001, `${ended.length} in window ${window}`)
    // While they are being written.
    for (let i = 0; i < 1500; i++) denials.count(denied(`10.${window}.${i >> 8}.${i & 255}`))
    for (const { restore } of ended) restore()
  }
  const summaries = denials.end().map(({ record }) => record.metadata as Record<string, string>)
  t.ok(summaries.length <= 1001)
  t.equal(
    summaries.reduce((sum, { count }) => sum + Number(count), 0),
    7500,
  )
  const others = summaries.at(-1)
  t.ok(Number(others?.first) < 1600 && Number(others?.last) === 7500, JSON.stringify(others))
})

t.test('an IPv6 address counts by its network', async (t) => {
  t.equal(networkOf('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2::/64')
  t.equal(networkOf('2001:db8:1:2:ffff::1'), '2001:db8:1:2::/64')
  t.equal(networkOf('2001:db8::1'), '2001:db8:0:0::/64')
  t.equal(networkOf('::1'), '0:0:0:0::/64')
  t.equal(networkOf('fe80::1%eth0'), 'fe80:0:0:0::/64')
  t.equal(networkOf('::ffff:192.0.2.1'), '::ffff:192.0.2.1')
  t.equal(networkOf('192.0.2.1'), '192.0.2.1')
  t.equal(networkOf(undefined), '')
  t.equal(networkOf('x'.repeat(500)).length, 64)
  const denials = new Denials(limits, () => 1n)
  t.same(
    [1, 2, 3, 4].map((last) => denials.admit(denied(`2001:db8:1:2::${last}`))),
    [true, true, true, false],
  )
})
