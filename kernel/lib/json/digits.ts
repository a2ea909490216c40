/** Of ECMAScript; the types of the compiler do not have it yet. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): object }

/**
 * A whole number with all its digits, such as nanoseconds: JSON.stringify writes what is returned as a number. Other writers, loggers among them, see an object.
 * @param value digits, with a sign or without. @throws SyntaxError for other text.
 */
export function jsonDigits(value: bigint | string): object {
  return rawJSON(String(value))
}
