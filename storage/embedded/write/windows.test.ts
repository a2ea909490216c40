import t from 'tap'
import { limitsOf } from '../../common/limits.ts'
import { highHalf, INT64_MIN, later, lowHalf } from '../../common/time.ts'
import { Windows } from './windows.ts'

t.test('the newest time is that of all namespaces, whatever comes, fails and goes', async (t) => {
  const windows = new Windows(limitsOf({}))
  t.equal(windows.newest, INT64_MIN)
  const held = new Map<string, bigint>()
  let state = 1
  const below = (most: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * most)
  }
  for (let i = 0; i < 3000; i++) {
    const name = `n${below(6)}`
    const time = BigInt(below(20)) * 10n ** 17n
    const window = windows.of(name)
    const kind = below(5)
    if (kind === 0) {
      windows.forget(name)
      held.delete(name)
    } else if (kind === 1) {
      // A write that has failed takes its window back.
      window.newest = below(2) === 0 ? undefined : time
      if (window.newest === undefined) held.delete(name)
      else held.set(name, time)
    } else {
      window.advance(lowHalf(time), highHalf(time))
      held.set(name, later(held.get(name) ?? INT64_MIN, time))
    }
    const expected = [...held.values()].reduce(later, INT64_MIN)
    if (below(3) > 0 && windows.newest !== expected) return t.equal(windows.newest, expected, `step ${i}`)
    if (below(9) === 0) windows.forgetEmpty(name)
  }
  t.ok(held.size > 0)
})

t.test('what each write asks for costs the same with many namespaces', async (t) => {
  const [few, many] = [1, 100_000].map((count) => {
    const windows = new Windows(limitsOf({}))
    for (let i = 0; i < count; i++) windows.of(`n${i}`).advance(i, 1)
    const ask = (): number => {
      const began = performance.now()
      for (let i = 0; i < 100; i++) {
        windows.of('n0').advance(i, 2)
        windows.newest
      }
      return performance.now() - began
    }
    return Math.min(...Array.from({ length: 10 }, ask))
  })
  // Going through all would take a second.
  t.ok(many < few + 50, `${many} ms, and ${few} with one`)
})
