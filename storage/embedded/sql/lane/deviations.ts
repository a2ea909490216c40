/** Variances and standard deviations: of each run the mean and the squares of what its values differ from it, added to those of its cell (Chan, Golub and LeVeque 1979). */
import type { IntList } from '../../memtable/int-list.ts'
import { RUN } from '../../memtable/runs.ts'
import type { Cells } from './accumulate.ts'
import type { LaneValues } from './host.ts'
import type { AggregateKind } from './plan.ts'

/** Of the values there are, and of all those that they are a sample of. */
const POPULATION: ReadonlySet<AggregateKind> = new Set(['stddev_pop', 'var_pop'])
const SAMPLE: ReadonlySet<AggregateKind> = new Set(['stddev_samp', 'var_samp'])

export function isDeviation(kind: AggregateKind): boolean {
  return POPULATION.has(kind) || SAMPLE.has(kind)
}

/** Adds the values of runs (runs.ts) to their cells; what is not finite is no value. */
export function addDeviations(cells: Cells, { values: runs, length }: IntList, { values, divisor = 1 }: LaneValues): void {
  const [means, counts, squares] = [cells.values, cells.counts as Float64Array, cells.squares as Float64Array]
  for (let r = 0; r < length; r += RUN) {
    const [cell, from, to] = [runs[r], runs[r + 1], runs[r + 2]]
    let [added, sum] = [0, 0]
    for (let i = from; i < to; i++)
      if (values[i] - values[i] === 0) {
        sum += values[i]
        added++
      }
    if (added === 0) continue
    const mean = sum / added
    let own = 0
    for (let i = from; i < to; i++) if (values[i] - values[i] === 0) own += (values[i] - mean) ** 2
    const count = counts[cell] + added
    const apart = mean / divisor - means[cell]
    means[cell] += (apart * added) / count
    squares[cell] += own / divisor ** 2 + (apart ** 2 * counts[cell] * added) / count
    counts[cell] = count
  }
}

/** Undefined for null: without values, and of a sample with one. */
export function deviation({ kind, counts, squares }: Cells, cell: number): number | undefined {
  const degrees = (counts as Float64Array)[cell] - (SAMPLE.has(kind) ? 1 : 0)
  if ((counts as Float64Array)[cell] === 0 || degrees === 0) return undefined
  const variance = (squares as Float64Array)[cell] / degrees
  return kind === 'stddev_pop' || kind === 'stddev_samp' ? Math.sqrt(variance) : variance
}
