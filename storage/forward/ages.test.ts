/** What forward.max_age_secs drops while the wall clock is set: what has waited for so long, and nothing for its stamp. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { LogDisk } from '../embedded/testing/log-disk.ts'
import { Ages } from './ages.ts'
import { append, filled, type Life, lifeOn, READER, settle, type TestClock } from './testing-queue.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const YEARS = 56 * 365 * DAY

const waiting = (life: Life): number => life.queue.waitingFor(READER).records
function expire(disk: LogDisk, life: Life): void {
  life.queue.expire()
  settle(disk)
  life.queue.expire()
}

t.test('a wall clock that jumps while points wait makes none of them older', async (t) => {
  for (const jump of [YEARS, 2 * DAY, -YEARS]) {
    const disk = new LogDisk(seeded(1))
    const clock: TestClock = { ms: 1000 }
    const life = await filled(disk, 30, { maxAgeMs: DAY }, clock)
    clock.aheadMs = jump
    expire(disk, life)
    t.equal(waiting(life), 30, `${jump} ms`)
    clock.ms += HOUR
    for (let number = 30; number < 60; number++) await disk.run(append(life, number, 2))
    settle(disk)
    clock.ms += DAY - HOUR / 2
    expire(disk, life)
    t.ok(waiting(life) >= 30 && waiting(life) < 40, `${waiting(life)} are left when those of before the jump have waited for a day`)
    clock.ms += HOUR
    expire(disk, life)
    t.equal(waiting(life), 0, 'the others a day after they were taken')
  }
})

t.test('what a start finds has an hour to be sent, however old it is by a clock that may be wrong', async (t) => {
  for (const jump of [YEARS, -YEARS]) {
    const disk = new LogDisk(seeded(2))
    await filled(disk, 30, { maxAgeMs: DAY })
    disk.kill()
    const clock: TestClock = { ms: 500, aheadMs: jump }
    const life = lifeOn(disk, { maxAgeMs: DAY }, clock)
    await disk.run(life.queue.open())
    life.queue.attach(READER, undefined)
    clock.ms += HOUR - 1000
    expire(disk, life)
    t.equal(waiting(life), 30, `${jump} ms`)
    // The clock is put right.
    clock.aheadMs = 0
    clock.ms += (jump > 0 ? 0 : DAY - HOUR) + MINUTE
    expire(disk, life)
    t.equal(waiting(life), 0)
  }
})

t.test('a file of which one record is known to be young is kept', async (t) => {
  const disk = new LogDisk(seeded(3))
  // Right at first, then a start in 1970.
  const right = { ms: 1000, aheadMs: YEARS }
  const first = await filled(disk, 4, { maxAgeMs: DAY }, right)
  await disk.run(first.queue.close())
  const wrong = lifeOn(disk, { maxAgeMs: DAY }, { ms: 10_000 })
  await disk.run(wrong.queue.open())
  await disk.run(append(wrong, 4, 2))
  settle(disk)
  disk.kill()
  const clock: TestClock = { ms: 1000, aheadMs: YEARS + MINUTE }
  const life = lifeOn(disk, { maxAgeMs: DAY }, clock)
  await disk.run(life.queue.open())
  life.queue.attach(READER, undefined)
  clock.ms += 2 * HOUR
  expire(disk, life)
  t.equal(waiting(life), 5, 'the file with the time of 1970 behind it is from minutes ago')
})

t.test('ages of records that were taken back, and of many jumps', async (t) => {
  const time = { wall: 0, monotonic: 0 }
  const ages = new Ages(DAY, { now: () => time.wall, monotonic: () => time.monotonic })
  ages.begin(10)
  const taken = (sequence: number) => {
    const record = { sequence, takenMs: time.wall }
    ages.taken(record)
    return record
  }
  const pass = (ms: number, jump = 0) => {
    time.monotonic += ms
    time.wall += ms + jump
  }
  taken(10)
  pass(HOUR, YEARS)
  const again = taken(10)
  const records = [again]
  for (let n = 11; n < 20; n++) {
    pass(HOUR, n % 2 === 0 ? DAY : -3 * DAY)
    records.push(taken(n))
  }
  pass(15 * HOUR + 1)
  t.same(
    records.map((record) => ages.isTooOld(record)),
    [true, false, false, false, false, false, false, false, false, false],
    'the first is from 24 hours ago, the next from 23',
  )
  pass(HOUR)
  ages.forget(11)
  t.same(
    records.slice(1).map((record) => ages.isTooOld(record)),
    [true, ...Array(8).fill(false)],
  )
  t.notOk(new Ages(0, { now: () => time.wall, monotonic: () => time.monotonic }).isTooOld(again), '0 = none')
})
