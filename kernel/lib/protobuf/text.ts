/** Texts of a message: proto3 has them be UTF-8. */
import type { ProtobufReader } from './reader.ts'

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of the field at hand. @throws BAD_REQUEST. */
export function readText(reader: ProtobufReader, what: string): string {
  const start = reader.span()
  return textOf(reader, start, reader.at, what)
}

/** @throws BAD_REQUEST for bytes that are no UTF-8. */
export function textOf(reader: ProtobufReader, start: number, end: number, what: string): string {
  try {
    return decoder.decode(reader.bytes.subarray(start, end))
  } catch {
    throw reader.fault(`the ${what} is no UTF-8`, start)
  }
}
