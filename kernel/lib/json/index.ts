/** Bounds on JSON of clients, checked on its bytes before it is parsed. */
export { checkJsonBounds, type JsonBounds, tooManyMembers } from './bounds.ts'
