/** Numbers and strings as Prometheus' messages and labels write them (Go's %g and %q). */
export { quote } from '../parser/go-text.ts'

/** From here on numbers have an exponent, however few their digits are. */
const EXPONENT_FROM = 6

/** The shortest form, with an exponent below 1e-4 and from 1e6 on. */
export function formatFloat(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf'
  if (value === 0) return Object.is(value, -0) ? '-0' : '0'
  const [digits, power] = value.toExponential().split('e')
  const exponent = Number(power)
  if (exponent < -4 || exponent >= EXPONENT_FROM) {
    const size = Math.abs(exponent)
    return `${digits}e${exponent < 0 ? '-' : '+'}${size < 10 ? '0' : ''}${size}`
  }
  const negative = digits.startsWith('-')
  const plain = digits.replace(/[-.]/g, '')
  const sign = negative ? '-' : ''
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${plain}`
  if (plain.length <= exponent + 1) return sign + plain.padEnd(exponent + 1, '0')
  return `${sign}${plain.slice(0, exponent + 1)}.${plain.slice(exponent + 1)}`
}

/** As a label value in OpenMetrics: always recognisable as a float. */
export function formatLabelFloat(value: number): string {
  const text = formatFloat(value)
  return Number.isFinite(value) && !/[.e]/.test(text) ? `${text}.0` : text
}
