/** Rows whose value satisfies a comparison; what is not finite is null, and satisfies none. */
import type { FilterPlan } from './plan.ts'

/** Clears the marks of the rows of values [from, to) that do not satisfy it; the first mark is that of `from`. */
export function keepOnly(kept: Uint8Array, values: Float64Array, from: number, to: number, { comparison, value }: FilterPlan): void {
  const n = to - from
  switch (comparison) {
    case '=':
      for (let i = 0; i < n; i++) if (values[from + i] !== value) kept[i] = 0
      return
    case '<>':
      for (let i = 0; i < n; i++) if (values[from + i] === value || values[from + i] - values[from + i] !== 0) kept[i] = 0
      return
    case '<':
      for (let i = 0; i < n; i++) if (!(values[from + i] < value) || values[from + i] === Number.NEGATIVE_INFINITY) kept[i] = 0
      return
    case '<=':
      for (let i = 0; i < n; i++) if (!(values[from + i] <= value) || values[from + i] === Number.NEGATIVE_INFINITY) kept[i] = 0
      return
    case '>':
      for (let i = 0; i < n; i++) if (!(values[from + i] > value) || values[from + i] === Number.POSITIVE_INFINITY) kept[i] = 0
      return
    case '>=':
      for (let i = 0; i < n; i++) if (!(values[from + i] >= value) || values[from + i] === Number.POSITIVE_INFINITY) kept[i] = 0
  }
}

/** How many of values [from, to) satisfy it. */
export function countOf(values: Float64Array, from: number, to: number, { comparison, value }: FilterPlan): number {
  let n = 0
  switch (comparison) {
    case '=':
      for (let i = from; i < to; i++) if (values[i] === value) n++
      return n
    case '<>':
      for (let i = from; i < to; i++) if (values[i] !== value && values[i] - values[i] === 0) n++
      return n
    case '<':
      for (let i = from; i < to; i++) if (values[i] < value && values[i] !== Number.NEGATIVE_INFINITY) n++
      return n
    case '<=':
      for (let i = from; i < to; i++) if (values[i] <= value && values[i] !== Number.NEGATIVE_INFINITY) n++
      return n
    case '>':
      for (let i = from; i < to; i++) if (values[i] > value && values[i] !== Number.POSITIVE_INFINITY) n++
      return n
    case '>=':
      for (let i = from; i < to; i++) if (values[i] >= value && values[i] !== Number.POSITIVE_INFINITY) n++
      return n
  }
}
