/** SQL results: columns of rows, the names of their types, and rows as JSON. */
export type { SqlChunk, SqlColumn, SqlVector } from './chunk.ts'
export { type Encode, JsonRowEncoder, jsonEncoderOf } from './json.ts'
export { JsonRowBytes } from './json-row-bytes.ts'
export { type ResultType, resultType, type SimpleName, type TimeUnitName } from './type.ts'
