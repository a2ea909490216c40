/** Lines as a whole: where one ends, and how it is shown to its sender after a failure. */

const NEWLINE = 10
const RETURN = 13
const SPACE = 32
const QUOTE = 34
const EQUALS = 61
const BACKSLASH = 92
/** Of a line that cannot be parsed, so much is quoted. */
const QUOTED_LENGTH = 512

/** A body with a newline at its end, and always as the same class of array: a Buffer is another. */
export function terminated(body: Uint8Array): Uint8Array {
  if (body.length > 0 && body[body.length - 1] === NEWLINE) return new Uint8Array(body.buffer, body.byteOffset, body.length)
  const bytes = new Uint8Array(body.length + 1)
  bytes.set(body)
  bytes[body.length] = NEWLINE
  return bytes
}

/** The line at `start` as text, cut where it is long. */
export function quotedLine(bytes: Uint8Array, start: number, limit: number): string {
  // Where a line is cut need not be known to the byte, nor looked for through all of it.
  if (bytes.indexOf(NEWLINE, start) - start > QUOTED_LENGTH * 2) return cutText(bytes, start)
  let end = endOfLine(bytes, start, limit)
  if (bytes[end - 1] === RETURN) end--
  return end - start > QUOTED_LENGTH ? cutText(bytes, start) : Buffer.from(bytes.subarray(start, end)).toString('utf8')
}

function cutText(bytes: Uint8Array, start: number): string {
  return `${Buffer.from(bytes.subarray(start, start + QUOTED_LENGTH)).toString('utf8')}...`
}

/** Whether it looks like several lines whose ends were taken away: where a line has its time there is something with `=`. */
export function areJoined(body: Uint8Array): boolean {
  if (body.indexOf(NEWLINE) >= 0) return false
  const text = Buffer.from(body.subarray(0, QUOTED_LENGTH)).toString('latin1')
  // A text may have all of this within, and a blank behind a comma is another mistake.
  const [key, fields, time] = text.split(' ', 3)
  return !/["\\]/.test(text) && time !== undefined && time.includes('=') && !key.endsWith(',') && /=.*[^,=]$/.test(fields)
}

/** Newlines in [start, end). */
export function newlines(bytes: Uint8Array, start: number, end: number): number {
  let count = 0
  for (let at = bytes.indexOf(NEWLINE, start); at >= 0 && at < end; at = bytes.indexOf(NEWLINE, at + 1)) count++
  return count
}

/** Of measurement and tags as they are written: hashed and taken apart in one go. */
const MAX_KEY_BYTES = 1_048_576
const COMMA = 44

/** Index of the space that ends the series key at `start`, or why there is none. */
export function keyEnd(bytes: Uint8Array, start: number): number | string {
  const far = start + MAX_KEY_BYTES
  let at = start
  while (at < far) {
    const c = bytes[at]
    if (c === SPACE) return at
    if (c === NEWLINE) return bytes[start] === COMMA ? 'missing measurement' : 'missing fields'
    at += c === BACKSLASH && bytes[at + 1] !== NEWLINE ? 2 : 1
  }
  return `series key is longer than ${MAX_KEY_BYTES} bytes`
}

/** Index of the equals sign that ends the field name at `start`, or why there is none. */
export function nameEnd(bytes: Uint8Array, start: number): number | string {
  let at = start
  for (;;) {
    const c = bytes[at]
    if (c === EQUALS) return at === start ? 'missing field key' : at
    if (c === COMMA || c === SPACE || c === NEWLINE) return 'invalid field format'
    at += c === BACKSLASH && bytes[at + 1] !== NEWLINE ? 2 : 1
  }
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
