/** Whose turn it is among parked namespaces, and how often they are tried. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { isProbed, Parked } from './parked.ts'
import type { QueuePosition } from './sender-positions.ts'

const place = (sequence: number): QueuePosition => ({ file: 1, offset: 8 + sequence, sequence, points: sequence })
const MOST = 1000
const refusal = { error: 'no', mend: true, retryAfterMs: 0 }

t.test('turns go to the lowest place and to the one that has waited longest, one after the other', async (t) => {
  const parked = new Parked(1000, MOST)
  for (const [i, name] of ['a', 'b', 'c'].entries()) parked.park(name, place(i))
  const turns = Array.from({ length: 8 }, () => parked.next(0)?.namespace)
  t.same(turns, ['a', 'b', 'a', 'c', 'a', 'b', 'a', 'c'])
})

t.test('one that was refused is due after a pause that doubles, heeds what the upstream asks for, and is not longer than it may be', async (t) => {
  const parked = new Parked(60_000, MOST, () => 1)
  const member = parked.park('a', place(0))
  let now = 0
  const pauses = Array.from({ length: 9 }, () => {
    parked.refused(member, refusal, now)
    t.equal(parked.next(now), undefined)
    const pause = parked.dueIn(now)
    now += pause
    t.equal(parked.next(now), member)
    return pause
  })
  t.same(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000])
  parked.flows(member)
  parked.refused(member, { ...refusal, retryAfterMs: 7000 }, now)
  t.equal(parked.dueIn(now), 7000)
})

t.test('what was mended for one is tried for all at once', async (t) => {
  const parked = new Parked(60_000, MOST)
  const [one, other] = ['a', 'b'].map((name) => parked.park(name, place(0)))
  for (let i = 0; i < 5; i++) for (const member of [one, other]) parked.refused(member, refusal, 1000)
  t.ok(parked.dueIn(1000) > 0)
  one.dueMs = 1000
  parked.flows(one)
  t.equal(other.dueMs, 1000)
  for (const member of [one, other]) parked.refused(member, { ...refusal, mend: false }, 1000)
  one.dueMs = 1000
  parked.flows(one)
  t.ok(other.dueMs > 1000, 'of what was throttled each waits as long as it was told to')
})

t.test('what is refused for long is tried with one point, what is throttled is not at once', async (t) => {
  const parked = new Parked(60_000, MOST)
  const member = parked.park('a', place(0))
  t.notOk(isProbed(member))
  const probed = (mend: boolean): boolean[] =>
    Array.from({ length: 3 }, () => {
      parked.refused(member, { ...refusal, mend }, 0)
      return isProbed(member)
    })
  t.same(probed(false), [false, false, true])
  parked.flows(member)
  t.same(probed(true), [true, true, true])
})

t.test('however many are refused, they are tried some times a second all together', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.comment(`seed ${seed}`)
  const parked = new Parked(60_000, MOST, seeded(seed))
  for (let i = 0; i < MOST; i++) parked.refused(parked.park(`n${i}`, place(i)), refusal, 0)
  let tries = 0
  for (let now = 0; now < 1_200_000; ) {
    const member = parked.next(now)
    if (member === undefined) now += Math.max(1, parked.dueIn(now))
    else {
      parked.refused(member, refusal, now)
      tries++
    }
  }
  t.ok(tries / 1200 > 2 && tries / 1200 < 8, `${tries} tries in twenty minutes`)
})

t.test('of namespaces that nobody knows so many are parked, of those that were taken from before all', async (t) => {
  const parked = new Parked(60_000, MOST)
  parked.taken('known')
  for (let i = 0; i < MOST; i++) {
    if (!parked.hasRoom(`n${i}`)) t.fail(`n${i} has no room`)
    parked.park(`n${i}`, place(i))
  }
  t.notOk(parked.hasRoom('another'))
  t.ok(parked.hasRoom('known'))
  for (let i = 0; i < 10_000; i++) parked.taken(`m${i}`)
  t.notOk(parked.hasRoom('known'), 'so many names are remembered')
})

t.test('those that have come up to the main lane are parked no more', async (t) => {
  const parked = new Parked(1000, MOST)
  for (const [i, name] of ['a', 'b', 'c'].entries()) parked.park(name, place(i))
  t.same(parked.from, place(0))
  parked.join(place(2))
  t.same([parked.has('a'), parked.has('b'), parked.has('c'), parked.size], [true, true, false, 2])
  parked.join(place(0))
  t.same([parked.size, parked.from, parked.dueIn(0)], [0, undefined, Number.POSITIVE_INFINITY])
})
