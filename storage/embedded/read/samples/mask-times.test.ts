import t from 'tap'
import { blockMasks, unmaskedRuns } from './mask-times.ts'
import { Packer } from './packed-block.ts'

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

t.test('of a packed block, whose times are whole milliseconds, the same is masked as of one that is not', (t) => {
  const START = 1_700_000_000_000
  const times = Float64Array.from({ length: 256 }, (_, i) => START + i)
  const block = {
    series: Int32Array.of(7),
    starts: Int32Array.of(0, 256),
    times,
    values: new Int32Array(256),
    divisor: 1,
    minTime: START,
    maxTime: START + 255,
  }
  const packed = new Packer().pack(block)
  if (packed === undefined) return void t.fail('it is not packed')
  const at = (i: number): bigint => BigInt(START + i) * MS
  for (const [lo, hi, first, after] of [
    [at(10), at(20), 10, 21],
    [at(10) + 1n, at(20), 11, 21],
    [at(10), at(20) - 1n, 10, 20],
    [at(10) - 1n, at(20) + 1n, 10, 21],
  ] as const) {
    const masks = blockMasks([{ measurements: undefined, series: undefined, lo, hi }], at(0), at(255))
    for (const one of [block, packed]) {
      const out: number[] = []
      unmaskedRuns(masks, 7, one, 0, 256, out)
      t.same(out, [0, first, after, 256], `${lo} to ${hi}`)
    }
  }
  t.end()
})
