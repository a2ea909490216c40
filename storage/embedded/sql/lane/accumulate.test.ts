/** Integers added up as they are stored, with and without zones, against their quotients one by one; doubles as well, of which some are no values. */
import { narrowIntegers } from 'svcdb/lib/columns'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { IntList } from '../../memtable/int-list.ts'
import { addRuns, cellsOf } from './accumulate.ts'
import type { AggregateKind } from './plan.ts'
import { BlockZones } from './zones.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

t.test('runs of integers are added up as the numbers they stand for', (t) => {
  const random = new Random(seed)
  for (let round = 0; round < 500; round++) {
    const divisor = random.pick([1, 10, 1e6])
    const width = random.pick([100, 30_000, 2 ** 25, 2 ** 31])
    const n = 1 + random.below(700)
    const integers = Int32Array.from({ length: n }, () => random.below(width) * random.pick([1, -1]))
    const runs = new IntList()
    const rows: number[][] = [[], []]
    for (let at = 0; at < n; ) {
      const from = at + random.below(20)
      const to = Math.min(n, from + 1 + random.below(300))
      const cell = random.below(2)
      if (from < to) {
        for (const number of [cell, from, to]) runs.push(number)
        for (let i = from; i < to; i++) rows[cell].push(integers[i] / divisor)
      }
      at = to
    }
    const stored = random.chance(0.7) ? narrowIntegers(integers) : integers
    const most = integers.reduce((found, value) => Math.max(found, Math.abs(value)), 0) / divisor
    const bounds = random.chance(0.7) ? { min: -most, max: most } : undefined
    for (const pass of [1, 2])
      for (const kind of ['count', 'sum', 'avg', 'min', 'max'] satisfies AggregateKind[]) {
        const cells = cellsOf({ kind, field: 'x', type: 'float64' }, 2)
        // Values that are read for the first time have no zones.
        addRuns(cells, runs, { values: pass === 1 ? stored.slice() : stored, divisor }, new BlockZones(), bounds)
        for (const [cell, values] of rows.entries()) {
          const sum = values.reduce((a, b) => a + b, 0)
          const expected = { count: values.length, sum, avg: sum, min: Math.min(...values), max: Math.max(...values) }[kind]
          const near =
            kind === 'sum' || kind === 'avg' ? Math.abs(cells.values[cell] - expected) <= 1e-9 * most * (values.length + 1) : cells.values[cell] === expected
          if (!near || (cells.counts !== undefined && cells.counts[cell] !== values.length))
            return void t.fail(`SVC_SEED=${seed}, round ${round}, pass ${pass}, ${kind}: ${cells.values[cell]} instead of ${expected}`)
        }
      }
  }
  t.pass()
  t.end()
})

t.test('runs of doubles are added up without what is not finite', (t) => {
  const random = new Random(seed)
  for (let round = 0; round < 500; round++) {
    const n = 1 + random.below(700)
    const absent = random.pick([0, 0, 0.003, 0.5, 1])
    const sign = random.pick([1, -1, 0])
    const number = (): number => (random.next() + 0.1) * (sign === 0 ? random.pick([1, -1]) : sign)
    const values = Float64Array.from({ length: n }, () => (random.chance(absent) ? random.pick([Number.NaN, Infinity, -Infinity]) : number()))
    const runs = new IntList()
    const rows: number[][] = [[], []]
    for (let at = 0; at < n; ) {
      const from = at + random.below(20)
      const to = Math.min(n, from + 1 + random.below(300))
      const cell = random.below(2)
      if (from < to) {
        for (const number of [cell, from, to]) runs.push(number)
        for (let i = from; i < to; i++) if (Number.isFinite(values[i])) rows[cell].push(values[i])
      }
      at = to
    }
    // The second statement over the same values has their zones.
    for (const pass of [1, 2])
      for (const kind of ['avg', 'count', 'sum', 'min', 'max'] satisfies AggregateKind[]) {
        const cells = cellsOf({ kind, field: 'x', type: 'float64' }, 2)
        addRuns(cells, runs, { values: pass === 1 ? values.slice() : values }, new BlockZones(), undefined)
        for (const [cell, taken] of rows.entries()) {
          const sum = taken.reduce((a, b) => a + b, 0)
          const expected = { count: taken.length, sum, avg: sum, min: Math.min(...taken), max: Math.max(...taken) }[kind]
          const near = kind === 'sum' || kind === 'avg' ? Math.abs(cells.values[cell] - expected) <= 1e-9 * n : cells.values[cell] === expected
          if (!near || (cells.counts !== undefined && cells.counts[cell] !== taken.length))
            return void t.fail(`SVC_SEED=${seed}, round ${round}, pass ${pass}, ${kind}: ${cells.values[cell]} instead of ${expected}`)
        }
      }
  }
  t.pass()
  t.end()
})
