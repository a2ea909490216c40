import t from 'tap'
import { ResetCursor } from './reset-cursor.ts'

const resetsIn = (values: Float64Array, lo: number, hi: number): number[] => {
  const out: number[] = []
  for (let i = lo + 1; i < hi; i++) if (values[i] < values[i - 1]) out.push(i)
  return out
}
const held = ({ places, first, end }: ResetCursor): number[] => [...places.subarray(first, end)]

t.test('windows that move on, jump and begin again', async (t) => {
  const values = Float64Array.from({ length: 400 }, (_, i) => ((i * 7919) % 13) + (i % 5 === 0 ? NaN : 0))
  const cursor = new ResetCursor()
  for (const [series, size, step] of [
    [0, 10, 1],
    [1, 3, 7],
    [2, 100, 13],
    [2, 100, 13],
    [3, 1, 1],
    [4, 399, 1],
  ]) {
    for (let hi = size; hi <= values.length; hi += step) {
      cursor.move(series, values, hi - size, hi)
      t.same(held(cursor), resetsIn(values, hi - size, hi), `series ${series} to ${hi}`)
    }
  }
})

t.test('a window may grow at one end, and shrink at the other', async (t) => {
  const values = Float64Array.of(5, 4, 3, 2, 1, 0)
  const cursor = new ResetCursor()
  for (const [lo, hi] of [
    [0, 1],
    [0, 4],
    [0, 6],
    [3, 6],
    [5, 6],
    [0, 6],
    [1, 2],
  ]) {
    cursor.move(7, values, lo, hi)
    t.same(held(cursor), resetsIn(values, lo, hi))
  }
})
