/** Rows whose value satisfies a comparison; what is not finite is null, and satisfies none. */
import type { FilterPlan } from './plan.ts'

/** Clears the marks of rows that do not satisfy it. */
export function keepOnly(kept: Uint8Array, values: Float64Array, { comparison, value }: FilterPlan): void {
  const n = kept.length
  switch (comparison) {
    case '=':
      for (let i = 0; i < n; i++) if (values[i] !== value) kept[i] = 0
      return
    case '<>':
      for (let i = 0; i < n; i++) if (values[i] === value || values[i] - values[i] !== 0) kept[i] = 0
      return
    case '<':
      for (let i = 0; i < n; i++) if (!(values[i] < value) || values[i] === Number.NEGATIVE_INFINITY) kept[i] = 0
      return
    case '<=':
      for (let i = 0; i < n; i++) if (!(values[i] <= value) || values[i] === Number.NEGATIVE_INFINITY) kept[i] = 0
      return
    case '>':
      for (let i = 0; i < n; i++) if (!(values[i] > value) || values[i] === Number.POSITIVE_INFINITY) kept[i] = 0
      return
    case '>=':
      for (let i = 0; i < n; i++) if (!(values[i] >= value) || values[i] === Number.POSITIVE_INFINITY) kept[i] = 0
  }
}
