/** Decimal texts and 64-bit integers, exactly, without an object for each; the order of numbers. */
export { exponential, goFloat } from './go-float.ts'
export { nthElement } from './nth-element.ts'
export { asciiText, DECIMAL, type DecimalTarget, decimalEnd, decimalText, floatOf, Int64, MAX_DECIMAL_DIGITS, POW10, storeDecimal } from './numbers.ts'
export { rfc3339Nanos } from './rfc3339.ts'
