import t from 'tap'
import { CallMemory, type Holder } from './memory.ts'

function holder(name: string, gone: string[], waits = true): Holder {
  return { waits, giveWay: () => void gone.push(name) }
}

t.test('the holder that has done nothing for longest gives way', async (t) => {
  const gone: string[] = []
  const memory = new CallMemory(100)
  const [a, b, c] = ['a', 'b', 'c'].map((name) => holder(name, gone))
  memory.take(a, 40)
  memory.take(b, 40)
  memory.take(a, 1)
  t.strictSame(gone, [])
  memory.take(c, 30)
  t.strictSame(gone, ['b'])
  t.equal(memory.bytes, 71)
  memory.give(a, 41)
  memory.release(c)
  t.equal(memory.bytes, 0)
})

t.test('one that waits for nobody is left alone, and whoever asks is refused', async (t) => {
  const gone: string[] = []
  const memory = new CallMemory(100)
  const working = holder('working', gone, false)
  const asking = holder('asking', gone)
  memory.take(working, 90)
  memory.take(asking, 20)
  t.strictSame(gone, ['asking'])
  t.equal(memory.bytes, 90)
  memory.give(asking, 20)
  t.equal(memory.bytes, 90, 'what was given back is not given back twice')
})
