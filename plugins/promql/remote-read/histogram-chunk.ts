/** Native histograms as chunks of one layout each (Prometheus' chunk format description, "Histogram chunk data" and its float form). */
import { CUSTOM_BUCKETS_SCHEMA, type HistogramSpan, type NativeHistogram } from 'svcdb/lib/histogram'
import { BitWriter, XorValue } from './bit-writer.ts'

export const HISTOGRAM_ENCODING = 2
export const FLOAT_HISTOGRAM_ENCODING = 3
const FLAGS = { unknown: 0, not_reset: 0x40, reset: 0x80, gauge: 0xc0 } as const
/** Thousandths up to this take four bytes at most. */
const MAX_THOUSANDTHS = 33_554_430
const scratch = new Float64Array(1)
const halves = new Int32Array(scratch.buffer)
const out = new BitWriter()

export type Succession = 'same' | 'reset' | 'other'

/**
 * What `next` is to the one before it: of the same chunk, the first after a counter reset, or of other buckets. What stands inside a chunk is read
 * as free of resets, so that one begins a chunk.
 */
export function succession(before: NativeHistogram, next: NativeHistogram): Succession {
  const gauge = next.counterReset === 'gauge'
  if (!gauge && next.counterReset === 'reset') return 'reset'
  if (before.schema !== next.schema || before.zeroThreshold !== next.zeroThreshold || before.integer !== next.integer) return 'other'
  if (gauge !== (before.counterReset === 'gauge')) return 'other'
  if (!sameSpans(before.positiveSpans, next.positiveSpans) || !sameSpans(before.negativeSpans, next.negativeSpans)) return 'other'
  if (!sameNumbers(before.customBounds, next.customBounds)) return 'other'
  return !gauge && fell(before, next) ? 'reset' : 'same'
}

function fell(before: NativeHistogram, next: NativeHistogram): boolean {
  if (next.count < before.count || next.zeroCount < before.zeroCount) return true
  return next.positiveCounts.some((count, i) => count < before.positiveCounts[i]) || next.negativeCounts.some((count, i) => count < before.negativeCounts[i])
}

function sameSpans(a: readonly HistogramSpan[], b: readonly HistogramSpan[]): boolean {
  return a.length === b.length && a.every(({ offset, length }, i) => offset === b[i].offset && length === b[i].length)
}

function sameNumbers(a: Float64Array, b: Float64Array): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i])
}

/**
 * @param list each the `same` as the one before it, at most 65,535.
 * @param reset the first comes after a counter reset.
 */
export function histogramChunk(times: readonly number[], list: readonly NativeHistogram[], reset: boolean): Uint8Array {
  const [first] = list
  out.bits(list.length, 16)
  out.bits(first.counterReset !== 'gauge' && reset ? FLAGS.reset : FLAGS[first.counterReset], 8)
  layout(first)
  if (first.integer) integers(times, list)
  else floats(times, list)
  return out.take()
}

function layout({ zeroThreshold, schema, positiveSpans, negativeSpans, customBounds }: NativeHistogram): void {
  threshold(zeroThreshold)
  out.varbitInt(schema)
  for (const spans of [positiveSpans, negativeSpans]) {
    out.varbitUint(spans.length)
    for (const { length, offset } of spans) {
      out.varbitUint(length)
      out.varbitInt(offset)
    }
  }
  if (schema !== CUSTOM_BUCKETS_SCHEMA) return
  out.varbitUint(customBounds.length)
  for (const bound of customBounds) {
    const thousandths = bound * 1000
    const whole = Math.round(thousandths)
    if (thousandths >= 0 && thousandths <= MAX_THOUSANDTHS && whole / 1000 === bound) out.varbitUint(whole + 1)
    else {
      out.bits(0, 1)
      out.float(bound)
    }
  }
}

/** Powers of two from 2^-243 to 2^10 take a byte. */
function threshold(value: number): void {
  scratch[0] = value
  const exponent = ((halves[1] >>> 20) & 0x7ff) - 1023
  const power = value > 0 && halves[0] === 0 && (halves[1] & 0xfffff) === 0
  if (value === 0) out.bits(0, 8)
  else if (power && exponent >= -243 && exponent <= 10) out.bits(exponent + 244, 8)
  else {
    out.bits(255, 8)
    out.float(value)
  }
}

function floats(times: readonly number[], list: readonly NativeHistogram[]): void {
  const [first] = list
  const columns = Array.from({ length: 3 + first.positiveCounts.length + first.negativeCounts.length }, () => new XorValue())
  let delta = 0
  for (const [i, { count, zeroCount, sum, positiveCounts, negativeCounts }] of list.entries()) {
    if (i === 0) out.varbitInt(times[0])
    else {
      const newDelta = times[i] - times[i - 1]
      out.varbitInt(newDelta - delta)
      delta = newDelta
    }
    let column = 0
    const write = (value: number): void => columns[column++][i === 0 ? 'first' : 'next'](out, value)
    write(count)
    write(zeroCount)
    write(sum)
    positiveCounts.forEach(write)
    negativeCounts.forEach(write)
  }
}

function integers(times: readonly number[], list: readonly NativeHistogram[]): void {
  const sum = new XorValue()
  const time = new Counter()
  const count = new Counter()
  const zero = new Counter()
  const buckets = [list[0].positiveCounts, list[0].negativeCounts].map(({ length }) => Array.from({ length }, () => new Counter()))
  for (const [i, histogram] of list.entries()) {
    if (i === 0) {
      out.varbitInt(time.start(times[0]))
      out.varbitUint(count.start(histogram.count))
      out.varbitUint(zero.start(histogram.zeroCount))
      sum.first(out, histogram.sum)
    } else {
      out.varbitInt(time.change(times[i]))
      out.varbitInt(count.change(histogram.count))
      out.varbitInt(zero.change(histogram.zeroCount))
      sum.next(out, histogram.sum)
    }
    for (const [side, counts] of [histogram.positiveCounts, histogram.negativeCounts].entries()) {
      let before = 0
      for (let b = 0; b < counts.length; b++) {
        // A bucket stands as its difference to the bucket before it.
        const step = counts[b] - before
        before = counts[b]
        out.varbitInt(i === 0 ? buckets[side][b].start(step) : buckets[side][b].change(step))
      }
    }
  }
}

/** A number of which each value is written as what its growth changes by. */
class Counter {
  private value = 0
  private delta = 0

  start(value: number): number {
    return (this.value = value)
  }

  change(value: number): number {
    const delta = value - this.value
    const change = delta - this.delta
    this.value = value
    this.delta = delta
    return change
  }
}
