/** Puts blocks of values into DuckDB vectors with as few calls as there can be: one copy a column; text over 12 bytes one call each. */
import type bindings from '@duckdb/node-bindings'
import type { FieldType } from 'svcdb'
import { BLOCK_ROWS } from '../memtable/chunk-view.ts'
import { type Gathered, heapBytes } from '../memtable/row-gather.ts'
import { duckdb } from './native.ts'

/** A string of up to 12 bytes lies within its 16-byte slot: length, then the bytes, zero padded. */
const INLINE_BYTES = 12
const SLOT = 16
const slots = new ArrayBuffer(BLOCK_ROWS * SLOT)
const slotLengths = new Int32Array(slots)
const slotBytes = new Uint8Array(slots)
const NONE = new ArrayBuffer(BLOCK_ROWS / 8)

/** The bindings' types say ArrayBuffer; shared ones copy just as well. */
type AnyBuffer = ArrayBuffer | SharedArrayBuffer

export function copyValues(vector: bindings.Vector, source: AnyBuffer, offset: number, bytes: number): void {
  duckdb().copy_data_to_vector(vector, 0, source as ArrayBuffer, offset, bytes)
}

/** @param source validity bits of n rows, least significant first. */
export function copyValidity(vector: bindings.Vector, source: AnyBuffer, offset: number, n: number): void {
  duckdb().vector_ensure_validity_writable(vector)
  duckdb().copy_data_to_vector_validity(vector, 0, source as ArrayBuffer, offset, (n + 7) >> 3)
}

export function allNull(vector: bindings.Vector): void {
  copyValidity(vector, NONE, 0, BLOCK_ROWS)
}

/** @param bytesAt the i-th text, only asked for where the row has one. */
export function writeTexts(vector: bindings.Vector, n: number, hasNulls: boolean, bits: Uint8Array, bytesAt: (i: number) => Uint8Array): void {
  slotBytes.fill(0, 0, n * SLOT)
  let long: [number, Uint8Array][] | undefined
  for (let i = 0; i < n; i++) {
    if (hasNulls && (bits[i >> 3] & (1 << (i & 7))) === 0) continue
    const bytes = bytesAt(i)
    const { length } = bytes
    if (length > INLINE_BYTES) {
      long ??= []
      long.push([i, bytes])
      continue
    }
    slotLengths[i * 4] = length
    for (let j = 0, at = i * SLOT + 4; j < length; j++) slotBytes[at + j] = bytes[j]
  }
  copyValues(vector, slots, 0, n * SLOT)
  if (long !== undefined) for (const [i, bytes] of long) duckdb().vector_assign_string_element_len(vector, i, bytes)
  if (hasNulls) copyValidity(vector, bits.buffer, bits.byteOffset, n)
}

export function writeGathered(vector: bindings.Vector, gathered: Gathered, n: number, width: number, from = 0): void {
  copyValues(vector, gathered.buffer, from * width, n * width)
  if (gathered.hasNulls) copyValidity(vector, gathered.bits.buffer as ArrayBuffer, gathered.bits.byteOffset + (from >> 3), n)
}

/**
 * Rows [from, from + n) of a field's gathered values.
 * @param from a multiple of 8.
 * @param width bytes of a value, but for text.
 */
export function writeValues(
  vector: bindings.Vector,
  type: FieldType,
  gathered: Gathered,
  from: number,
  n: number,
  width: number,
  heap: readonly Uint8Array[],
): void {
  if (type !== 'string' && type !== 'histogram') return writeGathered(vector, gathered, n, width, from)
  const { i32, bits, hasNulls } = gathered
  writeTexts(vector, n, hasNulls, bits.subarray(from >> 3), (i) => heapBytes(heap, i32[(from + i) * 2], i32[(from + i) * 2 + 1]))
}
