/** What the rest of the plugin takes from the parser. */
export { typeName, typeOf } from './check.ts'
export { DEFAULT_LIMITS, type ParseLimits } from './cursor.ts'
export { toJson } from './json.ts'
export { parse, parseSelector } from './parse.ts'
export { lineColumn, ParseError } from './parse-error.ts'
export { pretty } from './pretty.ts'
export { matcherText, print } from './print.ts'
