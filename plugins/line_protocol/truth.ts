/** Words for booleans, and words that are none. */
const TRUTH = new Map([
  ...['t', 'T', 'true', 'True', 'TRUE'].map((word): [string, boolean] => [word, true]),
  ...['f', 'F', 'false', 'False', 'FALSE'].map((word): [string, boolean] => [word, false]),
])
const NOT_FINITE = /^[-+]?(nan|inf)/i

/** @returns the value, or why the word is none. */
export function truthOf(word: string): boolean | string {
  return TRUTH.get(word) ?? (NOT_FINITE.test(word) ? 'invalid number: NaN and infinities are not stored' : 'invalid boolean')
}
