/** Columns of an answer as DuckDB's vectors are handed on. */
import type { SqlVector } from 'svcdb'
import type { NumberType } from './plan.ts'

export const CHUNK_ROWS = 8192
/** Names of result types (`SqlColumn.type`). */
export const NUMBER_NAMES: Record<NumberType, string> = { float64: 'Float64', int64: 'Int64', uint64: 'UInt64' }
const NS_PER_MS = 1_000_000n

export const nanoseconds = (milliseconds: number): bigint => BigInt(milliseconds) * NS_PER_MS

/** @param millisecondsOf whole ones. */
export function timeVector(positions: Uint32Array, millisecondsOf: (position: number) => number): SqlVector {
  return { values: BigInt64Array.from(positions, (position) => nanoseconds(millisecondsOf(position))) }
}

export function textVector(texts: readonly (string | null)[], textBytes: boolean): SqlVector {
  return textBytes ? bytesOf(texts) : { values: texts }
}

function bytesOf(texts: readonly (string | null)[]): SqlVector {
  const ends = new Int32Array(texts.length + 1)
  const parts = texts.map((text) => Buffer.from(text ?? ''))
  for (let i = 0; i < parts.length; i++) ends[i + 1] = ends[i] + parts[i].length
  const vector = { values: ends, bytes: Buffer.concat(parts) as Uint8Array }
  return texts.includes(null) ? { ...vector, validity: Uint8Array.from(texts, (text) => (text === null ? 0 : 1)) } : vector
}
