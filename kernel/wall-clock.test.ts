import t from 'tap'
import { systemClock } from './plugin.ts'
import { wallClock } from './wall-clock.ts'

const MS = 1_000_000n

t.test('the clock of the system gives no time twice, and later calls later times', async (t) => {
  const before = BigInt(Date.now()) * MS
  const times = Array.from({ length: 100_000 }, () => systemClock.nowNanos())
  const after = BigInt(Date.now() + 1) * MS
  t.ok(times.every((time, i) => i === 0 || time > (times[i - 1] as bigint)))
  t.ok((times[0] as bigint) >= before)
  t.ok((times.at(-1) as bigint) < after, 'and it does not run ahead')
})

t.test('what lies within a millisecond is read off the monotonic clock', async (t) => {
  let now = 1000
  let running = 5.75
  const clock = wallClock(
    () => now,
    () => running,
  )
  t.equal(clock(), 1000n * MS, 'where in its millisecond the wall clock is, is not known yet')
  running += 0.5
  t.equal(clock(), 1000n * MS + 500_000n)
  t.equal(clock(), 1000n * MS + 500_001n, 'a call at the same moment')
  now += 1
  running += 0.25
  t.equal(clock(), 1001n * MS, 'the next millisecond has come earlier than expected: it has just begun')
  running += 0.875
  t.equal(clock(), 1001n * MS + 875_000n)
  running += 0.5
  t.equal(clock(), 1001n * MS + 875_001n, 'and does not go past its end')
  running += 1
  t.equal(clock(), 1001n * MS + 875_002n, 'nor right to it')
})

t.test('a clock that is put back', async (t) => {
  let now = 10_000
  const clock = wallClock(
    () => now,
    () => 0,
  )
  t.equal(clock(), 10_000n * MS)
  now -= 999
  t.equal(clock(), 10_000n * MS + 1n, 'by less than a second: times count on until it is there again')
  now += 999 + 1
  t.equal(clock(), 10_001n * MS)
  now -= 1001
  t.equal(clock(), 9000n * MS, 'by more: it is followed')
  now -= 1000
  t.equal(clock(), 8000n * MS, 'and by just a second')
})
