/** Protocol buffers read and written without generated code: bytes in, fields out, bounded. */
export * from './reader.ts'
export * from './text.ts'
export * from './writer.ts'
