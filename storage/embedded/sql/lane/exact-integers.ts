/** Integers as doubles: exact below 2^53 in magnitude, and so are their sums as long as they stay there. */
import type { IntList } from '../../memtable/int-list.ts'
import { RUN } from '../../memtable/runs.ts'
import type { Cells } from './accumulate.ts'
import type { LaneBounds, LaneValues } from './host.ts'

const EXACT = 2 ** 53

/** Whether doubles hold all of them. */
export function areExact({ min, max }: LaneBounds): boolean {
  return min > -EXACT && max < EXACT
}

/** Least and greatest of the values of runs. */
export function boundsOf({ values: runs, length }: Pick<IntList, 'values' | 'length'>, { values, divisor = 1 }: LaneValues): LaneBounds {
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (let r = 0; r < length; r += RUN)
    for (let i = runs[r + 1]; i < runs[r + 2]; i++) {
      if (values[i] < min) min = values[i]
      if (values[i] > max) max = values[i]
    }
  return { min: min / divisor, max: max / divisor }
}

/** The bounds of the integers that a statement reads. */
export class IntegersRead {
  private readonly bounds = new Map<string, LaneBounds>()

  /** @returns false for some that doubles do not hold. */
  add(field: string, bounds: LaneBounds): boolean {
    const before = this.bounds.get(field)
    if (before === undefined) this.bounds.set(field, { ...bounds })
    else {
      before.min = Math.min(before.min, bounds.min)
      before.max = Math.max(before.max, bounds.max)
    }
    return areExact(bounds)
  }

  /** Whether every sum is exact, and with it all that were added up on the way. */
  holds({ field, values, counts, squares }: Cells): boolean {
    const bounds = field === undefined ? undefined : this.bounds.get(field)
    if (bounds === undefined || counts === undefined || squares !== undefined) return true
    // Of one sign, sums only grow.
    const grow = bounds.min >= 0 || bounds.max <= 0
    const largest = Math.max(-bounds.min, bounds.max)
    for (let i = 0; i < values.length; i++) if (!((grow ? Math.abs(values[i]) : counts[i] * largest) < EXACT)) return false
    return true
  }
}

/** Bits of exact integers, negative ones only where the type is signed. */
export function integerValues(type: 'int64' | 'uint64', numbers: Float64Array): BigInt64Array | BigUint64Array {
  const halves = new Int32Array(numbers.length * 2)
  for (let i = 0; i < numbers.length; i++) {
    const high = Math.floor(numbers[i] / 4294967296)
    halves[i * 2] = numbers[i] - high * 4294967296
    halves[i * 2 + 1] = high
  }
  return type === 'int64' ? new BigInt64Array(halves.buffer) : new BigUint64Array(halves.buffer)
}
