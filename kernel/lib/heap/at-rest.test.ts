import { getHeapSpaceStatistics } from 'node:v8'
import t from 'tap'
import { collectAtRest, whenAtRest } from './collect.ts'

/** Bytes that the young generation has taken. */
const young = (): number => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.space_size ?? 0

t.test('buffers that are kept go before a heap at rest is collected, until their owner has ended', async (t) => {
  const calls: string[] = []
  const end = whenAtRest(() => calls.push('first'))
  whenAtRest(() => calls.push('second'))
  collectAtRest()
  t.strictSame(calls, ['first', 'second'])
  end()
  collectAtRest()
  t.strictSame(calls, ['first', 'second', 'second'])
})

t.test('a young generation that has grown is small again', async (t) => {
  let kept: number[][] = []
  for (let round = 0; round < 20; round++) kept = Array.from({ length: 100_000 }, (_, i) => [i, kept.length])
  const grown = young()
  t.ok(grown > 4 << 20, `${grown} bytes after ${kept.length} objects were made again and again`)
  kept = []
  collectAtRest()
  t.ok(young() <= 2 << 20, `${young()} bytes`)
})
