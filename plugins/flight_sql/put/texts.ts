/** Text columns of a record batch: where each value's bytes lie. */
import { isUtf8 } from 'node:buffer'
import type { Data, Dictionary, Vector } from 'apache-arrow'
import { Type } from 'apache-arrow'
import { SvcError } from 'svcdb/lib/errors'
import type { Work } from 'svcdb/lib/event-loop'

/** Rows or entries between two places where the work can be interrupted. */
const SLICE = 4096
/** Of longer dictionaries nothing is made that is as long as they are. */
const ENTRIES_PER_ROW = 16
/** Bytes that are copied faster one by one. */
const SHORT = 32

interface Texts {
  heap: Uint8Array
  /** Values + 1 places in the heap. */
  offsets: Int32Array
}

export interface TextColumn extends Texts {
  /** Of dictionary-encoded columns: the value of each row. */
  indices: ArrayLike<number> | undefined
  /** Number of values: rows, or entries of the dictionary, those in use at least. */
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

/**
 * In turns. What it takes depends on the rows, not on what a dictionary has besides.
 * @param checked dictionaries that are known to be UTF-8: many batches of a stream refer to the same one. @throws BAD_REQUEST for what is no UTF-8.
 */
export function* textsOf(data: Data, name: string, checked: WeakSet<Data>): Work<TextColumn> {
  if (data.typeId !== Type.Dictionary) return { ...checkedTexts(data, name), indices: undefined, count: data.length }
  const parts: Texts[] = []
  for (const part of ((data as Data<Dictionary>).dictionary as Vector).data) {
    if (checked.has(part)) {
      parts.push(plainTexts(part))
      continue
    }
    parts.push(checkedTexts(part, name))
    checked.add(part)
    yield
  }
  const indices = data.values as unknown as ArrayLike<number | bigint>
  const numbers = (indices instanceof BigInt64Array || indices instanceof BigUint64Array ? Float64Array.from(indices, Number) : indices) as ArrayLike<number>
  const count = parts[0].offsets.length - 1
  if (parts.length === 1 && count <= data.length) return { ...parts[0], indices: numbers, count }
  return yield* entriesInUse(data, numbers, parts)
}

/** Those entries of a dictionary only that rows refer to: it may have many more than the batch has rows, and come in parts. */
function* entriesInUse(data: Data, indices: ArrayLike<number>, parts: readonly Texts[]): Work<TextColumn> {
  const firsts = [0]
  for (const { offsets } of parts) firsts.push(firsts[firsts.length - 1] + offsets.length - 1)
  const total = firsts[parts.length]
  const rows = new Int32Array(data.length)
  const entries: number[] = []
  // The places of entries in the list, from 1 on. An array is faster, and as long as the dictionary.
  const all = total <= ENTRIES_PER_ROW * rows.length ? new Int32Array(total) : undefined
  const few = new Map<number, number>()
  for (let row = 0; row < rows.length; row++) {
    if (row % SLICE === SLICE - 1) yield
    // The number of a row without a value may be any.
    if (data.nullCount > 0 && !data.getValid(row)) continue
    const entry = indices[row]
    let place = all === undefined ? (few.get(entry) ?? 0) : all[entry]
    if (place === 0) {
      place = entries.push(entry)
      if (all === undefined) few.set(entry, place)
      else all[entry] = place
    }
    rows[row] = place - 1
  }
  yield
  const offsets = new Int32Array(entries.length + 1)
  const starts = new Int32Array(entries.length)
  const sources = new Int32Array(entries.length)
  for (const [i, entry] of entries.entries()) {
    const part = partOf(firsts, entry)
    const { offsets: ends } = parts[part]
    const at = entry - firsts[part]
    sources[i] = part
    starts[i] = ends[at]
    offsets[i + 1] = offsets[i] + ends[at + 1] - ends[at]
    if (i % SLICE === SLICE - 1) yield
  }
  const heap = new Uint8Array(offsets[entries.length])
  for (let i = 0; i < entries.length; i++) {
    const { heap: source } = parts[sources[i]]
    const at = offsets[i]
    const length = offsets[i + 1] - at
    if (length > SHORT) heap.set(source.subarray(starts[i], starts[i] + length), at)
    else for (let byte = 0; byte < length; byte++) heap[at + byte] = source[starts[i] + byte]
    if (i % SLICE === SLICE - 1) yield
  }
  return { heap, offsets, indices: rows, count: entries.length }
}

/** The part that an entry is in. @param firsts the first entry of each part, and the end. */
function partOf(firsts: readonly number[], entry: number): number {
  let low = 0
  let high = firsts.length - 1
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (firsts[middle] <= entry) low = middle
    else high = middle
  }
  return low
}

/** @throws INVALID_POINT. */
export function textOf({ heap, offsets }: Texts, value: number): string {
  return decoder.decode(heap.subarray(offsets[value], offsets[value + 1]))
}

function checkedTexts(data: Data, name: string): Texts {
  const texts = plainTexts(data)
  requireUtf8(texts, name)
  return texts
}

function plainTexts(data: Data): Texts {
  const source = data.valueOffsets as Int32Array | BigInt64Array | undefined
  if (data.length === 0 || source === undefined) return { heap: new Uint8Array(0), offsets: new Int32Array(1) }
  const offsets = source instanceof Int32Array ? source.subarray(0, data.length + 1) : Int32Array.from(source.subarray(0, data.length + 1), Number)
  const values = data.values as Uint8Array
  // Always the same class of array: a Buffer is another.
  return { heap: new Uint8Array(values.buffer, values.byteOffset, values.length), offsets }
}

/** The bytes of all values are UTF-8, and no value begins within a character. */
function requireUtf8({ heap, offsets }: Texts, name: string): void {
  const last = offsets[offsets.length - 1]
  let whole = isUtf8(heap.subarray(offsets[0], last))
  for (let i = 0; whole && i < offsets.length; i++) whole = offsets[i] >= last || (heap[offsets[i]] & 0xc0) !== 0x80
  if (!whole) throw new SvcError('BAD_REQUEST', `cannot write column "${name}": a value is not UTF-8`)
}
