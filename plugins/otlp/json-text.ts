/** JSON text to values, with the 64-bit integers that a JavaScript number cannot hold as bigints. */
import { SvcError } from '../../kernel/errors.ts'
import { withoutBom } from '../../kernel/http/body.ts'

/** Sixteen digits in a row outside of a string, as far as can be seen without parsing: then integers are looked at one by one. */
const LONG_INTEGER = /[:,[\s]-?\d{16}/

/** @throws BAD_REQUEST. */
export function parseJson(body: Buffer): unknown {
  const text = withoutBom(body).toString('utf8')
  try {
    return LONG_INTEGER.test(text) ? JSON.parse(text, exactly as never) : JSON.parse(text)
  } catch (error) {
    throw new SvcError('BAD_REQUEST', `cannot read the body as JSON: ${(error as Error).message}`, { cause: error })
  }
}

function exactly(_key: string, value: unknown, { source }: { source?: string }): unknown {
  return typeof value === 'number' && !Number.isSafeInteger(value) && source !== undefined && /^-?\d+$/.test(source) ? BigInt(source) : value
}
