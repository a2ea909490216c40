/** Dense bucket counts, as OTLP sends them, to one span of those that are populated and what lies between. Pure. */
import type { HistogramSpan } from 'svcdb/lib/histogram'

interface Side {
  spans: HistogramSpan[]
  counts: Float64Array
}

const NOTHING: Side = { spans: [], counts: new Float64Array(0) }

/** @param index of the first count. @returns counts that are a view of `values`: good until these change. */
export function sideOf(values: Float64Array, length: number, index: number): Side {
  let first = 0
  let end = length
  while (first < end && values[first] === 0) first++
  while (end > first && values[end - 1] === 0) end--
  if (first === end) return NOTHING
  return { spans: [{ offset: index + first, length: end - first }], counts: values.subarray(first, end) }
}
