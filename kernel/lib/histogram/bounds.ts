/** Where buckets begin and end. */
import { CUSTOM_BUCKETS_SCHEMA } from './native-histogram.ts'

/** The fraction's bits are the same in all versions of Prometheus; computing 2^(i / 2^s) anew would differ in the last one. */
const SQRT_2 = 1.4142135623730949
/** MANTISSAS[s][i] = 2^(i / 2^s - 1), in [0.5, 1): even places come from the schema before, odd ones are a step on from the one before. */
const MANTISSAS: readonly Float64Array[] = mantissas()
const MIN_EXPONENT = -1074
const MAX_EXPONENT = 1023
const POWERS = Float64Array.from({ length: MAX_EXPONENT - MIN_EXPONENT + 1 }, (_, i) => 2 ** (i + MIN_EXPONENT))

function mantissas(): Float64Array[] {
  const tables = [Float64Array.of(0.5)]
  for (let schema = 1; schema <= 8; schema++) {
    const factor = schema === 1 ? SQRT_2 : 2 ** (2 ** -schema)
    const table = new Float64Array(2 ** schema)
    table[0] = 0.5
    for (let i = 1; i < table.length; i++) table[i] = i % 2 === 0 ? tables[schema - 1][i / 2] : table[i - 1] * factor
    tables.push(table)
  }
  return tables
}

/** The upper bound of bucket `index` in absolute numbers; its lower one is that of `index - 1`. */
export function boundOf(schema: number, index: number, customBounds: Float64Array): number {
  if (schema !== CUSTOM_BUCKETS_SCHEMA) return exponentialBound(schema, index)
  return index < 0 ? Number.NEGATIVE_INFINITY : index >= customBounds.length ? Number.POSITIVE_INFINITY : customBounds[index]
}

/**
 * 2^(index / 2^schema). The bucket that ends at 2^1024 ends at the greatest double instead: the one after it is for the infinities.
 */
export function exponentialBound(schema: number, index: number): number {
  if (schema < 0) return power(1, index * 2 ** -schema)
  const table = MANTISSAS[schema]
  return power(table[index & (table.length - 1)] * 2, index >> schema)
}

/** @param mantissa in [1, 2) */
function power(mantissa: number, exponent: number): number {
  if (exponent > MAX_EXPONENT) return exponent === MAX_EXPONENT + 1 && mantissa === 1 ? Number.MAX_VALUE : Number.POSITIVE_INFINITY
  if (exponent < MIN_EXPONENT) return exponent === MIN_EXPONENT - 1 && mantissa > 1 ? Number.MIN_VALUE : 0
  return mantissa * POWERS[exponent - MIN_EXPONENT]
}

/** The bucket of a coarser schema that a bucket falls into. */
export function coarserIndex(index: number, shift: number): number {
  return ((index - 1) >> shift) + 1
}
