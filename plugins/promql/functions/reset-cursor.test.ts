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

t.test('many resets, more than there is room for at first', async (t) => {
  const values = Float64Array.from({ length: 3000 }, (_, i) => (i * 7919) % 13)
  const cursor = new ResetCursor()
  for (const size of [100, 1200]) {
    for (let hi = size; hi <= values.length; hi += 97) {
      cursor.move(size, values, hi - size, hi)
      t.same(held(cursor), resetsIn(values, hi - size, hi), `${size} to ${hi}`)
    }
  }
})

t.test('what resets took away adds up as it does one after the other', async (t) => {
  const series: Record<string, (i: number) => number> = {
    'whole numbers': (i) => (i * 7919) % 13,
    'with decimals': (i) => ((i * 7919) % 13) / 7,
    'with signs and zeros': (i) => ((i * 7919) % 13) - 6,
    'large ones': (i) => ((i * 7919) % 13) * 2 ** (i % 60),
    'now and then not finite': (i) => (i % 50 === 7 ? Number.POSITIVE_INFINITY : (i * 31) % 17),
    'some of each': (i) => (i % 40 < 20 ? (i * 31) % 17 : ((i * 31) % 17) / 3),
  }
  for (const [name, at] of Object.entries(series)) {
    const values = Float64Array.from({ length: 400 }, (_, i) => at(i))
    const cursor = new ResetCursor()
    for (let hi = 10; hi <= values.length; hi++) {
      const lo = hi - 10
      let sum = values[hi - 1] - values[lo]
      for (const place of resetsIn(values, lo, hi)) sum += values[place - 1]
      cursor.move(0, values, lo, hi)
      t.ok(Object.is(cursor.addTo(values[hi - 1] - values[lo]), sum), `${name} to ${hi}`)
    }
  }
})

t.test('a series that lies where the one before did in another block has resets of its own', (t) => {
  const cursor = new ResetCursor()
  cursor.move(0, Float64Array.of(5, 9, 2, 3), 0, 4)
  t.equal(cursor.addTo(0), 9)
  cursor.move(1, Float64Array.of(1, 2, 3, 4), 0, 4)
  t.equal(cursor.addTo(0), 0)
  cursor.move(2, Float64Array.of(1, 2, 1, 4), 0, 4)
  t.equal(cursor.addTo(0), 2)
  t.end()
})
