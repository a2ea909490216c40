/** Words for booleans, and words that are none. */
import { asciiText } from 'svcdb/lib/numbers'

const TRUTH = new Map([
  ...['t', 'T', 'true', 'True', 'TRUE'].map((word): [string, boolean] => [word, true]),
  ...['f', 'F', 'false', 'False', 'FALSE'].map((word): [string, boolean] => [word, false]),
])
const NOT_FINITE = /^[-+]?(nan|inf)/i
/** Bytes of a word that is looked at: `Infinity`. */
const LONGEST_WORD = 8

/** @returns the value of the word in bytes[start, end), or why it is none; undefined for `NaN` if that stands for no value. */
export function truthOf(bytes: Uint8Array, start: number, end: number, nanIsNull: boolean): boolean | string | undefined {
  const word = end - start > LONGEST_WORD ? '' : asciiText(bytes, start, end)
  if (nanIsNull && word === 'NaN') return undefined
  return TRUTH.get(word) ?? (NOT_FINITE.test(word) ? 'invalid number: NaN and infinities are not stored' : 'invalid boolean')
}
