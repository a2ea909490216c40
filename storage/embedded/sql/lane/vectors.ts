/** Columns of an answer as DuckDB's vectors are handed on. */
import type { SqlVector } from 'svcdb'
import type { NumberType } from './plan.ts'

export const CHUNK_ROWS = 8192
/** Names of result types (`SqlColumn.type`). */
export const NUMBER_NAMES: Record<NumberType, string> = { float64: 'Float64', int64: 'Int64', uint64: 'UInt64' }
const NANOSECONDS = 1_000_000
const TWO_32 = 4_294_967_296
/** A dictionary of so many times more texts than there are rows is not handed on. */
const LARGER = 2
/** Of no text: dictionaries may grow. */
const MISSING = 2 ** 31 - 1

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
  const validity = codes.some(missing) ? Uint8Array.from(codes, (code) => (missing(code) ? 0 : 1)) : undefined
  // Who writes a dictionary to a client writes all of it.
  const vector = texts.length > codes.length * LARGER ? bytesOf(codes, texts) : { values: codesOf(codes, validity), dictionary: texts }
  return validity === undefined ? vector : { ...vector, validity }
}

/** As DuckDB's codes, none is negative. */
function codesOf(codes: Int32Array, validity: Uint8Array | undefined): Int32Array {
  return validity === undefined ? codes : codes.map((code, i) => (validity[i] === 1 ? code : MISSING))
}

function bytesOf(codes: Int32Array, texts: readonly string[]): SqlVector {
  const ends = new Int32Array(codes.length + 1)
  const parts = Array.from(codes, (code) => Buffer.from(texts[code] ?? ''))
  for (let i = 0; i < parts.length; i++) ends[i + 1] = ends[i] + parts[i].length
  return { values: ends, bytes: Buffer.concat(parts) as Uint8Array }
}
