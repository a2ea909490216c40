/** Lines as a whole, for what comes after a failure: where one ends, and how it is shown to its sender. */

const NEWLINE = 10
const RETURN = 13
const SPACE = 32
const QUOTE = 34
const EQUALS = 61
const BACKSLASH = 92
/** Of a line that cannot be parsed, so much is quoted. */
const QUOTED_LENGTH = 512

/** The line at `start` as text, cut where it is long. */
export function quotedLine(bytes: Uint8Array, start: number, limit: number): string {
  let end = endOfLine(bytes, start, limit)
  if (bytes[end - 1] === RETURN) end--
  const cut = end - start > QUOTED_LENGTH
  const text = Buffer.from(bytes.subarray(start, cut ? start + QUOTED_LENGTH : end)).toString('utf8')
  return cut ? `${text}...` : text
}

/**
 * Index of the newline that ends the line at `start`; bytes[limit - 1] is one. A newline inside a quoted field value does not, unless the quote
 * is never closed: then the first one does, so that one bad line does not swallow the rest of the body.
 */
export function endOfLine(bytes: Uint8Array, start: number, limit: number): number {
  let at = start
  while (bytes[at] !== SPACE && bytes[at] !== NEWLINE) at += bytes[at] === BACKSLASH && bytes[at + 1] !== NEWLINE ? 2 : 1
  for (; bytes[at] !== NEWLINE; at++) {
    if (bytes[at] !== QUOTE || bytes[at - 1] !== EQUALS) continue
    let close = at + 1
    while (close < limit && bytes[close] !== QUOTE) close += bytes[close] === BACKSLASH ? 2 : 1
    if (close >= limit) return bytes.indexOf(NEWLINE, at)
    at = close
  }
  return at
}
