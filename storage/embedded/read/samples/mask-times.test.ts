import t from 'tap'
import { blockMasks, unmaskedRuns } from './mask-times.ts'

const MS = 1_000_000n

t.test('masks are exact to the nanosecond, also before 1970', (t) => {
  // Every half millisecond from -3 ms on, to 2.5 ms.
  const nanoseconds = Array.from({ length: 12 }, (_, i) => (BigInt(i) * MS) / 2n - 3n * MS)
  const times = Float64Array.from(nanoseconds, (time) => Math.floor(Number(time) / 1e6))
  const rests = Int32Array.from(nanoseconds, (time, i) => Number(time) - times[i] * 1e6)
  const left = (lo: bigint, hi: bigint): bigint[] => {
    const out: number[] = []
    const masks = blockMasks([{ measurements: undefined, series: undefined, lo, hi }], nanoseconds[0], nanoseconds[11])
    const parts = unmaskedRuns(masks, 0, { times, rests }, 0, 12, out)
    return Array.from({ length: parts }, (_, part) => nanoseconds.slice(out[part * 2], out[part * 2 + 1])).flat()
  }
  for (const lo of nanoseconds)
    for (const hi of nanoseconds)
      for (const [from, to] of [
        [lo, hi],
        [lo + 1n, hi],
        [lo, hi - 1n],
        [lo - 1n, hi + 1n],
      ])
        if (from <= to)
          t.same(
            left(from, to),
            nanoseconds.filter((time) => time < from || time > to),
            `${from} to ${to}`,
          )
  t.end()
})
