import t from 'tap'
import { earlier, later } from '../../common/time.ts'
import { Random } from '../../conformance/random.ts'
import { MaskedRows } from './mask-sql.ts'
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
