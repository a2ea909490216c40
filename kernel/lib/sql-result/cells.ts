/** JSON text of the cells of a vector, for the types that large results are made of: nothing is made for a cell but its text. */
import { BILLION, billionsOf, restOf } from './billions.ts'
import type { SqlVector } from './chunk.ts'

/** Of a value that is not missing. */
export type CellText = (row: number) => string

const TEXTS = 1024
const TEXT_LENGTH = 64

/** Undefined for vectors that are read value by value. */
export function cellTexts(type: string, { values }: SqlVector): CellText | undefined {
  if (values instanceof BigInt64Array && (type === 'Int64' || type.startsWith('Time'))) return integerTexts(values)
  if (values instanceof Float64Array && type === 'Float64') return doubleTexts(values)
  if (Array.isArray(values) && type === 'Utf8') return stringTexts(values)
  return undefined
}

/** Digits of 64-bit integers: BigInts are only made of negative ones beyond 32 bits. Timestamps that follow each other share their seconds. */
function integerTexts(values: BigInt64Array): CellText {
  const halves = new Int32Array(values.buffer, values.byteOffset, values.length * 2)
  let known = -1
  let head = ''
  return (row) => {
    const low = halves[row * 2]
    const high = halves[row * 2 + 1]
    if (high === low >> 31) return String(low)
    if (high < 0) return String(values[row])
    const billions = billionsOf(low, high)
    const rest = restOf(low, billions)
    if (billions !== known) {
      known = billions
      head = String(billions)
    }
    return head + (rest === 0 ? '000000000' : String(BILLION + rest).slice(1))
  }
}

function doubleTexts(values: Float64Array): CellText {
  return (row) => doubleText(values[row])
}

/** NaN and infinities have no number in JSON. */
export function doubleText(value: number): string {
  if (value - value !== 0) return 'null'
  // Up to two decimals, which many measured values have: no shorter number is the same double, and integers are quicker to write.
  const hundredths = Math.round(value * 100)
  if (hundredths > 0 && hundredths < 2 ** 31 && hundredths / 100 === value) {
    const whole = Math.floor(hundredths / 100)
    const rest = hundredths - whole * 100
    if (rest === 0) return String(whole)
    return rest % 10 === 0 ? `${whole}.${rest / 10}` : rest < 10 ? `${whole}.0${rest}` : `${whole}.${rest}`
  }
  return value === 0 && 1 / value < 0 ? '-0.0' : String(value)
}

/** What JSON writes as it is: neither quotes, backslashes and control characters, nor surrogates, which it escapes where they stand alone. */
const PLAIN = /^[ !#-[\]-\ud7ff\ue000-\uffff]*$/

function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text)
}

/** Texts of tags come again and again. */
function stringTexts(values: readonly unknown[]): CellText {
  const known = new Map<string, string>()
  return (row) => {
    const value = values[row]
    if (value === null || value === undefined) return 'null'
    if (typeof value !== 'string') return JSON.stringify(String(value))
    if (value.length > TEXT_LENGTH) return JSON.stringify(value)
    let text = known.get(value)
    if (text === undefined) {
      text = quoted(value)
      if (known.size < TEXTS) known.set(value, text)
    }
    return text
  }
}
