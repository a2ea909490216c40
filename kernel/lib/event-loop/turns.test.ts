import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { atOnce, inTurns, nextTurn, OneByOne, ownedBy, Turn, turnToBegin, type Work } from './turns.ts'

/** Holds the loop for about so many milliseconds, a millisecond between two places to interrupt it. */
function* busy<T>(ms: number, result: T, log: string[] = [], done = () => {}): Work<T> {
  try {
    for (let i = 0; i < ms; i++) {
      const until = performance.now() + 1
      while (performance.now() < until);
      log.push(String(result))
      yield
    }
    return result
  } finally {
    done()
  }
}

t.test('what is short is done at once, what is long lets others have turns', async (t) => {
  t.ok(await atOnceOnce(() => inTurns(brief('short'))))
  t.equal(atOnce(busy(30, 'whole')), 'whole')
  let turns = 0
  let over = false
  const others = (async () => {
    for (; !over; turns++) await turn()
  })()
  t.equal(await inTurns(busy(60, 'long')), 'long')
  over = true
  await others
  t.ok(turns >= 3, `${turns} turns`)
})

t.test('of several that are long, one goes on in a turn, each in its order', async (t) => {
  const log: string[] = []
  await Promise.all(['a', 'b', 'c'].map((name) => inTurns(busy(40, name, log))))
  const order = log.filter((name, i) => name !== log[i - 1]).join('')
  t.match(order, /^abcabc/)
})

t.test('many short ones that come together hold the loop no longer than a long one', async (t) => {
  let turns = 0
  let over = false
  const others = (async () => {
    for (; !over; turns++) await turn()
  })()
  const begun: number[] = []
  const work = function* (i: number): Work<number> {
    begun.push(i)
    yield
    const until = performance.now() + 2
    while (performance.now() < until);
    return turns
  }
  const ends = await Promise.all(Array.from({ length: 40 }, (_, i) => inTurns(work(i))))
  over = true
  await others
  const most = Math.max(...ends.map((end) => ends.filter((other) => other === end).length))
  t.ok(most <= 10, `${most} of 40 in one turn`)
  // One that the system interrupts where it yields takes another turn, and ends later.
  t.same(
    begun,
    ends.map((_, i) => i),
    'as they came',
  )
})

t.test('short ones one after the other have a turn together, beside what always waits', async (t) => {
  let slices = 0
  let over = false
  const always = (async () => {
    for (; !over; slices++) await nextTurn()
  })()
  const short = function* (): Work<void> {
    yield
    const until = performance.now() + 0.1
    while (performance.now() < until);
  }
  for (let i = 0; i < 500; i++) await inTurns(short())
  over = true
  await always
  t.ok(slices < 100, `${slices} slices beside 500`)
})

t.test('owners take turns, through whatever their work waits for', async (t) => {
  const log: string[] = []
  const work = async (name: string) => {
    for (let i = 0; i < 3; i++) {
      await nextTurn()
      log.push(name)
      await Promise.resolve()
    }
  }
  await Promise.all(['a1', 'a2', 'a3', 'b1'].map((name) => ownedBy(name[0], () => work(name))))
  t.same(log, ['a1', 'b1', 'a2', 'b1', 'a3', 'b1', 'a1', 'a2', 'a3', 'a1', 'a2', 'a3'])
})

/** Holds the loop for so many milliseconds of processor time, however many others want the processor. */
const hold = (ms: number): void => {
  const before = process.threadCpuUsage()
  for (let used = 0; used < ms * 1000; ) {
    const { user, system } = process.threadCpuUsage(before)
    used = user + system
  }
}

t.test('whoever holds the loop for much longer than a turn rests while others have work under way', async (t) => {
  let held = 0
  let over = false
  const long = async () => {
    await turnToBegin()
    while (!over) {
      hold(40)
      held++
      await nextTurn()
    }
  }
  const holders = [1, 2, 3].map(() => ownedBy('long', long))
  while (held < 3) await turn()
  const before = held
  await ownedBy('often', async () => {
    for (let i = 0; i < 20; i++) await turn()
  })
  t.ok(held - before <= 6, `held ${held - before} times beside 20`)
  const alone = held
  for (let i = 0; i < 10; i++) await turn()
  t.ok(held - alone >= 8, `held ${held - alone} times in 10 turns of the loop when there was nobody else`)
  over = true
  await Promise.all(holders)
})

t.test('a rest ends with the work of the others, and does not hold up those who come', async (t) => {
  const other = Promise.withResolvers<void>()
  const beside = ownedBy('other', () => other.promise)
  let resumed = false
  const resting = ownedBy('long', async () => {
    await nextTurn()
    hold(1000)
    await nextTurn()
    resumed = true
  })
  for (let i = 0; i < 5; i++) await turn()
  t.notOk(resumed)
  await ownedBy('third', () => nextTurn())
  t.notOk(resumed, 'another has its turn meanwhile')
  other.resolve()
  await beside
  for (let i = 0; i < 5; i++) await turn()
  t.ok(resumed)
  await resting
})

t.test('a turn that is over is waited for, and ends with its signal', async (t) => {
  const end = new AbortController()
  const turn = new Turn(end.signal)
  t.notOk(turn.isOver)
  const until = performance.now() + 20
  while (performance.now() < until);
  t.ok(turn.isOver)
  await turn.next()
  t.notOk(turn.isOver)
  end.abort(new Error('enough'))
  await t.rejects(turn.next(), { message: 'enough' })
})

t.test('work that nobody waits for is given up, and cleans up', async (t) => {
  await turn()
  let cleaned = false
  const work = busy(1000, 'x', [], () => {
    cleaned = true
  })
  await t.rejects(Promise.resolve(inTurns(work, () => new Error('gone'))), { message: 'gone' })
  t.ok(cleaned)
})

t.test('one by one: in order of arrival, also after a failure', async (t) => {
  const turns = new OneByOne()
  const log: string[] = []
  const failing = function* (): Work<string> {
    yield
    throw new Error('bad')
  }
  const results = [
    turns.run(() => busy(30, 'a', log)),
    turns.run(() => busy(2, 'b', log)),
    turns.run(failing),
    turns.run(
      () => busy(2, 'c', log),
      () => new Error('left'),
    ),
    turns.run(() => busy(2, 'd', log)),
  ]
  const settled = await Promise.allSettled(results)
  t.same(
    settled.map((each) => (each.status === 'fulfilled' ? each.value : (each.reason as Error).message)),
    ['a', 'b', 'bad', 'left', 'd'],
  )
  t.equal(log.join(''), `${'a'.repeat(30)}bbdd`)
  t.ok(await atOnceOnce(() => turns.run(() => brief('e'))), 'at once again')
})

function* brief(result: string): Work<string> {
  yield
  return result
}

/** Whether it is done at once, in one of some tries: a turn in which the machine stands still is over when it goes on. */
async function atOnceOnce(run: () => string | Promise<string>): Promise<boolean> {
  for (let i = 0; i < 5; i++) {
    const result = run()
    if (!(result instanceof Promise)) return true
    await result
    // What comes next is told a moment later that it is done.
    await turn()
  }
  return false
}
