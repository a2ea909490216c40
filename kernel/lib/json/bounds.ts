/** How large JSON is once it is parsed, from its bytes: found out before anything is made of it. */
import { SvcError } from '../errors/index.ts'

const QUOTE = 34
const COMMA = 44
const OPEN_ARRAY = 91
const BACKSLASH = 92
const CLOSE_ARRAY = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

/** How large a document may be once it is parsed. */
export interface JsonBounds {
  /** Arrays and objects within one another. */
  depth: number
  /** Members of all objects and elements of all arrays. */
  members: number
}

/**
 * One pass over the bytes, without memory of its own. What is no JSON is left to the parser.
 * @param hint what to do about it, where the limits are not those of [server]. @throws BAD_REQUEST naming the limit.
 */
export function checkJsonBounds(bytes: Uint8Array, { depth, members }: JsonBounds, hint?: string): void {
  let level = 0
  let count = 0
  for (let at = 0; at < bytes.length; at++) {
    const c = bytes[at]
    if (c === QUOTE) {
      while (++at < bytes.length && bytes[at] !== QUOTE) if (bytes[at] === BACKSLASH) at++
    } else if (c === OPEN_OBJECT || c === OPEN_ARRAY) {
      if (++level > depth) {
        const todo = hint ?? 'flatten it or raise server.max_body_depth'
        throw new SvcError('BAD_REQUEST', `cannot read the JSON body: it is nested more than ${depth} deep; ${todo}`)
      }
      count++
    } else if (c === CLOSE_OBJECT || c === CLOSE_ARRAY) level--
    else if (c === COMMA) count++
    if (count > members) throw tooManyMembers(members, 'JSON body', hint)
  }
}

/** @param what is counted. */
export function tooManyMembers(members: number, what: string, hint = 'ask for less at once or raise server.max_body_members'): SvcError {
  return new SvcError('BAD_REQUEST', `cannot read the ${what}: it has more than ${members} members; ${hint}`)
}
