import { setImmediate, setTimeout } from 'node:timers/promises'
import t from 'tap'
import { HeldRows, type RowHold } from './index.ts'

/** For a caller that takes nothing. */
const PATIENCE_MS = 1000
const NEVER = new AbortController().signal

function begun(rows: HeldRows, namespace: string, signal = NEVER): RowHold {
  return rows.begin({ namespace, limit: 100, signal })
}

async function isPending(promise: Promise<unknown> | undefined): Promise<boolean> {
  let pending = promise !== undefined
  promise?.then(
    () => (pending = false),
    () => (pending = false),
  )
  await setImmediate()
  return pending
}

t.test('from half of the limit on, those of a namespace gather one after the other', async (t) => {
  const rows = new HeldRows()
  const [first, second, other] = [begun(rows, 'a'), begun(rows, 'a'), begun(rows, 'b')]
  t.equal(second.has(40), undefined)
  t.equal(first.has(20), undefined, 'the first goes on')
  const turn = second.has(45)
  t.ok(await isPending(turn))
  t.equal(other.has(5), undefined, 'another namespace does not wait')
  first.gathered()
  t.notOk(await isPending(turn), 'it is the first now')
  const third = begun(rows, 'a')
  const last = third.has(1)
  t.ok(await isPending(last))
  first.end()
  second.end()
  t.notOk(await isPending(last), 'and heard at once')
})

t.test('above the limit the namespace that has most gives way: whose caller has taken nothing for longest', async (t) => {
  const rows = new HeldRows()
  const [reading, idle, gathering, other] = [begun(rows, 'a'), begun(rows, 'a'), begun(rows, 'a'), begun(rows, 'b')]
  reading.has(30)
  idle.has(15)
  idle.gathered()
  reading.gathered()
  const stalled = idle.taken(new Promise(() => {}))
  stalled.catch(() => {})
  other.has(40)
  t.equal(gathering.has(10), undefined)
  const room = gathering.has(20)
  t.ok(await isPending(room), 'it waits meanwhile')
  await reading.taken(Promise.resolve())
  await t.rejects(stalled, { code: 'OVERLOADED', message: /queries hold more than 100 bytes of rows, which is what server\.max_held_memory allows/ })
  await room
  await reading.taken(Promise.resolve())
  for (const hold of [reading, idle, gathering, other]) hold.end()
  const [alone, beginning] = [begun(rows, 'c'), begun(rows, 'c')]
  t.equal(alone.has(40), undefined)
  t.equal(beginning.has(5), undefined, 'nothing is left of them')
  beginning.has(0)
  t.equal(alone.has(1000), undefined, 'the only one that holds something stays')
})

t.test('of several whose callers take nothing, it is the one for longest: not one that was taken from meanwhile', async (t) => {
  const rows = new HeldRows()
  const [reading, longest, idle, gathering] = [begun(rows, 'a'), begun(rows, 'a'), begun(rows, 'a'), begun(rows, 'a')]
  for (const hold of [reading, longest, idle]) {
    t.equal(hold.has(25), undefined)
    hold.gathered()
  }
  await reading.taken(Promise.resolve())
  const ended = longest.taken(new Promise(() => {}))
  const other = idle.taken(new Promise(() => {}))
  ended.catch(() => {})
  await setTimeout(PATIENCE_MS + 1)
  t.equal(gathering.has(30), undefined, 'it has made room')
  await t.rejects(ended, { code: 'OVERLOADED' })
  t.ok(await isPending(other), 'the other goes on')
})

t.test('where all gather, the last of the namespace that has most is ended', async (t) => {
  const rows = new HeldRows()
  const [first, last, other] = [begun(rows, 'a'), begun(rows, 'a'), begun(rows, 'b')]
  first.has(30)
  last.has(15)
  other.has(30)
  t.equal(first.has(60), undefined, 'the last one has made room')
  await t.rejects(Promise.resolve(last.has(20)), { code: 'OVERLOADED' })
  t.equal(other.has(31), undefined)
  await t.rejects(Promise.resolve(first.has(80)), { code: 'OVERLOADED' })
  t.equal(other.has(90), undefined)
})

t.test('who waits hears that it is ended', async (t) => {
  const rows = new HeldRows()
  const [first, second, fresh] = [begun(rows, 'a'), begun(rows, 'a'), begun(rows, 'a')]
  first.has(60)
  const turn = second.has(30) as Promise<void>
  t.ok(await isPending(turn))
  t.equal(first.has(75), undefined, 'not one that holds nothing, though it began last')
  await t.rejects(turn, { code: 'OVERLOADED' })
  fresh.end()
})

t.test('who is ended while others hold much hears it, and counts for nothing until it is gone', async (t) => {
  const rows = new HeldRows()
  const [other, greedy] = [begun(rows, 'b'), begun(rows, 'a')]
  other.has(60)
  await t.rejects(Promise.resolve(greedy.has(61)), { code: 'OVERLOADED' })
  const next = begun(rows, 'a')
  t.equal(next.has(10), undefined, 'the next is the first')
  other.end()
  await t.rejects(Promise.resolve(greedy.has(45)), { code: 'OVERLOADED' })
  t.equal(begun(rows, 'a').has(10), undefined)
})

