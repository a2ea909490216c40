import t from 'tap'
import { ManualClock } from '../../testkit/index.ts'
import { drainTime } from './drain.ts'

const server = { shutdown_timeout_secs: 10 }

t.test('drains that come one after the other have four fifths of the limit together, from the begin of the stop', async (t) => {
  const clock = new ManualClock()
  clock.skip(100_000)
  const stop = new AbortController()
  const left = drainTime({ clock, server, stopping: stop.signal })
  t.equal(left(5000), 5000)
  stop.abort()
  t.equal(left(5000), 5000)
  t.equal(left(60_000), 8000)
  clock.skip(2999)
  t.equal(left(5000), 5000)
  clock.skip(4501)
  t.equal(left(5000), 500, 'those in flight have taken three quarters')
  t.equal(left(200), 200)
  clock.skip(500)
  t.equal(left(5000), 0)
  clock.skip(60_000)
  t.equal(left(5000), 0)
})

t.test('made while the node stops, it counts from then on', async (t) => {
  const clock = new ManualClock()
  const left = drainTime({ clock, server, stopping: AbortSignal.abort() })
  clock.skip(7000)
  t.equal(left(5000), 1000)
})
