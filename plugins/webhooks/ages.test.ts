import { ManualClock } from 'svcdb/testkit'
import t from 'tap'
import { Ages } from './ages.ts'

const HOUR = 3_600_000

t.test('what waits in a process is as old as the process has seen it', async (t) => {
  const clock = new ManualClock()
  const ages = new Ages(clock, { maxAgeMs: 72 * HOUR, parkAfterMs: 120 * HOUR })
  const [item, failure] = [ages.waitingFrom(clock.now()), ages.failingFrom(clock.now())]
  clock.skip(72 * HOUR - 1)
  t.equal(ages.isTooOld(item), false)
  clock.skip(1)
  t.equal(ages.isTooOld(item), true)
  t.equal(ages.failsTooLong(failure), false)
  clock.skip(48 * HOUR)
  t.equal(ages.failsTooLong(failure), true)
})

t.test('what was kept by another process has its age, and an hour left or half of the limit', async (t) => {
  const clock = new ManualClock()
  const left = (limit: number, age: number): number => {
    const ages = new Ages(clock, { maxAgeMs: limit, parkAfterMs: 2 * limit })
    return limit - (clock.monotonic() - ages.waitingFrom(clock.now() - age))
  }
  t.equal(left(72 * HOUR, 30 * HOUR), 42 * HOUR)
  t.equal(left(72 * HOUR, 500 * HOUR), HOUR)
  t.equal(left(HOUR, 500 * HOUR), HOUR / 2)
  t.equal(left(72 * HOUR, -500 * HOUR), 72 * HOUR, 'of a clock that ran ahead')
})
