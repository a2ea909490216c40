/**
 * JSON, token by token, over bytes: for bodies that become columns, and for numbers that a double cannot hold.
 *
 * The reader stands before a token. Every failure is a JsonError with the byte it happened at. Accepts exactly RFC 8259, as
 * JSON.parse does, and text in UTF-8 only.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import { asciiText, floatOf, POW10 } from 'svcdb/lib/numbers'

export class JsonError extends Error {
  readonly at: number

  constructor(message: string, at: number) {
    super(message)
    this.at = at
  }
}

const QUOTE = 34
const COMMA = 44
const COLON = 58
const BACKSLASH = 92
/** Nesting that `skip` follows; deeper values are refused rather than risking the stack. */
const MAX_DEPTH = 64
/** Bytes from which on text is handed to JSON.parse as a whole. */
const LONG_TEXT = 4096
/** Of a number: all its digits are read, and more say nothing. */
const MAX_NUMBER_BYTES = 4096
const ESCAPES: Record<number, string> = { 34: '"', 92: '\\', 47: '/', 98: '\b', 102: '\f', 110: '\n', 114: '\r', 116: '\t' }

export class JsonReader {
  readonly bytes: Uint8Array
  at = 0
  private readonly ascii: boolean

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    this.ascii = isAscii(bytes)
    if (!this.ascii && !isUtf8(bytes)) throw new JsonError('the body is not UTF-8', 0)
  }

  /** The first byte of the next token, -1 at the end. */
  peek(): number {
    const { bytes } = this
    let c = bytes[this.at]
    while (c === 32 || c === 10 || c === 13 || c === 9) c = bytes[++this.at]
    return this.at < bytes.length ? c : -1
  }

  /** Takes the token `byte` if it is next. */
  take(byte: number): boolean {
    if (this.peek() !== byte) return false
    this.at++
    return true
  }

  expect(byte: number): void {
    if (!this.take(byte)) throw this.unexpected(`"${String.fromCharCode(byte)}"`)
  }

  unexpected(wanted: string): JsonError {
    const c = this.peek()
    const found = c < 0 ? 'the end of the body' : c > 32 && c < 127 ? `"${String.fromCharCode(c)}"` : `byte 0x${c.toString(16)}`
    return new JsonError(`expected ${wanted}, found ${found} at byte ${this.at}`, this.at)
  }

  /**
   * Between the members of an object or array: true when another follows.
   * @param close the byte that ends it; @param first whether none was read yet
   */
  more(close: number, first: boolean): boolean {
    if (first) {
      if (this.take(close)) return false
      return true
    }
    if (this.take(close)) return false
    if (!this.take(COMMA)) throw this.unexpected(`"," or "${String.fromCharCode(close)}"`)
    return true
  }

  /** A member's name and its colon. */
  key(): string {
    if (this.peek() !== QUOTE) throw this.unexpected('a member name')
    const name = this.string()
    this.expect(COLON)
    return name
  }

  string(): string {
    if (this.peek() !== QUOTE) throw this.unexpected('a string')
    const start = this.at + 1
    const end = this.stringEnd()
    this.at = end + 1
    const { bytes } = this
    if (end - start < 64 && this.ascii) {
      let text = ''
      for (let i = start; i < end; i++) {
        if (bytes[i] === BACKSLASH) return this.unescape(start, end)
        text += String.fromCharCode(bytes[i])
      }
      return text
    }
    return this.unescape(start, end)
  }

  /** Index of the closing quote of the string at `at`. */
  stringEnd(): number {
    const { bytes } = this
    let i = this.at + 1
    for (;;) {
      const c = bytes[i]
      if (c === QUOTE) return i
      if (c === undefined) throw new JsonError('the string is not closed', this.at)
      if (c < 32)
        throw new JsonError(
          `control character 0x${c.toString(16).padStart(2, '0')} in a string at byte ${i}; write it as \\u00${c.toString(16).padStart(2, '0')}`,
          i,
        )
      i += c === BACKSLASH ? 2 : 1
    }
  }

  private unescape(start: number, end: number): string {
    const { bytes } = this
    if (end - start > LONG_TEXT && bytes.subarray(start, end).includes(BACKSLASH)) {
      // Text that is all escapes would take a string for each. What is wrong with it is found out below.
      const quoted = utf8(bytes, start - 1, end + 1)
      try {
        return JSON.parse(quoted) as string
      } catch {}
    }
    let text = ''
    let from = start
    for (let i = start; i < end; i++) {
      if (bytes[i] !== BACKSLASH) continue
      text += utf8(bytes, from, i)
      const plain = ESCAPES[bytes[++i]]
      if (plain !== undefined) text += plain
      else if (bytes[i] === 117) {
        const hex = asciiText(bytes, i + 1, Math.min(i + 5, end))
        if (!/^[0-9a-fA-F]{4}$/.test(hex)) throw new JsonError(`bad escape at byte ${i - 1}`, i - 1)
        text += String.fromCharCode(Number.parseInt(hex, 16))
        i += 4
      } else throw new JsonError(`bad escape at byte ${i - 1}`, i - 1)
      from = i + 1
    }
    text += utf8(bytes, from, end)
    return text
  }

  /** Passes over a number and returns where it ends; `start` is `at` before the call. */
  numberEnd(): number {
    const { bytes } = this
    const start = this.at
    let i = bytes[start] === 45 ? start + 1 : start
    const whole = i
    while (bytes[i] > 47 && bytes[i] < 58) i++
    if (i === whole || (bytes[whole] === 48 && i > whole + 1)) throw new JsonError(`bad number at byte ${start}`, start)
    if (bytes[i] === 46) {
      const fraction = ++i
      while (bytes[i] > 47 && bytes[i] < 58) i++
      if (i === fraction) throw new JsonError(`bad number at byte ${start}`, start)
    }
    if (bytes[i] === 101 || bytes[i] === 69) {
      i++
      if (bytes[i] === 43 || bytes[i] === 45) i++
      const exponent = i
      while (bytes[i] > 47 && bytes[i] < 58) i++
      if (i === exponent) throw new JsonError(`bad number at byte ${start}`, start)
    }
    if (i - start > MAX_NUMBER_BYTES) throw new JsonError(`the number at byte ${start} is longer than ${MAX_NUMBER_BYTES} bytes`, start)
    this.at = i
    return i
  }

  /** Reads the number that is next as a double; equal to `Number(text)`, infinite where that is. */
  float(): number {
    const { bytes } = this
    const start = this.at
    const negative = bytes[start] === 45
    const whole = negative ? start + 1 : start
    let i = whole
    let value = 0
    let c = bytes[i]
    while (c > 47 && c < 58) {
      value = value * 10 + (c - 48)
      c = bytes[++i]
    }
    let scale = 0
    if (i > whole && c === 46) {
      const fraction = ++i
      c = bytes[i]
      while (c > 47 && c < 58) {
        value = value * 10 + (c - 48)
        c = bytes[++i]
      }
      scale = i - fraction
      if (scale === 0) c = 101
    }
    // Digits and power of ten are exact doubles, so their quotient is the correctly rounded number.
    const simple = i > whole && (bytes[whole] !== 48 || i === whole + 1 || bytes[whole + 1] === 46) && c !== 101 && c !== 69
    if (!simple || value >= 9007199254740992 || scale > 22) return floatOf(bytes, start, this.numberEnd())
    this.at = i
    if (scale !== 0) value /= POW10[scale]
    return negative ? -value : value
  }

  /** Takes the word (true, false, null) if it is next. */
  word(text: string): boolean {
    this.peek()
    for (let i = 0; i < text.length; i++) if (this.bytes[this.at + i] !== text.charCodeAt(i)) return false
    this.at += text.length
    return true
  }

  /** Passes over a whole value; its syntax is checked but for the escapes in its strings. */
  skip(depth = 0): void {
    const c = this.peek()
    if (depth > MAX_DEPTH) throw new JsonError(`values are nested more than ${MAX_DEPTH} deep`, this.at)
    if (c === QUOTE) this.at = this.stringEnd() + 1
    else if (c === 123) {
      this.at++
      for (let first = true; this.more(125, first); first = false) {
        if (this.peek() !== QUOTE) throw this.unexpected('a member name')
        this.at = this.stringEnd() + 1
        this.expect(COLON)
        this.skip(depth + 1)
      }
    } else if (c === 91) {
      this.at++
      for (let first = true; this.more(93, first); first = false) this.skip(depth + 1)
    } else if (c === 45 || (c > 47 && c < 58)) this.numberEnd()
    else if (!this.word('true') && !this.word('false') && !this.word('null')) throw this.unexpected('a value')
  }

  end(): void {
    if (this.peek() >= 0) throw this.unexpected('the end of the body')
  }
}

function utf8(bytes: Uint8Array, start: number, end: number): string {
  return start === end ? '' : Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('utf8')
}
