/** Protocol buffers read and written without generated code: bytes in, fields out, bounded. */
export { NumberList } from './number-list.ts'
export { BYTES, FIXED32, FIXED64, ProtobufReader, VARINT } from './reader.ts'
export { readText, textOf } from './text.ts'
export { ProtobufWriter } from './writer.ts'
