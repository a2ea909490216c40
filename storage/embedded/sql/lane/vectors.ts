/** Columns of an answer as DuckDB's vectors are handed on. */
import type { SqlVector } from 'svcdb'
import type { NumberType } from './plan.ts'

export const CHUNK_ROWS = 8192
/** Names of result types (`SqlColumn.type`). */
export const NUMBER_NAMES: Record<NumberType, string> = { float64: 'Float64', int64: 'Int64', uint64: 'UInt64' }
const NANOSECONDS = 1_000_000
const TWO_32 = 4_294_967_296

/** @param millisecondsOf whole ones. */
export function timeVector(positions: Uint32Array, millisecondsOf: (position: number) => number): SqlVector {
  const milliseconds = new Float64Array(positions.length)
  for (let i = 0; i < milliseconds.length; i++) milliseconds[i] = millisecondsOf(positions[i])
  return { values: nanosecondValues(milliseconds) }
}

/** Of whole milliseconds, as their 64 bits: a BigInt of each would take longer than the rest of a small answer's column. */
export function nanosecondValues(milliseconds: Float64Array): BigInt64Array {
  const halves = new Int32Array(milliseconds.length * 2)
  for (let i = 0; i < milliseconds.length; i++) {
    const low = Math.imul(milliseconds[i], NANOSECONDS)
    halves[i * 2] = low
    // The product may be off by some hundreds, which is next to nothing of the upper half's unit.
    halves[i * 2 + 1] = Math.round((milliseconds[i] * NANOSECONDS - (low >>> 0)) / TWO_32)
  }
  return new BigInt64Array(halves.buffer)
}

/** @param codes numbers in `texts`; one that is in no text is a missing value. */
export function textVector(codes: Int32Array, texts: readonly string[], textBytes: boolean): SqlVector {
  if (!textBytes) return { values: Array.from(codes, (code) => texts[code] ?? null) }
  const missing = (code: number): boolean => texts[code] === undefined
  return codes.some(missing)
    ? { values: codes, dictionary: texts, validity: Uint8Array.from(codes, (code) => (missing(code) ? 0 : 1)) }
    : { values: codes, dictionary: texts }
}
