/** A histogram as JSON for people and programs: what SQL and the native API answer. The HTTP API of Prometheus has another shape. */
import { BucketCursor, emptyParts, type HistogramParts } from './buckets.ts'
import { PartsDecoder } from './parts.ts'

const cursor = new BucketCursor()
const decoder = new PartsDecoder()
const parts = emptyParts()

/**
 * `{"count":..,"sum":..,"schema":..,"buckets":[[lower,upper,count],...]}`: populated buckets in ascending order, the zero bucket among
 * them; a bound, sum or count that is infinite or NaN is null.
 */
export function histogramJson(h: HistogramParts): string {
  let text = `{"count":${number(h.count)},"sum":${number(h.sum)},"schema":${h.schema},"buckets":[`
  let separator = ''
  cursor.open(h, false)
  while (cursor.next()) {
    if (cursor.count === 0) continue
    text += `${separator}[${number(cursor.lower)},${number(cursor.upper)},${number(cursor.count)}]`
    separator = ','
  }
  return `${text}]}`
}

/** A stored histogram as JSON; 'null' for a staleness marker. @throws RangeError when the bytes are no histogram. */
export function storedHistogramJson(bytes: Uint8Array): string {
  return decoder.decode(bytes, 0, bytes.length, parts) ? histogramJson(parts) : 'null'
}

function number(value: number): string {
  return Number.isFinite(value) ? String(value) : 'null'
}
