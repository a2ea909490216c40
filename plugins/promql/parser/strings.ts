/** String literals in their three quotes: where one ends, and what it stands for. */
import { isUtf8 } from 'node:buffer'
import { unicodeName } from './go-text.ts'

const SIMPLE: Record<string, string> = { a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v', '\\': '\\' }
/** Digits, base and largest value of the numeric escapes; \x and octal ones stand for a byte. */
const NUMERIC: Record<string, [digits: number, base: number, max: number]> = {
  x: [2, 16, 255],
  u: [4, 16, 0x10ffff],
  U: [8, 16, 0x10ffff],
}
const OCTAL: [number, number, number] = [3, 8, 255]

/** Finds the end of the string that opens at `start`, or says what is wrong with it. */
export function scanString(text: string, start: number): { end: number; error?: string } {
  const quote = text[start]
  const raw = quote === '`'
  let at = start + 1
  for (;;) {
    const code = text.codePointAt(at)
    if (code === undefined || (code === 10 && !raw)) return { end: at, error: raw ? 'unterminated raw string' : 'unterminated quoted string' }
    // What a decoder of UTF-8 leaves of invalid bytes.
    if (code === 0xfffd || (code >= 0xd800 && code < 0xe000)) return { end: at, error: 'invalid UTF-8 rune' }
    const c = String.fromCodePoint(code)
    at += c.length
    if (c === quote) return { end: at }
    if (c !== '\\' || raw) continue
    const error = checkEscape(text, at, quote)
    if (error !== undefined) return { end: at, error }
    at++
  }
}

function checkEscape(text: string, at: number, quote: string): string | undefined {
  const c = text[at]
  if (c === undefined) return 'escape sequence not terminated'
  if (c === quote || SIMPLE[c] !== undefined) return undefined
  const octal = c >= '0' && c <= '7'
  const numeric = octal ? OCTAL : NUMERIC[c]
  if (numeric === undefined) return `unknown escape sequence ${unicodeName(charAt(text, at))}`
  const [digits, base, max] = numeric
  const from = octal ? at : at + 1
  let value = 0
  for (let i = from; i < from + digits; i++) {
    const digit = Number.parseInt(text[i] ?? '', base)
    if (text[i] === undefined) return 'escape sequence not terminated'
    if (Number.isNaN(digit)) return `illegal character ${unicodeName(charAt(text, i))} in escape sequence`
    value = value * base + digit
  }
  return value > max || (value >= 0xd800 && value < 0xe000) ? 'escape sequence is an invalid Unicode code point' : undefined
}

function charAt(text: string, at: number): string {
  return String.fromCodePoint(text.codePointAt(at) as number)
}

/**
 * What a literal that `scanString` took stands for. A byte that is no UTF-8, written as `\xff`, becomes a lone surrogate, U+DC00 more than
 * itself: `isWellFormed` tells such texts, and encoding them gives the replacement character.
 */
export function unquote(literal: string): string {
  const body = literal.slice(1, -1)
  if (literal[0] === '`' || !body.includes('\\')) return body
  const bytes: Uint8Array[] = []
  const put = (text: string) => bytes.push(Buffer.from(text))
  let from = 0
  for (let at = body.indexOf('\\'); at >= 0; at = body.indexOf('\\', from)) {
    put(body.slice(from, at))
    const c = body[at + 1]
    const octal = c >= '0' && c <= '7'
    const numeric = octal ? OCTAL : NUMERIC[c]
    if (numeric === undefined) {
      put(SIMPLE[c] ?? c)
      from = at + 2
      continue
    }
    const start = octal ? at + 1 : at + 2
    from = start + numeric[0]
    const value = Number.parseInt(body.slice(start, from), numeric[1])
    if (numeric[2] === 255) bytes.push(Uint8Array.of(value))
    else put(String.fromCodePoint(value))
  }
  put(body.slice(from))
  return decode(Buffer.concat(bytes))
}

function decode(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString()
  let out = ''
  for (let at = 0; at < bytes.length; ) {
    const size = [1, 2, 3, 4].find((n) => at + n <= bytes.length && isUtf8(bytes.subarray(at, at + n)))
    out += size === undefined ? String.fromCharCode(0xdc00 + bytes[at]) : bytes.toString('utf8', at, at + size)
    at += size ?? 1
  }
  return out
}
