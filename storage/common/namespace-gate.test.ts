/** What one namespace may have of what all have together: at the bound, one below it, and where there is nobody to leave anything to. */
import type { NamespaceGuard } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { leavesTooLittle } from './fair-share.ts'
import { NamespaceGate } from './namespace-gate.ts'

const LIMITS = { maxSeriesCardinality: 16, maxFields: 16 }
/** Three quarters of both. */
const SHARE = 12

/** @param free a namespace without bounds. */
function gateOf({ maxSeries = 0, maxMeasurements = 0, free = 'free' } = {}): NamespaceGate {
  const gate = new NamespaceGate(LIMITS)
  gate.guard = {
    refusal: (data) => (data === 'going' ? new SvcError('NOT_FOUND', 'it goes') : undefined),
    bounds: (data) => (data === free ? undefined : { maxSeries, maxMeasurements }),
    exceeded: (data, kind) => new SvcError('RATE_LIMITED', `${kind} of ${data}`),
  } satisfies NamespaceGuard
  return gate
}

t.test('a namespace with bounds has three quarters of the series, and what it may have of its own', async (t) => {
  const gate = gateOf()
  gate.requireRoom('a', 'series', SHARE - 1)
  t.throws(() => gate.requireRoom('a', 'series', SHARE), {
    code: 'CARDINALITY_EXCEEDED',
    message: /namespace "a": one namespace has at most three quarters, 12, of \[database\] max_series_cardinality = 16;/,
  })
  gate.requireRoom('', 'series', LIMITS.maxSeriesCardinality)
  gate.requireRoom('free', 'series', LIMITS.maxSeriesCardinality)
  gate.requireRoom('a', 'measurements', 1000)
  new NamespaceGate(LIMITS).requireRoom('a', 'series', LIMITS.maxSeriesCardinality)

  const bounded = gateOf({ maxSeries: 3, maxMeasurements: 2 })
  for (const [kind, most] of [
    ['series', 3],
    ['measurements', 2],
  ] as const) {
    bounded.requireRoom('', kind, most - 1)
    for (const namespace of ['', 'a']) t.throws(() => bounded.requireRoom(namespace, kind, most), { code: 'RATE_LIMITED', message: `${kind} of ${namespace}` })
    bounded.requireRoom('free', kind, most)
  }
})

t.test('fields that are left: of all, and of three quarters for a namespace with bounds', async (t) => {
  const gate = gateOf()
  for (const [namespace, own, all, left] of [
    ['a', 0, 0, SHARE],
    ['a', SHARE - 1, SHARE - 1, 1],
    ['a', SHARE, SHARE, 0],
    ['a', 2, 15, 1],
    // Limits that were lowered.
    ['a', SHARE + 1, SHARE + 1, 0],
    ['a', 2, 17, 0],
    ['', SHARE, SHARE, 4],
    ['free', SHARE, SHARE, 4],
  ] as const)
    t.equal(gate.fieldsLeft(namespace, own, all), left, `"${namespace}" with ${own} of ${all}`)
  t.equal(new NamespaceGate(LIMITS).fieldsLeft('a', SHARE, SHARE), 4)
  t.equal(new NamespaceGate().fieldsLeft('a', 1e6, 1e7), Number.POSITIVE_INFINITY)
  const m = { namespace: 'a', name: 'm' }
  t.match(gate.noFieldLeft(m, 'f', SHARE, SHARE).message, /^cannot add field "f" to measurement "m": namespace "a" has 12 fields, .* three quarters, 12,/)
  t.match(gate.noFieldLeft(m, 'f', 2, 16).message, /: all measurements together have 16 fields of at most \[database\] max_fields = 16;/)
})

t.test('a namespace that is not to be written to is refused', async (t) => {
  const gate = gateOf()
  gate.requireOpen('a')
  t.throws(() => gate.requireOpen('going'), { code: 'NOT_FOUND' })
})

t.test('of shared memory a namespace has three times what is left, and the only one all of it', async (t) => {
  t.equal(leavesTooLittle('a', 75, 25), false)
  t.equal(leavesTooLittle('a', 76, 25), true)
  t.equal(leavesTooLittle('a', 1, 0), true)
  t.equal(leavesTooLittle('a', 0, 0), false)
  t.equal(leavesTooLittle('', 100, 0), false)
})
