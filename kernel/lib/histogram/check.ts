/**
 * Whether a histogram may be stored, and what Prometheus says when it may not: senders compare the texts.
 * Also the one repair that is made: a resolution finer than is kept is reduced.
 */

import { goFloat } from '../numbers/index.ts'
import { MAX_INDEX } from './layout.ts'
import { CUSTOM_BUCKETS_SCHEMA, type HistogramSpan, MAX_EXPONENTIAL_SCHEMA, MIN_EXPONENTIAL_SCHEMA, type NativeHistogram } from './native-histogram.ts'

/** Schemas that are understood, if only to reduce them. */
const MIN_KNOWN_SCHEMA = -9
const MAX_KNOWN_SCHEMA = 52
const MISMATCH = "histogram's observation count should equal the number of observations found in the buckets (in absence of NaN)"
const TOO_FEW = "histogram's observation count should be at least the number of observations found in the buckets"
const NEGATIVE_BUCKET = 'histogram has a bucket whose observation count is negative'
const NEGATIVE_OFFSET = 'histogram has a span whose offset is negative'
const SPANS_MISMATCH = 'histogram spans specify different number of buckets than provided'

/** Why a histogram is refused; undefined when it is fine. */
export function checkHistogram(h: NativeHistogram): string | undefined {
  const custom = h.schema === CUSTOM_BUCKETS_SCHEMA
  const layout = custom ? customProblem(h) : exponentialProblem(h)
  if (layout !== undefined) return layout
  if (!h.integer && h.count < 0) return `observation count is  ${goFloat(h.count)}: histogram's observation count is negative`
  const positive = countProblem(h.positiveCounts)
  if (positive !== undefined) return `positive side: ${positive}`
  return h.integer ? totalProblem(h) : undefined
}

/** Whether `reduceToKept` can make it one that `checkHistogram` knows; else Prometheus' text. */
export function schemaProblem(schema: number): string | undefined {
  if (schema === CUSTOM_BUCKETS_SCHEMA || (schema >= MIN_KNOWN_SCHEMA && schema <= MAX_KNOWN_SCHEMA)) return undefined
  return `histogram has an unknown schema, which must be between ${MIN_KNOWN_SCHEMA} and ${MAX_KNOWN_SCHEMA} for exponential buckets, or ${CUSTOM_BUCKETS_SCHEMA} for custom buckets, got schema ${schema}`
}

/** A histogram of a finer schema than is kept, at the finest that is; else itself. */
export function reduceToKept(h: NativeHistogram): NativeHistogram {
  if (h.schema <= MAX_EXPONENTIAL_SCHEMA) return h
  const shift = h.schema - MAX_EXPONENTIAL_SCHEMA
  const positive = reduceSide(h.positiveSpans, h.positiveCounts, shift)
  const negative = reduceSide(h.negativeSpans, h.negativeCounts, shift)
  return {
    ...h,
    schema: MAX_EXPONENTIAL_SCHEMA,
    positiveSpans: positive.spans,
    positiveCounts: positive.counts,
    negativeSpans: negative.spans,
    negativeCounts: negative.counts,
  }
}

function reduceSide(spans: readonly HistogramSpan[], counts: Float64Array, shift: number): { spans: HistogramSpan[]; counts: Float64Array } {
  const out: HistogramSpan[] = []
  // At most as many as before. Typed, and the power out of the loop: senders may give tens of thousands of buckets, which are reduced in one go.
  const sums = new Float64Array(counts.length)
  // Not >>: a schema of 52 puts buckets beyond 32 bits. Exact, for it is a power of two.
  const scale = 2 ** -shift
  let used = 0
  let index = 0
  let next = 0
  let last = 0
  for (const { offset, length } of spans) {
    index += offset
    const end = Math.min(next + length, counts.length)
    for (; next < end; index++, next++) {
      const target = Math.ceil(index * scale) + 0 // + 0: no -0
      if (used === 0 || target !== last) {
        if (used > 0 && target === last + 1) out[out.length - 1].length++
        else out.push({ offset: used === 0 ? target : target - last - 1, length: 1 })
        last = target
        used++
      }
      sums[used - 1] += counts[next]
    }
  }
  return { spans: out, counts: sums.slice(0, used) }
}

