/** JSON as bytes: bounds on that of clients, checked before it is parsed, and a writer for large answers. */
export { checkJsonBounds, type JsonBounds, tooManyMembers } from './bounds.ts'
export { JsonBytes, NUMBER_BYTES } from './json-bytes.ts'
