import t from 'tap'
import { ERRORS, type ErrorCode, SvcError } from '../errors/index.ts'
import { isTransient, patiently } from './patience.ts'

/** Fails so often, then succeeds. */
function failing(times: number, error: () => Error) {
  const attempt = async () => {
    if (attempt.calls++ < times) throw error()
    return 'done'
  }
  attempt.calls = 0
  return attempt
}
const full = () => new SvcError('BACKPRESSURE', 'full')

t.test('what time may mend is tried again, all else is final', async (t) => {
  const retried = (Object.keys(ERRORS) as ErrorCode[]).filter((code) => isTransient(new SvcError(code, 'x')))
  t.same(retried.sort(), ['BACKPRESSURE', 'DATABASE_CLOSED', 'OVERLOADED', 'RATE_LIMITED', 'STORAGE_FULL', 'WRITE_TIMEOUT'])
  t.ok(isTransient(Object.assign(new Error('write'), { code: 'ENOSPC' })), 'a full disk, whoever has met it')
  t.notOk(isTransient(new TypeError('a bug')))
  const twice = failing(2, full)
  t.equal(await patiently(twice, { firstPauseMs: 1 }), 'done')
  t.equal(twice.calls, 3)
  const bad = failing(1, () => new SvcError('INVALID_POINT', 'bad'))
  await t.rejects(patiently(bad, { firstPauseMs: 1 }), { code: 'INVALID_POINT' })
  t.equal(bad.calls, 1)
})

t.test('pauses double up to a bound, with a jitter, and follow retry-after', async (t) => {
  const pauses = async (error: () => Error, random: number) => {
    const seen: number[] = []
    const waiting = (_: SvcError, ms: number) => void seen.push(ms)
    await patiently(failing(6, error), { firstPauseMs: 1, maxPauseMs: 8, random: () => random, waiting })
    return seen
  }
  t.same(await pauses(full, 1), [1, 2, 4, 8, 8, 8])
  t.same(await pauses(full, 0), [0.5, 1, 2, 4, 4, 4])
  t.same(await pauses(() => new SvcError('RATE_LIMITED', 'slower', { headers: { 'retry-after': '60' } }), 1), [8, 8, 8, 8, 8, 8])
})

t.test('it ends with the failure it waited for: by its bound, or at once by the signal', async (t) => {
  let now = 0
  const monotonic = () => (now += 10)
  await t.rejects(patiently(failing(Number.POSITIVE_INFINITY, full), { firstPauseMs: 1, maxWaitMs: 35, monotonic }), { code: 'BACKPRESSURE' })
  const stop = new AbortController()
  const patient = patiently(failing(Number.POSITIVE_INFINITY, full), { firstPauseMs: 1e9, maxPauseMs: 1e9, signal: stop.signal, waiting: () => stop.abort() })
  await t.rejects(patient, { code: 'BACKPRESSURE' })
  const stopped = failing(1, full)
  await t.rejects(patiently(stopped, { signal: AbortSignal.abort() }), { code: 'BACKPRESSURE' })
  t.equal(stopped.calls, 1, 'one try all the same')
})
