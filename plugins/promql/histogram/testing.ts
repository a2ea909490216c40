/** For tests: histograms without writing all of their parts. */

import type { CounterResetHint, Side } from 'svcdb/lib/histogram'
import { FloatHistogram } from './float-histogram.ts'

export interface Parts {
  schema?: number
  hint?: CounterResetHint
  /** What the buckets add up to, if left out. */
  count?: number
  sum?: number
  zeroThreshold?: number
  zeroCount?: number
  /** Bucket number to count. */
  positive?: Record<number, number>
  negative?: Record<number, number>
  bounds?: number[]
}

export function histogram(parts: Parts): FloatHistogram {
  const h = new FloatHistogram()
  h.schema = parts.bounds === undefined ? (parts.schema ?? 0) : -53
  h.counterReset = parts.hint ?? 'unknown'
  h.sum = parts.sum ?? 0
  h.zeroThreshold = parts.zeroThreshold ?? 0
  h.zeroCount = parts.zeroCount ?? 0
  h.positive = side(parts.positive)
  h.negative = side(parts.negative)
  h.customBounds = Float64Array.from(parts.bounds ?? [])
  h.count = parts.count ?? [h.zeroCount, ...h.positive.counts, ...h.negative.counts].reduce((a, b) => a + b)
  return h
}

function side(buckets: Record<number, number> = {}): Side {
  const entries = Object.entries(buckets).map(([index, count]) => [Number(index), count] as const)
  entries.sort(([a], [b]) => a - b)
  return { index: Int32Array.from(entries, ([index]) => index), counts: Float64Array.from(entries, ([, count]) => count) }
}

export function bucketsOf({ index, counts }: Side): Record<number, number> {
  return Object.fromEntries([...index].map((bucket, i) => [bucket, counts[i]]))
}
