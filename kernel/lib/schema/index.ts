export type { Static, TInteger, TNumber, TObject, TProperties, TSchema, TString, TUnsafe } from 'typebox'
export { type Problem, SchemaReader } from './schema-reader.ts'
export { Type } from './type.ts'
