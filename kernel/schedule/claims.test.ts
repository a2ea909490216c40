/** A schedule over the claims of its work, as they come and go. */
import t from 'tap'
import type { Claim } from '../cluster/claim.ts'
import { ManualClock } from '../testkit/index.ts'
import { Timetable, type Turns } from './schedule.ts'

const MINUTE = 60_000

t.test('a run that does not end with its claim does not take away the next one', async (t) => {
  const clock = new ManualClock()
  let own!: (claim: Claim) => Promise<void>
  let number = 0
  const turns: Turns = {
    want(given) {
      own = given
      return async () => {}
    },
    begin: async () => ({ number: ++number }),
    end: async () => true,
    dueIn: async () => 0,
  }
  const begun: number[] = []
  const hangs = Promise.withResolvers<void>()
  const log = { info() {}, warn() {}, error() {} }
  const schedule = new Timetable({
    plugin: 'worker',
    name: 'tick',
    every: MINUTE,
    job: ({ token }) => {
      begun.push(token)
      return begun.length === 1 ? hangs.promise : undefined
    },
    options: { jitter: 0 },
    clock,
    log: log as never,
    metrics: { ran() {} },
    stopping: new AbortController().signal,
    graceMs: 1000,
    turns: () => turns,
  })
  t.teardown(() => schedule.stop())
  await schedule.start()
  const claim = (token: number) => {
    const over = new AbortController()
    const given = { work: 'worker/tick', token, signal: over.signal, remainingMs: () => MINUTE, guard: async () => {} } as unknown as Claim
    return { over, ended: own(given) }
  }
  const first = claim(1)
  await clock.advance(1)
  t.same(begun, [1])
  first.over.abort()
  // The node waits for it no longer, and has the work once more.
  const second = claim(2)
  await clock.advance(1)
  hangs.resolve()
  await first.ended
  await clock.advance(3 * MINUTE)
  t.ok(begun.length >= 4, `${begun}`)
  t.same(new Set(begun.slice(1)), new Set([2]))
  t.equal(schedule.status.elsewhere, false)
  second.over.abort()
  await second.ended
  await clock.advance(3 * MINUTE)
  t.equal(schedule.status.elsewhere, true)
})
