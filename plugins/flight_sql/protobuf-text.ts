/** Members that messages here have in common, read from where a `ProtobufReader` stands. */
import { BYTES, type ProtobufReader, readText, VARINT } from 'svcdb/lib/protobuf'

export function readString(reader: ProtobufReader): string {
  return readText(reader, `text of field ${reader.field}`)
}

/** The bytes in place, not a copy. */
export function readBytes(reader: ProtobufReader): Uint8Array {
  const start = reader.span()
  return reader.bytes.subarray(start, reader.at)
}

export function readBool(reader: ProtobufReader): boolean {
  return reader.int32() !== 0
}

/** uint32 values, packed or one by one. */
export function readNumbers(reader: ProtobufReader, into: number[]): void {
  if (reader.wire === VARINT) return void into.push(reader.uint32())
  const outer = reader.enter()
  while (reader.at < reader.end) {
    reader.varint()
    into.push(reader.low >>> 0)
  }
  reader.leave(outer)
}

/** Nested messages of one string key and one value, as maps are sent. `value` reads field 2. */
export function readEntry<T>(reader: ProtobufReader, absent: T, value: (reader: ProtobufReader) => T): [string, T] {
  const outer = reader.enter()
  let key = ''
  let read = absent
  while (reader.next()) {
    if (reader.field === 1 && reader.wire === BYTES) key = readString(reader)
    else if (reader.field === 2) read = value(reader)
    else reader.skip()
  }
  reader.leave(outer)
  return [key, read]
}
