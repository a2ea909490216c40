/** JSON as bytes: bounds on that of clients, checked before it is parsed, a writer for large answers, listings in parts, the one text of a value, and what is wrong with one. */
export { checkJsonBounds, type JsonBounds, tooManyMembers } from './bounds.ts'
export { canonical } from './canonical.ts'
export { jsonDigits } from './digits.ts'
export { JsonBytes, NUMBER_BYTES } from './json-bytes.ts'
export { jsonListing } from './listing.ts'
export { jsonProblem } from './problem.ts'
