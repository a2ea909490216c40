/** Floats as text where the shortest form (functions/format.ts) is not what Prometheus writes. */

/** What has no digits to place. */
function special(x: number): string {
  if (Number.isNaN(x)) return 'NaN'
  if (x === 0) return Object.is(x, -0) ? '-0' : '0'
  return x > 0 ? '+Inf' : '-Inf'
}

/** As `%.<digits>g` writes it. */
export function formatPrecise(x: number, digits: number): string {
  if (!Number.isFinite(x) || x === 0) return special(x)
  const [mantissa, exponentText] = x.toExponential(digits - 1).split('e')
  const exponent = Number(exponentText)
  const trimmed = mantissa.includes('.') ? mantissa.replace(/\.?0+$/, '') : mantissa
  return exponent < -4 || exponent >= digits ? scientific(trimmed, exponent) : plain(trimmed, exponent)
}

function scientific(mantissa: string, exponent: number): string {
  const size = Math.abs(exponent)
  return `${mantissa}e${exponent < 0 ? '-' : '+'}${size < 10 ? '0' : ''}${size}`
}

function plain(mantissa: string, exponent: number): string {
  const sign = mantissa.startsWith('-') ? '-' : ''
  const digits = mantissa.replace('-', '').replace('.', '')
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`
  if (digits.length <= exponent + 1) return `${sign}${digits}${'0'.repeat(exponent + 1 - digits.length)}`
  return `${sign}${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`
}
