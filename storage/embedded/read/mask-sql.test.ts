import t from 'tap'
import { earlier, later } from '../../common/time.ts'
import { Random } from '../../conformance/random.ts'
import { MaskedRows, maskBounds } from './mask-sql.ts'
import type { Mask } from './masks.ts'

const MIN = -(2n ** 63n)
const MAX = 2n ** 63n - 1n
const EDGES = [MIN, MIN + 1n, -(2n ** 32n) - 1n, -(2n ** 32n), -1n, 0n, 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n + 1n, MAX - 1n, MAX]

t.test('rows are masked as their conditions say, at the ends of time and where halves turn over too', async (t) => {
  const random = new Random(7)
  const entry = (): Mask => {
    const [a, b] = [random.pick(EDGES), random.pick(EDGES)]
    const series = random.chance(0.3) ? undefined : Int32Array.from({ length: 10 }, (_, i) => i).filter(() => random.chance(0.3))
    return { measurements: undefined, series, lo: earlier(a, b), hi: later(a, b) }
  }
  const rows = EDGES.flatMap((time) => Array.from({ length: 11 }, (_, series) => ({ time, series })))
  const series = Int32Array.from(rows, (row) => row.series)
  const time = new Int32Array(BigInt64Array.from(rows, (row) => row.time).buffer)
  for (let round = 0; round < 200; round++) {
    const masks = Array.from({ length: random.below(4) }, entry)
    const out = new Uint8Array(rows.length)
    new MaskedRows(masks).mark(series, time, rows.length, out)
    const expected = rows.map((row) => masks.some((one) => row.time >= one.lo && row.time <= one.hi && one.series?.includes(row.series) !== false))
    if (!expected.every((value, i) => value === (out[i] === 1))) t.same([...out].map(Boolean), expected, JSON.stringify({ round }))
  }
  t.pass()
})

t.test('bounds hold all that is masked, and are few', async (t) => {
  const random = new Random(8)
  for (let round = 0; round < 300; round++) {
    const masks = Array.from({ length: 1 + random.below(60) }, (): Mask => {
      const lo = BigInt(random.below(100_000))
      const size = random.pick([1, 3, 40])
      const series = random.chance(0.1) ? undefined : Int32Array.from({ length: size }, (_, i) => i * 50 + random.below(50))
      return { measurements: undefined, series, lo, hi: lo + BigInt(random.below(random.pick([10, 5000]))) }
    })
    const bounds = maskBounds(masks)
    t.ok(bounds.length <= 17 && bounds.every(({ series }) => series === undefined || series.length <= 32))
    const within = (series: number, time: bigint): boolean => bounds.some((one) => time >= one.lo && time <= one.hi && one.series?.includes(series) !== false)
    for (const { series, lo, hi } of masks)
      for (const number of series ?? [0, 7, 5000])
        for (const time of [lo, (lo + hi) / 2n, hi]) if (!within(number, time)) t.fail(`series ${number} at ${time} is outside, round ${round}`)
  }
})

t.test('rows of mixed series are masked as those in order', async (t) => {
  const masks: Mask[] = [
    { measurements: undefined, series: Int32Array.of(1, 3), lo: 5n, hi: 9n },
    { measurements: undefined, series: Int32Array.of(3), lo: 12n, hi: 12n },
  ]
  const series = Int32Array.of(1, 3, 3, 1, 2, 3)
  const time = new Int32Array(BigInt64Array.of(5n, 12n, 11n, 12n, 7n, 9n).buffer)
  const out = new Uint8Array(6)
  new MaskedRows(masks).mark(series, time, 6, out)
  t.same([...out], [1, 1, 0, 0, 0, 1])
})
