/** Text columns of a record batch: where each value's bytes lie. */
import { isUtf8 } from 'node:buffer'
import type { Data, Dictionary, Vector } from 'apache-arrow'
import { Type } from 'apache-arrow'
import { SvcError } from 'svcdb/lib/errors'

export interface Texts {
  heap: Uint8Array
  /** Values + 1 places in the heap. */
  offsets: Int32Array
}

export interface TextColumn extends Texts {
  /** Of dictionary-encoded columns: the value of each row. */
  indices: ArrayLike<number> | undefined
  /** Number of values: rows, or entries of the dictionary. */
  count: number
}

/** What texts of one record batch may take: rows name those of a dictionary again and again. */
export class TextRoom {
  private left: number
  private readonly most: number
  private readonly what: string

  constructor(most: number, what: string) {
    this.left = this.most = most
    this.what = what
  }

  /** @throws PAYLOAD_TOO_LARGE. */
  take(bytes: number): void {
    this.left -= bytes
    if (this.left >= 0) return
    const cause = `its ${this.what} take more than ${this.most} bytes without their dictionaries, flight_sql.max_decompressed_bytes is ${this.most}`
    throw new SvcError('PAYLOAD_TOO_LARGE', `cannot write record batch: ${cause}; send smaller batches`)
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** @throws BAD_REQUEST for what is no UTF-8. */
export function textsOf(data: Data, name: string): TextColumn {
  if (data.typeId !== Type.Dictionary) return { ...plainTexts(data, name), indices: undefined, count: data.length }
  const dictionary = (data as Data<Dictionary>).dictionary as Vector
  const parts = dictionary.data.map((part) => ({ ...plainTexts(part, name), count: part.length }))
  const indices = data.values as unknown as ArrayLike<number | bigint>
  const numbers = (indices instanceof BigInt64Array || indices instanceof BigUint64Array ? Float64Array.from(indices, Number) : indices) as ArrayLike<number>
  return parts.length === 1 ? { ...parts[0], indices: numbers } : { ...joined(parts), indices: numbers }
}

/** @throws INVALID_POINT. */
export function textOf({ heap, offsets }: Texts, value: number): string {
  return decoder.decode(heap.subarray(offsets[value], offsets[value + 1]))
}

function plainTexts(data: Data, name: string): Texts {
  const source = data.valueOffsets as Int32Array | BigInt64Array | undefined
  if (data.length === 0 || source === undefined) return { heap: new Uint8Array(0), offsets: new Int32Array(1) }
  const offsets = source instanceof Int32Array ? source.subarray(0, data.length + 1) : Int32Array.from(source.subarray(0, data.length + 1), Number)
  const values = data.values as Uint8Array
  // Always the same class of array: a Buffer is another.
  const heap = new Uint8Array(values.buffer, values.byteOffset, values.length)
  requireUtf8(heap, offsets, name)
  return { heap, offsets }
}

/** The bytes of all values are UTF-8, and no value begins within a character. */
function requireUtf8(heap: Uint8Array, offsets: Int32Array, name: string): void {
  const last = offsets[offsets.length - 1]
  let whole = isUtf8(heap.subarray(offsets[0], last))
  for (let i = 0; whole && i < offsets.length; i++) whole = offsets[i] >= last || (heap[offsets[i]] & 0xc0) !== 0x80
  if (!whole) throw new SvcError('BAD_REQUEST', `cannot write column "${name}": a value is not UTF-8`)
}

/** A dictionary that came in parts. */
function joined(parts: (Texts & { count: number })[]): Texts & { count: number } {
  const count = parts.reduce((sum, part) => sum + part.count, 0)
  const heap = Buffer.concat(parts.map((part) => part.heap.subarray(part.offsets[0], part.offsets[part.count])))
  const offsets = new Int32Array(count + 1)
  let place = 0
  let base = 0
  for (const part of parts) {
    for (let i = 0; i < part.count; i++) offsets[++place] = base + part.offsets[i + 1] - part.offsets[0]
    base = offsets[place]
  }
  return { heap: new Uint8Array(heap.buffer, heap.byteOffset, heap.length), offsets, count }
}
