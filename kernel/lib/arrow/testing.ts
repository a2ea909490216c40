/** For tests: every result type with its awkward values, and IPC streams put together and taken apart. */
import type { SqlChunk, SqlColumn } from '../sql-result/index.ts'
import { type ArrowMessage, END_OF_STREAM, frame } from './framing.ts'
import { readMessage } from './layout.ts'

export const ALL_COLUMNS: SqlColumn[] = [
  { name: 'i8', type: 'Int8' },
  { name: 'u16', type: 'UInt16' },
  { name: 'i32', type: 'Int32' },
  { name: 'i64', type: 'Int64' },
  { name: 'u64', type: 'UInt64' },
  { name: 'f32', type: 'Float32' },
  { name: 'f64', type: 'Float64' },
  { name: 'bool', type: 'Boolean' },
  { name: 'text', type: 'Utf8' },
  { name: 'tag', type: 'Utf8' },
  { name: 'heap', type: 'Utf8' },
  { name: 'bytes', type: 'Binary' },
  { name: 'ns', type: 'Timestamp(ns)' },
  { name: 'zoned', type: 'Timestamp(us, UTC)' },
  { name: 'date', type: 'Date32' },
  { name: 'clock', type: 'Time64(us)' },
  { name: 'interval', type: 'Interval' },
  { name: 'decimal', type: 'decimal(38, 4)' },
  { name: 'list', type: 'List(Int64)' },
  { name: 'struct', type: 'Struct("a, (b)": Int32, "c": List(Utf8))' },
  { name: 'map', type: 'Map(Utf8, Float64)' },
  { name: 'none', type: 'Null' },
]

const TAGS = ['eu-central', 'ü', '', 'x'.repeat(40)]

/** Rows of `ALL_COLUMNS`; every third row has no value anywhere. */
export function allTypesChunk(rows: number): SqlChunk {
  const numbers = Array.from({ length: rows }, (_, i) => i)
  const validity = Uint8Array.from(numbers, (i) => (i % 3 === 2 ? 0 : 1))
  const orNull = <T>(value: (i: number) => T): (T | null)[] => numbers.map((i) => (validity[i] === 1 ? value(i) : null))
  const texts = numbers.map((i) => (validity[i] === 1 ? `wert ${i} é` : ''))
  const ends = [0]
  for (const text of texts) ends.push(ends[ends.length - 1] + Buffer.byteLength(text))
  return {
    rows,
    columns: [
      { values: Int8Array.from(numbers, (i) => i - 3), validity },
      { values: Uint16Array.from(numbers, (i) => 65_535 - i), validity },
      { values: Int32Array.from(numbers, (i) => -i), validity },
      { values: BigInt64Array.from(numbers, (i) => -(2n ** 63n) + BigInt(i)), validity },
      { values: BigUint64Array.from(numbers, (i) => 2n ** 64n - 1n - BigInt(i)), validity },
      { values: Float32Array.from(numbers, (i) => i / 4), validity },
      { values: Float64Array.from(numbers, (i) => i / 10), validity },
      { values: Uint8Array.from(numbers, (i) => i % 2), validity },
      { values: orNull((i) => `text ${i} 😀`) },
      { values: Uint16Array.from(numbers, (i) => (validity[i] === 1 ? i % TAGS.length : 9999)), validity, dictionary: TAGS },
      { values: Int32Array.from(ends), validity, bytes: Buffer.from(texts.join('')) },
      { values: orNull((i) => Uint8Array.of(i & 255, 0, 255)) },
      { values: BigInt64Array.from(numbers, (i) => 1_700_000_000_000_000_000n + 1000n * BigInt(i)), validity },
      { values: BigInt64Array.from(numbers, (i) => 1_700_000_000_000_000n + BigInt(i)), validity },
      { values: Int32Array.from(numbers, (i) => 20_000 - i), validity },
      { values: BigInt64Array.from(numbers, (i) => BigInt(i)), validity },
      { values: orNull((i) => ({ months: i, days: -1, nanoseconds: 5n * BigInt(i) })) },
      { values: orNull((i) => (i % 2 === 0 ? -1n : 1n) * (10n ** 30n + BigInt(i))) },
      { values: orNull((i) => [BigInt(i), null, 7n].slice(0, i % 4)) },
      { values: orNull((i) => ({ 'a, (b)': i, c: i % 2 === 0 ? null : [`c${i}`, null] })) },
      { values: orNull((i) => [{ key: `k${i}`, value: i / 2 }].slice(i % 2)) },
      { values: numbers.map(() => null) },
    ],
  }
}

export function ipcStream(messages: readonly ArrowMessage[]): Uint8Array {
  return Buffer.concat([...messages.map((message) => frame(message)), END_OF_STREAM])
}

/** The messages of an IPC stream; bodies are views of it. */
export function messagesOf(stream: Uint8Array): ArrowMessage[] {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength)
  const messages: ArrowMessage[] = []
  for (let at = 0; at < stream.length; ) {
    const length = view.getInt32(at + 4, true)
    if (length === 0) break
    const header = stream.subarray(at + 8, at + 8 + length)
    const end = at + 8 + length + readMessage(header).bodyLength
    messages.push({ header, body: stream.subarray(at + 8 + length, end) })
    at = end
  }
  return messages
}
