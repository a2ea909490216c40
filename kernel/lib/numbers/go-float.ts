/** Numbers as Go prints them with %g and %v: what Prometheus' texts have, and what clients compare. */

/** A float as Go prints it with %g, such as `1e+06`, `+Inf` and `-0`. */
export function goFloat(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  if (value === Number.NEGATIVE_INFINITY) return '-Inf'
  if (value === 0) return Object.is(value, -0) ? '-0' : '0'
  const magnitude = Math.abs(value)
  // The shortest digits are those of JavaScript; only the choice of the form and the exponent's two digits differ.
  if (magnitude >= 1e-4 && magnitude < 1e6) return String(value)
  return exponential(value)
}

/** With an exponent of a sign and at least two digits: 1e+06. */
export function exponential(value: number): string {
  const text = value.toExponential()
  const at = text.indexOf('e')
  const digits = text.slice(at + 2)
  return `${text.slice(0, at + 2)}${digits.length === 1 ? '0' : ''}${digits}`
}