function exponentialProblem(h: NativeHistogram): string | undefined {
  if (h.schema < MIN_EXPONENTIAL_SCHEMA || h.schema > MAX_EXPONENTIAL_SCHEMA || !Number.isInteger(h.schema)) {
    return `histogram has an invalid schema, which must be between ${MIN_EXPONENTIAL_SCHEMA} and ${MAX_EXPONENTIAL_SCHEMA} for exponential buckets, or ${CUSTOM_BUCKETS_SCHEMA} for custom buckets, got schema ${h.schema}`
  }
  const positive = spanProblem(h.positiveSpans, h.positiveCounts.length, 1)
  if (positive !== undefined) return `positive side: ${positive}`
  const negative = spanProblem(h.negativeSpans, h.negativeCounts.length, 1) ?? countProblem(h.negativeCounts)
  if (negative !== undefined) return `negative side: ${negative}`
  if (h.zeroCount < 0) return `zero bucket has observation count of ${goFloat(h.zeroCount)}: ${NEGATIVE_BUCKET}`
  return h.customBounds.length > 0 ? 'histogram with exponential schema must not have custom bounds' : undefined
}

function customProblem(h: NativeHistogram): string | undefined {
  const bounds = boundProblem(h)
  if (bounds !== undefined) return `custom buckets: ${bounds}`
  if (h.zeroCount !== 0) return 'custom buckets: must have zero count of 0'
  if (h.zeroThreshold !== 0) return 'custom buckets: must have zero threshold of 0'
  if (h.negativeSpans.length > 0) return 'custom buckets: must not have negative spans'
  return h.negativeCounts.length > 0 ? 'custom buckets: must not have negative buckets' : undefined
}

function boundProblem({ customBounds, positiveSpans, positiveCounts }: NativeHistogram): string | undefined {
  for (let i = 0; i < customBounds.length; i++) {
    const bound = customBounds[i]
    if (Number.isNaN(bound)) return 'histogram custom bounds must not be NaN'
    if (i > 0 && bound <= customBounds[i - 1]) {
      return `previous bound is ${fixed(customBounds[i - 1])} and current is ${fixed(bound)}: histogram custom bounds must be in strictly increasing order`
    }
  }
  if (customBounds.at(-1) === Number.POSITIVE_INFINITY) return 'last +Inf bound must not be explicitly defined: histogram custom bounds must be finite'
  const spans = spanProblem(positiveSpans, positiveCounts.length, 0)
  if (spans !== undefined) return spans
  let reach = 0
  for (const { offset, length } of positiveSpans) reach += offset + length
  if (reach <= customBounds.length + 1) return undefined
  return `only ${customBounds.length} custom bounds defined which is insufficient to cover total span length of ${reach}: histogram custom bounds are too few`
}

/** @param from the first span whose offset must not be negative */
function spanProblem(spans: readonly HistogramSpan[], counts: number, from: number): string | undefined {
  let buckets = 0
  let reach = 0
  for (const [i, { offset, length }] of spans.entries()) {
    if (i >= from && offset < 0) return `span number ${i + 1} with offset ${offset}: ${NEGATIVE_OFFSET}`
    buckets += length
    reach += offset + length
    // No number falls into such a bucket; they could be written, but no reader takes them.
    if (Math.abs(offset) > MAX_INDEX || Math.abs(reach) > MAX_INDEX) return `span number ${i + 1} with offset ${offset}: it is beyond all numbers`
  }
  return buckets === counts ? undefined : `spans need ${buckets} buckets, have ${counts} buckets: ${SPANS_MISMATCH}`
}

function countProblem(counts: Float64Array): string | undefined {
  let bad = 0
  while (bad < counts.length && !(counts[bad] < 0)) bad++
  return bad === counts.length ? undefined : `bucket number ${bad + 1} has observation count of ${goFloat(counts[bad])}: ${NEGATIVE_BUCKET}`
}

/** Only integers add up exactly; a sum of NaN says that observations of NaN were counted, which are in no bucket. */
function totalProblem(h: NativeHistogram): string | undefined {
  let found = h.zeroCount
  for (let i = 0; i < h.negativeCounts.length; i++) found += h.negativeCounts[i]
  for (let i = 0; i < h.positiveCounts.length; i++) found += h.positiveCounts[i]
  const fine = Number.isNaN(h.sum) ? found <= h.count : found === h.count
  if (fine) return undefined
  return `${found} observations found in buckets, but the Count field is ${h.count}: ${Number.isNaN(h.sum) ? TOO_FEW : MISMATCH}`
}

/** Go's %f. */
function fixed(value: number): string {
  return Number.isFinite(value) ? value.toFixed(6) : goFloat(value)
}
