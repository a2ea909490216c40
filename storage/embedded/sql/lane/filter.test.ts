/** Filters on integers as they are stored, against their quotients. */
import { narrowIntegers } from 'svcdb/lib/columns'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { IntList } from '../../memtable/int-list.ts'
import { HOLDS } from './conditions.ts'
import { countRuns, refine } from './filter.ts'
import type { Comparison } from './plan.ts'
import { BlockZones } from './zones.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
t.test('integers are compared as the numbers they stand for', (t) => {
  const random = new Random(seed)
  for (let round = 0; round < 3000; round++) {
    const divisor = random.pick([1, 10, 1000, 1e9])
    const width = random.pick([8, 40, 30_000, 2 ** 31])
    const n = 1 + random.below(random.chance(0.2) ? 400 : 30)
    const wide = width > 40 && random.chance(0.5)
    const number = (): number => (wide && random.chance(0.05) ? random.pick([-(2 ** 31), 2 ** 31 - 1]) : random.below(width) * random.pick([1, -1]))
    const integers = Int32Array.from({ length: n }, number)
    const doubles = Float64Array.from(integers, (value) => value / divisor)
    const comparison = random.pick(Object.keys(HOLDS) as Comparison[])
    // Beside the least and the greatest of a zone, which settle it.
    const edge = random.pick([Math.max(...integers), Math.min(...integers)]) + random.below(3) - 1
    const value = random.pick([number() / divisor, edge / divisor, number() / divisor + random.pick([1e-12, -1e-12, 0.5]), 1e300, -1e300, 0, -0])
    const filter = { field: 'x', comparison, value }
    const from = random.chance(0.5) ? 0 : random.below(n)
    const to = random.chance(0.5) ? n : from + random.below(n - from + 1)
    const expected = Array.from(doubles.keys()).filter((i) => i >= from && i < to && HOLDS[comparison](doubles[i], value))
    // Of a row that has no value there is one that is not finite.
    const absent = doubles.map((value) => (random.chance(0.05) ? random.pick([Number.NaN, Infinity, -Infinity]) : value))
    for (const values of [{ values: integers, divisor }, { values: narrowIntegers(integers), divisor }, { values: doubles }, { values: absent }]) {
      const wanted = expected.filter((i) => Number.isFinite(values.values[i]))
      const runs = new IntList()
      for (const number of [7, from, to]) runs.push(number)
      // The second statement over the same values has their zones.
      const found = [1, 2].map(() => {
        const counts = new Float64Array(8)
        countRuns(runs, values, new BlockZones(), filter, [counts])
        return counts[7]
      })
      const out = new IntList()
      refine(runs, values, filter, out)
      const kept: number[] = []
      for (let r = 0; r < out.length; r += 3) for (let i = out.values[r + 1]; i < out.values[r + 2]; i++) kept.push(i)
      if (found.some((count) => count !== wanted.length) || JSON.stringify(kept) !== JSON.stringify(wanted))
        return void t.fail(`SVC_SEED=${seed}, round ${round}: ${comparison} ${value} of [${from}, ${to}) of ${values.values.join(' ')}`)
    }
  }
  t.pass()
  t.end()
})
