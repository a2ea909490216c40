/** Text and bytes: offsets and one heap. Text comes as strings, as UTF-8 of all values, or as numbers in a dictionary. */
import type { SqlVector } from '../sql-result/index.ts'
import type { BatchParts } from './body.ts'
import { Presence } from './body.ts'
import { type ColumnWriter, Gathered, presentRows } from './column-writer.ts'

const encoder = new TextEncoder()
/** UTF-8 of a UTF-16 unit takes at most this many bytes. */
const MAX_BYTES = 3
/** Rows with the same value one after the other from which on doubling copies beat a loop. */
const LONG_RUN = 8

/** Bytes behind the last value that may be read or written along with it. */
const SLACK = 4

/** The entries of a dictionary as UTF-8. */
class DictionaryBytes {
  readonly offsets: Int32Array
  readonly heap: Uint8Array
  readonly source: DataView

  constructor(entries: readonly string[]) {
    this.offsets = new Int32Array(entries.length + 1)
    let length = 0
    for (let i = 0; i < entries.length; i++) this.offsets[i + 1] = length += Buffer.byteLength(entries[i])
    this.heap = new Uint8Array(length + SLACK)
    for (let i = 0; i < entries.length; i++) encoder.encodeInto(entries[i], this.heap.subarray(this.offsets[i], this.offsets[i + 1]))
    this.source = new DataView(this.heap.buffer)
  }
}

export class TextWriter implements ColumnWriter {
  private readonly presence = new Presence()
  private readonly heap = new Gathered()
  private readonly offsets = new Gathered()
  private length = 0
  private rows = 0
  private dictionary: readonly string[] | undefined
  private entries = new DictionaryBytes([])

  size({ values, dictionary, bytes }: SqlVector, from: number, to: number): number {
    let size = 4 * (to - from)
    if (bytes !== undefined) return size + (values[to] as number) - (values[from] as number)
    if (dictionary !== undefined) {
      const { offsets } = this.know(dictionary)
      const codes = values as ArrayLike<number>
      const last = dictionary.length - 1
      for (let i = from; i < to; i++) if (codes[i] <= last) size += offsets[codes[i] + 1] - offsets[codes[i]]
      return size
    }
    for (let i = from; i < to; i++) {
      const value = values[i]
      size += typeof value === 'string' ? value.length : value instanceof Uint8Array ? value.length : 16
    }
    return size
  }

  append(vector: SqlVector, from: number, to: number): void {
    const present = presentRows(vector, from, to)
    this.presence.append(present, from, to - from)
    const offsets = new Int32Array(this.offsets.room(4 * (this.rows + to - from + 1)).buffer)
    if (vector.bytes !== undefined) this.appendBytes(vector.bytes, vector.values as Int32Array, from, to, offsets)
    else if (vector.dictionary !== undefined) this.appendCodes(this.know(vector.dictionary), vector.values as ArrayLike<number>, present, from, to, offsets)
    else this.appendValues(vector.values, present, from, to, offsets)
    this.rows += to - from
  }

  finish(parts: BatchParts): void {
    this.presence.finish(parts)
    // The first offset is there even without rows.
    parts.buffer(this.offsets.room(4 * (this.rows + 1)).subarray(0, 4 * (this.rows + 1)))
    parts.buffer(this.heap.bytes.subarray(0, this.length))
  }

  reset(): void {
    this.presence.reset()
    this.rows = 0
    this.length = 0
  }

  private know(dictionary: readonly string[]): DictionaryBytes {
    if (dictionary !== this.dictionary) {
      this.entries = new DictionaryBytes(dictionary)
      this.dictionary = dictionary
    }
    return this.entries
  }

  private appendBytes(bytes: Uint8Array, ends: Int32Array, from: number, to: number, offsets: Int32Array): void {
    const begin = ends[from]
    this.heap.room(this.length + ends[to] - begin).set(bytes.subarray(begin, ends[to]), this.length)
    const shift = this.length - begin
    for (let i = from, at = this.rows + 1; i < to; i++) offsets[at++] = ends[i + 1] + shift
    this.length += ends[to] - begin
  }

  private appendCodes(
    { heap: entries, source, offsets: ends }: DictionaryBytes,
    codes: ArrayLike<number>,
    present: Uint8Array | undefined,
    from: number,
    to: number,
    offsets: Int32Array,
  ): void {
    let { length, rows } = this
    let heap = this.heap.room(length)
    let view = new DataView(heap.buffer)
    for (let i = from; i < to; ) {
      if (present !== undefined && present[i] === 0) {
        offsets[++rows] = length
        i++
        continue
      }
      const code = codes[i]
      let end = i + 1
      while (end < to && codes[end] === code && (present === undefined || present[end] === 1)) end++
      const begin = ends[code]
      const size = ends[code + 1] - begin
      if (length + size * (end - i) + SLACK > heap.length) {
        heap = this.heap.room(length + size * (end - i) + SLACK)
        view = new DataView(heap.buffer)
      }
      if (end - i < LONG_RUN) {
        for (; i < end; i++) {
          // Four bytes at a time (encoder.bench.ts), up to three too many: the next value overwrites them.
          for (let k = 0; k < size; k += 4) view.setInt32(length + k, source.getInt32(begin + k, true), true)
          offsets[++rows] = length += size
        }
      } else {
        fillRun(heap, entries, begin, size, length, end - i)
        for (; i < end; i++) offsets[++rows] = length += size
      }
    }
    this.length = length
  }

  private appendValues(values: ArrayLike<unknown>, present: Uint8Array | undefined, from: number, to: number, offsets: Int32Array): void {
    let { length, rows } = this
    let last: unknown
    let lastAt = 0
    for (let i = from; i < to; i++) {
      if (present === undefined || present[i] === 1) {
        const value = values[i]
        if (value === last && typeof value === 'string' && i > from) {
          const size = offsets[lastAt + 1] - offsets[lastAt]
          this.heap.room(length + size).copyWithin(length, offsets[lastAt], offsets[lastAt] + size)
          length += size
        } else if (value instanceof Uint8Array) {
          this.heap.room(length + value.length).set(value, length)
          length += value.length
        } else {
          const text = typeof value === 'string' ? value : String(value)
          const heap = this.heap.room(length + text.length * MAX_BYTES)
          length += encoder.encodeInto(text, heap.subarray(length)).written
          last = value
          lastAt = rows
        }
      }
      offsets[++rows] = length
    }
    this.length = length
  }
}

/** The same value `count` times from `at` on: once by hand, then what is there is doubled. */
function fillRun(heap: Uint8Array, entries: Uint8Array, begin: number, size: number, at: number, count: number): void {
  for (let k = 0; k < size; k++) heap[at + k] = entries[begin + k]
  const total = size * count
  for (let done = size; done < total; done *= 2) heap.copyWithin(at + done, at, at + Math.min(done, total - done))
}
