/** What one endpoint has waiting, while it is read anew, and which of it is sent next. */
import t from 'tap'
import { Ages } from './ages.ts'
import { refOf } from './endpoint.ts'
import type { Endpoint, Waiting } from './outbox.ts'
import { TargetQueue } from './target-queue.ts'

const KEY = 'n/o/1'
const clock = { now: () => 1_700_000_000_000, monotonic: () => 50_000 }
const ages = new Ages(clock, { maxAgeMs: 3_600_000, parkAfterMs: 3_600_000 })

/** As it is in the outbox when the next delivery gets this number. */
const endpoint = (next: number, more: Partial<Endpoint['record']> = {}): Endpoint => ({
  key: KEY,
  ref: refOf(KEY),
  record: { url: 'https://example.com/', defined: 0, next, waiting: 0, bytes: 0, delivered: 0, lost: 0, ...more },
})
const waiting = (seq: number): Waiting => ({ endpoint: KEY, seq, message: `m${seq}`, id: `e${seq}`, at: clock.now(), bytes: 1 })
const numbers = (queue: TargetQueue) => [...queue.items.keys()]

function queueOf(...seqs: number[]): TargetQueue {
  const queue = new TargetQueue(endpoint(10), ages)
  queue.slow = false
  for (const seq of seqs) queue.add(waiting(seq))
  return queue
}

t.test('what is read anew is what waits, in its order; what is under way stays so', async (t) => {
  const queue = queueOf(1, 2, 3)
  const [first, second] = [...queue.items.values()]
  first.busy = true
  second.attempts = 4
  // 3 was taken out elsewhere, and 4 was queued there.
  queue.refresh(endpoint(5), [1, 2, 4].map(waiting))
  t.same(numbers(queue), [1, 2, 4])
  t.equal(queue.items.get(1), first)
  t.equal(queue.items.get(2), second)
})

t.test('what was queued since the endpoint was read stays, and is not there twice', async (t) => {
  const queue = queueOf(5, 6)
  const five = queue.items.get(5)
  // 5 and 6 came after the endpoint was read, 5 and 7 before what waits was.
  queue.refresh(endpoint(5), [4, 5, 7].map(waiting))
  t.same(numbers(queue), [4, 5, 6, 7])
  t.equal(queue.items.get(5), five)
})

t.test('an endpoint that is given another URL, or armed again, is sent to at once', async (t) => {
  for (const [before, after] of [
    [{}, { url: 'https://other.example.com/' }],
    [{ parked: { at: 1, reason: 'gone' } }, {}],
  ]) {
    const queue = new TargetQueue(endpoint(10, before), ages)
    queue.add(waiting(1))
    const [item] = queue.items.values()
    queue.failures = 3
    queue.notBefore = item.notBefore = 60_000
    t.not(queue.next(50_000, 1), item)
    queue.refresh(endpoint(10, { ...after, failing_since: 1 }), [waiting(1)])
    t.equal(queue.next(50_000, 1), item)
  }
})

t.test('the oldest that may be sent goes first, or it is known when the next one may', async (t) => {
  const queue = queueOf(1, 2, 3)
  const [first, second, third] = [...queue.items.values()]
  first.notBefore = 90_000
  second.busy = true
  third.notBefore = 60_000
  t.equal(queue.next(50_000, 4), 60_000)
  t.equal(queue.next(60_000, 4), third)
  t.equal(queue.next(90_000, 4), first)
  queue.notBefore = 70_000
  t.equal(queue.next(60_000, 4), 70_000, 'not before the endpoint itself, whose first waits for longer')
  third.busy = true
  t.equal(queue.next(60_000, 4), 90_000)
  first.busy = true
  t.equal(queue.next(100_000, 4), undefined)
})

t.test('not more than so many at a time, and one where it is slow', async (t) => {
  const queue = queueOf(1, 2, 3)
  queue.inFlight = 1
  t.type(queue.next(50_000, 2), 'object')
  queue.slow = true
  t.equal(queue.next(50_000, 2), undefined)
  queue.slow = false
  queue.inFlight = 2
  t.equal(queue.next(50_000, 2), undefined)
})

t.test('its bytes are those of what waits, whatever is done', async (t) => {
  const queue = queueOf(1, 2, 3)
  const summed = (): number => [...queue.items.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  t.equal(queue.bytes, 3)
  queue.add({ ...waiting(3), bytes: 100 })
  t.equal(queue.bytes, 3, 'it is there already')
  queue.remove(2)
  queue.remove(2)
  t.equal(queue.bytes, 2)
  queue.refresh(endpoint(5), [1, 4].map(waiting))
  t.same([queue.bytes, summed()], [2, 2])
  t.equal(queue.oldest()?.seq, 1)
  queue.remove(1)
  t.equal(queue.oldest()?.seq, 4)
  queue.clear()
  t.same([queue.bytes, queue.oldest()], [0, undefined])
})
