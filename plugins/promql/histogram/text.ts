/** Histograms as text: in answers of the HTTP API, and as the label value that count_values makes. */
import { BucketCursor, type HistogramParts } from 'svcdb/lib/histogram'
import { exponential, goFloat } from 'svcdb/lib/numbers'

const cursor = new BucketCursor()

/**
 * `{"count":"3","sum":"1.5","buckets":[[3,"-0.001","0.001","1"],[0,"1","2","2"]]}`: populated buckets, ascending, each with its boundaries, lower and upper bound and
 * count; no `buckets` where there are none. Written as text, for answers have many.
 */
export function toJsonText(h: HistogramParts): string {
  let text = `{"count":"${apiFloat(h.count)}","sum":"${apiFloat(h.sum)}"`
  let separator = ',"buckets":['
  cursor.open(h, false)
  while (cursor.next()) {
    if (cursor.count === 0) continue
    text += `${separator}[${boundaries()},"${apiFloat(cursor.lower)}","${apiFloat(cursor.upper)}","${apiFloat(cursor.count)}"]`
    separator = ','
  }
  return separator === ',' ? `${text}]}` : `${text}}`
}

/** 0 lower exclusive and upper inclusive, 1 lower inclusive and upper exclusive, 2 both exclusive, 3 both inclusive. */
function boundaries(): number {
  return cursor.lowerInclusive ? (cursor.upperInclusive ? 3 : 1) : cursor.upperInclusive ? 0 : 2
}

/** Plain digits between 1e-6 and 1e21: where JavaScript changes to exponents too. */
function apiFloat(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  if (value === Number.NEGATIVE_INFINITY) return '-Inf'
  const magnitude = Math.abs(value)
  if (magnitude >= 1e21 || (magnitude < 1e-6 && magnitude !== 0)) return exponential(value)
  return Object.is(value, -0) ? '-0' : String(value)
}

/** {count:3, sum:1.5, [-0.001,0.001]:1, (1,2]:2} */
export function toText(h: HistogramParts): string {
  let text = `{count:${goFloat(h.count)}, sum:${goFloat(h.sum)}`
  cursor.open(h, false, true)
  while (cursor.next()) {
    if (cursor.count === 0) continue
    const { lower, upper, lowerInclusive, upperInclusive, count } = cursor
    text += `, ${lowerInclusive ? '[' : '('}${goFloat(lower)},${goFloat(upper)}${upperInclusive ? ']' : ')'}:${goFloat(count)}`
  }
  return `${text}}`
}
