/** The warm-up's turn: when the server is idle, once more when there are points, and not after a stop. */
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { WarmUpSchedule } from './warm-up-schedule.ts'

const fail = (error: Error) => {
  throw error
}

async function until(done: () => boolean): Promise<void> {
  while (!done()) await setTimeout(10)
}

t.test('over made-up samples first, and over points when there are some', async (t) => {
  const ran: [number, boolean][] = []
  let points = false
  const run = async (query: number) => {
    ran.push([query, points])
    return points
  }
  const schedule = new WarmUpSchedule(3, run, fail)
  schedule.start(0)
  await until(() => ran.length >= 4)
  t.same(
    ran.slice(0, 4).map(([query]) => query),
    [0, 1, 2, 0],
    'a round, then looks whether there are points',
  )
  points = true
  await until(() => ran.filter(([, stored]) => stored).length >= 4)
  t.same(
    ran.filter(([, stored]) => stored).map(([query]) => query),
    [0, 0, 1, 2],
  )
  await setTimeout(300)
  t.equal(ran.filter(([, stored]) => stored).length, 4, 'and that is all')
})

t.test('with points from the start there is one round', async (t) => {
  const ran: number[] = []
  const schedule = new WarmUpSchedule(2, async (query) => ran.push(query) > 0, fail)
  schedule.start(0)
  await until(() => ran.length >= 2)
  await setTimeout(300)
  t.same(ran, [0, 1])
})

t.test('a busy server is left alone', async (t) => {
  let queries = 0
  const schedule = new WarmUpSchedule(1, async () => ++queries > 0, fail)
  schedule.start(0)
  const end = performance.now() + 1000
  while (performance.now() < end) {
    const busy = performance.now() + 20
    while (performance.now() < busy);
    await setTimeout(0)
  }
  t.equal(queries, 0)
  await until(() => queries === 1)
})

t.test('it ends when the server stops, and with what fails', async (t) => {
  let queries = 0
  const stopped = new WarmUpSchedule(1000, async () => ++queries < 0, fail)
  stopped.start(0)
  await until(() => queries > 10)
  stopped.stop()
  const at = queries
  await setTimeout(100)
  t.ok(queries <= at + 1)
  const failures: Error[] = []
  const failing = new WarmUpSchedule(
    1,
    () => Promise.reject(new Error('gone')),
    (error) => failures.push(error),
  )
  failing.start(0)
  await until(() => failures.length === 1)
  t.equal(failures[0].message, 'gone')
})