t.test('who waits hears that it is cancelled', async (t) => {
  const rows = new HeldRows()
  const cancel = new AbortController()
  const [first, second] = [begun(rows, ''), begun(rows, '', cancel.signal)]
  first.has(60)
  const turn = second.has(10)
  t.ok(await isPending(turn))
  cancel.abort(new Error('cancelled'))
  t.notOk(await isPending(turn), 'at once')
  await t.rejects(turn as Promise<void>, { message: 'cancelled' })
})

t.test('a scan begins when there is room for what it takes itself, which is counted until it ends', async (t) => {
  const rows = new HeldRows()
  const begin = () => rows.begin({ namespace: 'a', limit: 0, engineLimit: 100, signal: NEVER })
  const scan = {
    bytes: 55,
    async *[Symbol.asyncIterator]() {
      yield 1
    },
  }
  const [first, second] = [begin(), begin()]
  const read = first.chunks(scan, () => 5)
  t.same(await read.next(), { done: false, value: 1 })
  t.equal(first.bytes, 60)
  const waiting = second.chunks(scan, () => 0).next()
  t.ok(await isPending(waiting))
  t.equal(second.bytes, 0, 'it holds nothing meanwhile')
  t.equal((await read.next()).done, true)
  t.equal(first.bytes, 5, 'what the scan has taken is given back')
  first.gathered()
  t.same(await waiting, { done: false, value: 1 })
})

t.test('who says beforehand what it is going to hold is not refused for it: it waits without holding anything', async (t) => {
  const rows = new HeldRows()
  const holds = Array.from({ length: 10 }, () => begun(rows, 'a'))
  const turns = holds.map((hold) => hold.reserve(90))
  t.notOk(await isPending(turns[0]))
  for (const [i, hold] of holds.entries()) {
    await turns[i]
    t.same([hold.bytes, holds[i + 1]?.bytes ?? 0], [90, 0])
    if (i < 9) t.ok(await isPending(turns[i + 1]), 'the next one waits')
    hold.end()
  }
  const [first, other] = [begun(rows, 'a'), begun(rows, 'b')]
  await first.reserve(60)
  await other.reserve(30)
  t.equal(other.bytes, 30, 'another namespace does not wait')
})

t.test('one that has sent something gathers again, and is waited for', async (t) => {
  const rows = new HeldRows()
  const [first, second] = [begun(rows, 'a'), begun(rows, 'a')]
  for (const hold of [first, second]) {
    t.equal(hold.has(30), undefined)
    hold.gathered()
  }
  t.equal(first.has(31), undefined, 'nobody else gathers')
  t.ok(await isPending(second.has(31)))
  first.gathered()
  second.end()
})

t.test('a query that never holds much waits for nobody, and nobody for it', async (t) => {
  const rows = new HeldRows()
  const large = begun(rows, 'a')
  const small = rows.begin({ namespace: 'a', limit: 100, least: 10, signal: NEVER })
  t.equal(small.has(9), undefined)
  t.equal(small.bytes, 0)
  t.equal(large.has(80), undefined)
  t.equal(small.has(9), undefined)
  await small.reserve(9)
  t.ok(await isPending(small.has(10)), 'it is no small one any more')
  large.end()
  t.equal(small.bytes, 10)
  small.has(5)
  t.equal(small.bytes, 0)
})

t.test('work that had to make room while it gathered is done again when there is room; what has been sent is not', async (t) => {
  const rows = new HeldRows()
  const first = begun(rows, 'a')
  first.has(60)
  let rounds = 0
  const done = rows.during({ namespace: 'a', limit: 100, signal: NEVER }, async (hold) => {
    if (++rounds === 1) await hold.has(60)
    return hold.bytes
  })
  t.ok(await isPending(done))
  t.same([rounds, first.over], [1, false], 'it waits, and holds nothing')
  first.end()
  t.equal(await done, 60, 'what it held is kept for it')
  t.equal(rounds, 2)

  const unread = rows.during({ namespace: 'a', limit: 100, signal: NEVER }, async (hold) => {
    rounds++
    await hold.has(60)
    hold.gathered()
    await hold.taken(new Promise(() => {}))
  })
  unread.catch(() => {})
  await setTimeout(PATIENCE_MS + 1)
  const reading = begun(rows, 'a')
  t.equal(reading.has(60), undefined)
  await t.rejects(unread, { code: 'OVERLOADED' })
  t.equal(rounds, 3)
  reading.gathered()

  const cancel = new AbortController()
  const waiting = rows.during({ namespace: 'a', limit: 100, signal: cancel.signal }, async (hold) => hold.has(60))
  t.ok(await isPending(waiting))
  cancel.abort(new Error('cancelled'))
  await t.rejects(waiting, { message: 'cancelled' })
})

t.test('what is no number of bytes does not take the limit of the others away', async (t) => {
  const rows = new HeldRows()
  const [odd, first, second] = [begun(rows, 'a'), begun(rows, 'a'), begun(rows, 'a')]
  for (const bytes of [Number.NaN, Number.POSITIVE_INFINITY]) t.throws(() => odd.has(bytes), RangeError)
  odd.end()
  t.equal(first.has(40), undefined)
  const turn = second.has(20)
  t.ok(await isPending(turn), 'half of it is held')
  first.end()
  await turn
})
