/** Quantiles against sorted values, whatever these are and in whatever order they come, and the room that they may take. */
import { narrowIntegers } from 'svcdb/lib/columns'
import { Turn } from 'svcdb/lib/event-loop'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { IntList } from '../../memtable/int-list.ts'
import { type Cells, cellsOf } from './accumulate.ts'
import { Quantiles } from './quantiles.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const ROOM = 1 << 26

const asked = (fractions: readonly number[], cells: number): Cells[] =>
  fractions.map((fraction) => cellsOf({ kind: 'quantile', field: 'x', type: 'float64', fraction }, cells))

function expected(values: readonly number[], fraction: number): number {
  if (values.length === 0) return Number.NaN
  const sorted = values.toSorted((a, b) => a - b)
  const place = (sorted.length - 1) * fraction
  if (Number.isInteger(place)) return sorted[place]
  const [low, high] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]]
  return low * (1 - (place - Math.floor(place))) + high * (place - Math.floor(place))
}

t.test('they are those of the sorted values', async (t) => {
  const random = new Random(seed)
  for (let round = 0; round < 200; round++) {
    const cells = 1 + random.below(4)
    const fractions = Array.from({ length: 1 + random.below(4) }, () => random.pick([0, 1, 0.5, 0.95, random.next()]))
    const quantiles = asked(fractions, cells)
    const work = new Quantiles(quantiles, ROOM)
    const all: number[][] = Array.from({ length: cells }, () => [])
    const value = random.pick([() => random.below(5), () => random.below(1e6), () => 7, (i: number) => i, (i: number) => -i])
    for (let block = 0; block < 3; block++) {
      const divisor = random.pick([undefined, 10, 1000])
      const rows = random.below(3000)
      const integers = Int32Array.from({ length: rows }, (_, i) => value(i))
      const doubles = Float64Array.from(integers, (each) =>
        divisor === undefined && random.chance(0.05) ? random.pick([Number.NaN, Number.POSITIVE_INFINITY]) : each,
      )
      const runs = new IntList()
      for (let at = 0; at < rows; ) {
        const [from, to, cell] = [at, Math.min(rows, at + 1 + random.below(500)), random.below(cells)]
        if (random.chance(0.8)) {
          for (const number of [cell, from, to]) runs.push(number)
          for (const each of doubles.subarray(from, to)) if (Number.isFinite(each)) all[cell].push(each / (divisor ?? 1))
        }
        at = to
      }
      t.ok(work.add(runs, { values: divisor === undefined ? doubles : narrowIntegers(integers), ...(divisor && { divisor }) }))
    }
    await work.finish(new Turn())
    work.release()
    for (const [cell, values] of all.entries())
      for (const { fraction, values: out } of quantiles)
        if (!Object.is(out[cell] + 0, expected(values, fraction as number) + 0))
          return t.fail(`SVC_SEED=${seed}, round ${round}: ${out[cell]} instead of ${expected(values, fraction as number)}, ${fraction} of ${values.length}`)
  }
})

t.test('statements of a thread share the room, and give back what they had', (t) => {
  const values = new Float64Array(10_000)
  const runs = new IntList()
  for (const number of [0, 0, values.length]) runs.push(number)
  const begin = (room: number): Quantiles => new Quantiles(asked([0.5], 1), room)
  const room = 400_000
  const [first, second] = [begin(room), begin(room)]
  t.equal(first.add(runs, { values }), true)
  t.equal(second.add(runs, { values }), true)
  t.equal(second.add(runs, { values }), false)
  first.release()
  first.release()
  t.equal(second.add(runs, { values }), true)
  second.release()
  const large = begin(Number.POSITIVE_INFINITY)
  let taken = 0
  while (large.add(runs, { values })) taken += values.length
  t.ok(taken > 4_000_000 && taken <= 1 << 22, `${taken} values are the most`)
  large.release()
  t.equal(begin(room).add(runs, { values }), true)
  t.end()
})

t.test('values that were put in the worst order take no longer', async (t) => {
  const values = Float64Array.from({ length: 1 << 20 }, (_, i) => (i % 2 === 0 ? i : (1 << 21) - i))
  const runs = new IntList()
  for (const number of [0, 0, values.length]) runs.push(number)
  const used = process.threadCpuUsage()
  for (const order of [values, values.toSorted(), values.toSorted().reverse(), new Float64Array(values.length)]) {
    const work = new Quantiles(asked([0.5, 0.9, 0.99], 1), ROOM)
    t.ok(work.add(runs, { values: order }))
    await work.finish(new Turn())
    work.release()
  }
  // Compared each with each they would take hours.
  t.ok(process.threadCpuUsage(used).user < 10_000_000)
})
