/** JSON text to values, with the 64-bit integers that a JavaScript number cannot hold as bigints. */

import { SvcError } from 'svcdb/lib/errors'
import { checkJsonBounds, jsonProblem } from 'svcdb/lib/json'
import { withoutBom } from 'svcdb/lib/text'

/** Sixteen digits in a row outside of a string, as far as can be seen without parsing: then integers are looked at one by one. */
const LONG_INTEGER = /[:,[\s]-?\d{16}/

/** Attributes may be nested as deep as the decoder follows them, with four brackets a level; what is parsed takes some hundred bytes a member. */
const BOUNDS = { depth: 256, members: 2_000_000 }

/** @throws BAD_REQUEST. */
export function parseJson(body: Buffer): unknown {
  checkJsonBounds(body, BOUNDS, 'send smaller batches, or protobuf')
  const text = withoutBom(body).toString('utf8')
  try {
    return LONG_INTEGER.test(text) ? JSON.parse(text, exactly as never) : JSON.parse(text)
  } catch (error) {
    throw new SvcError('BAD_REQUEST', `cannot read the body as JSON: ${jsonProblem(error as Error)}`, { cause: error })
  }
}

/** More digits do not fit 64 bits. Ten million of them take seconds as a bigint. */
const WHOLE = /^-?\d{1,20}$/

function exactly(_key: string, value: unknown, { source }: { source?: string }): unknown {
  return typeof value === 'number' && !Number.isSafeInteger(value) && source !== undefined && WHOLE.test(source) ? BigInt(source) : value
}
