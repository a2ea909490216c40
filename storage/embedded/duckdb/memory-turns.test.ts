import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { MemoryTurns } from './memory-turns.ts'

const WANT = new Error('no memory')

/** What ran, in order, and what runs until it is let go. */
function held(log: string[]): (name: string) => { body: () => Promise<string>; end: () => void } {
  return (name) => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const body = async (): Promise<string> => {
      log.push(`${name} begins`)
      await promise
      log.push(`${name} ends`)
      return name
    }
    return { body, end: resolve }
  }
}

t.test('what finds no memory has it alone, once those beside it have ended, and those that come then wait', async (t) => {
  const turns = new MemoryTurns((error) => error === WANT)
  const log: string[] = []
  const make = held(log)
  const [merge, flush, next] = ['merge', 'flush', 'next'].map(make)
  const merged = turns.beside(merge.body)
  let tries = 0
  const flushed = turns.either(async () => {
    if (tries++ === 0) throw WANT
    return flush.body()
  })
  await pause(1)
  const after = turns.beside(next.body)
  merge.end()
  t.equal(await merged, 'merge')
  await pause(1)
  t.same(log, ['merge begins', 'merge ends', 'flush begins'])
  flush.end()
  next.end()
  t.same(await Promise.all([flushed, after]), ['flush', 'next'])
  t.same(log, ['merge begins', 'merge ends', 'flush begins', 'flush ends', 'next begins', 'next ends'])
})

t.test('several have it one after the other; a failure ends a turn as well, and is the caller’s', async (t) => {
  const turns = new MemoryTurns((error) => error === WANT)
  let [now, most] = [0, 0]
  const body = async (): Promise<void> => {
    most = Math.max(most, ++now)
    await pause(1)
    now--
    throw WANT
  }
  const failed = (running: Promise<void>): Promise<unknown> => t.rejects(running, WANT)
  await Promise.all([failed(turns.alone(body)), failed(turns.alone(body)), failed(turns.beside(body)), failed(turns.alone(body))])
  t.equal(most, 1)
  const other = new Error('another')
  let tries = 0
  await t.rejects(
    turns.either(() => {
      tries++
      return Promise.reject(other)
    }),
    other,
  )
  t.equal(tries, 1, 'what has failed for something else is not done again')
  t.equal(await turns.beside(async () => 1), 1)
})

t.test('who comes while several want it alone waits for all of them', async (t) => {
  const turns = new MemoryTurns((error) => error === WANT)
  const log: string[] = []
  const [first, second, next] = ['first', 'second', 'next'].map(held(log))
  const alone = [turns.alone(first.body)]
  const before = turns.beside(next.body)
  alone.push(turns.alone(second.body))
  first.end()
  await alone[0]
  await pause(1)
  const after = turns.beside(async () => void log.push('after'))
  await pause(1)
  t.same(log, ['first begins', 'first ends', 'second begins'])
  second.end()
  next.end()
  await Promise.all([...alone, before, after])
  t.same(log.slice(3, 4), ['second ends'])
  t.equal(log.length, 7)
})
