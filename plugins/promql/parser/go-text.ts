/** Text as Go's fmt and strconv write it: error messages and printed expressions are compared byte for byte. */

const ESCAPES: Record<string, string> = {
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '\\': '\\\\',
}
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u
const PLAIN = /^[ !#-[\]-~]*$/

/** %q of a string. */
export function quote(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`
  let out = '"'
  for (const c of text) out += escapeChar(c, '"')
  return `${out}"`
}

/** %q of a character, '' standing for the end of the text. */
export function quoteChar(char: string): string {
  return `'${escapeChar(char === '' ? '\ufffd' : char, "'")}'`
}

/** %#U of a character. */
export function unicodeName(char: string): string {
  const code = (char.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')
  return PRINTABLE.test(char) ? `U+${code} '${char}'` : `U+${code}`
}

function escapeChar(char: string, own: string): string {
  if (char === own) return `\\${char}`
  const known = ESCAPES[char]
  if (known !== undefined) return known
  if (PRINTABLE.test(char)) return char
  const code = char.codePointAt(0) as number
  if (code < 0x20 || code === 0x7f) return `\\x${code.toString(16).padStart(2, '0')}`
  // How strings.ts keeps a byte that is no UTF-8.
  if (code >= 0xdc80 && code < 0xdd00) return `\\x${(code - 0xdc00).toString(16)}`
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
}

/** The shortest decimal that reads back as `value`, without an exponent. */
export function formatFloat(value: number): string {
  if (!Number.isFinite(value)) return nonFinite(value)
  const { sign, digits, point } = decimal(value)
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`
  if (point >= digits.length) return `${sign}${digits}${'0'.repeat(point - digits.length)}`
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`
}

/** %f of a float: six decimals. */
export function formatFixed(value: number): string {
  if (!Number.isFinite(value)) return nonFinite(value)
  return Math.abs(value) < 1e21 ? value.toFixed(6) : `${BigInt(value)}.000000`
}

/** Milliseconds as Prometheus writes a duration: "1h30m"; years and weeks only when nothing is left over. */
export function formatDuration(ms: number): string {
  let rest = Math.trunc(Math.abs(ms))
  if (rest === 0) return '0s'
  let out = ms < 0 ? '-' : ''
  for (const [unit, size, exact] of UNITS) {
    if (exact && rest % size !== 0) continue
    const count = Math.floor(rest / size)
    if (count === 0) continue
    out += `${count}${unit}`
    rest -= count * size
  }
  return out
}

const UNITS: readonly [string, number, boolean][] = [
  ['y', 31_536_000_000, true],
  ['w', 604_800_000, true],
  ['d', 86_400_000, false],
  ['h', 3_600_000, false],
  ['m', 60_000, false],
  ['s', 1000, false],
  ['ms', 1, false],
]

export function byteLength(text: string): number {
  return Buffer.byteLength(text)
}

/** Order of UTF-8 bytes, which is that of code points. */
export function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

function nonFinite(value: number): string {
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}

/** value = 0.digits * 10^point. */
function decimal(value: number): { sign: string; digits: string; point: number } {
  const sign = value < 0 || Object.is(value, -0) ? '-' : ''
  if (value === 0) return { sign, digits: '0', point: 1 }
  const [mantissa, exponent] = Math.abs(value).toExponential().split('e')
  return { sign, digits: mantissa.replace('.', ''), point: Number(exponent) + 1 }
}
