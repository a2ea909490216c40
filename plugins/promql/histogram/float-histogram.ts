/**
 * A native histogram in a query: counts are doubles, and may be fractions or negative after arithmetic.
 *
 * Methods that calculate change the histogram they are called on: copy first what somebody else may hold. Bucket numbers (`index` of a
 * side) and custom bounds are shared between histograms and are never changed in place.
 */

import {
  addInCommonBounds,
  addSide,
  type CounterResetHint,
  CUSTOM_BUCKETS_SCHEMA,
  commonBounds,
  compactSide,
  copySide,
  emptySide,
  firstAbove,
  fraction,
  type HistogramParts,
  kahanAddSide,
  kahanAt,
  kahanReduceSide,
  mean,
  type NanNote,
  NO_COUNTS,
  otherZero,
  quantile,
  reconcileZeroBuckets,
  reduceSide,
  type Side,
  sameBounds,
  sameCounts,
  sameIndex,
  variance,
} from 'svcdb/lib/histogram'
import { fell } from './reset.ts'
import { toJsonText, toText } from './text.ts'
import { trim } from './trim.ts'

/** What an addition or subtraction met, as bits; 0 is nothing. */
export const ADD_INCOMPATIBLE = 1
/** One side says that the counter was reset, the other that it was not: the result's hint is unknown. */
export const ADD_COLLISION = 2
/** Custom bounds differed: the result has those that both had. */
export const ADD_RECONCILED = 4

export class FloatHistogram implements HistogramParts {
  schema = 0
  counterReset: CounterResetHint = 'unknown'
  count = 0
  sum = 0
  zeroThreshold = 0
  zeroCount = 0
  positive: Side = emptySide()
  negative: Side = emptySide()
  customBounds: Float64Array = NO_COUNTS

  get custom(): boolean {
    return this.schema === CUSTOM_BUCKETS_SCHEMA
  }

  copy(): FloatHistogram {
    const h = this.emptyCopy()
    h.count = this.count
    h.sum = this.sum
    h.zeroCount = this.zeroCount
    h.positive = copySide(this.positive)
    h.negative = copySide(this.negative)
    return h
  }

  /** All zeros in the same buckets: where `kahanAdd` keeps what rounding loses. */
  compensation(): FloatHistogram {
    const h = this.emptyCopy()
    h.positive = { index: this.positive.index, counts: new Float64Array(this.positive.counts.length) }
    h.negative = { index: this.negative.index, counts: new Float64Array(this.negative.counts.length) }
    return h
  }

  /** Adds another histogram at the coarser resolution and the wider zero bucket of both. @returns ADD_ bits; nothing is added when incompatible. */
  add(other: FloatHistogram): number {
    return this.combine(other, 1)
  }

  /** As `add`. The operator - makes a gauge of the result besides: set `counterReset`. */
  sub(other: FloatHistogram): number {
    return this.combine(other, -1)
  }

  /** As `add`, with what rounding loses in `lost`: made by `compensation`, or a copy of one that was. Add it at the end. */
  kahanAdd(other: FloatHistogram, lost: FloatHistogram): number {
    if (this.custom !== other.custom) return ADD_INCOMPATIBLE
    const met = this.adoptHint(other)
    totals[0] = this.count
    totals[1] = this.sum
    lostTotals[0] = lost.count
    lostTotals[1] = lost.sum
    kahanAt(totals, lostTotals, 0, other.count)
    kahanAt(totals, lostTotals, 1, other.sum)
    ;[this.count, this.sum] = totals
    ;[lost.count, lost.sum] = lostTotals
    if (this.custom) return met | this.addCustom(other, lost, 1)
    reconcileZeroBuckets(this, other, lost)
    totals[0] = this.zeroCount
    lostTotals[0] = lost.zeroCount
    kahanAt(totals, lostTotals, 0, otherZero.count)
    kahanAt(totals, lostTotals, 0, otherZero.lost)
    this.zeroCount = totals[0]
    lost.zeroCount = lostTotals[0]
    this.kahanAddSides(other, lost, 'positive')
    this.kahanAddSides(other, lost, 'negative')
    this.schema = Math.min(this.schema, other.schema)
    lost.schema = this.schema
    lost.zeroThreshold = this.zeroThreshold
    return met
  }

  mul(factor: number): this {
    this.zeroCount *= factor
    this.count *= factor
    this.sum *= factor
    scale(this.positive.counts, factor)
    scale(this.negative.counts, factor)
    if (factor < 0) this.counterReset = 'gauge'
    return this
  }

  /** Division by zero leaves no buckets. */
  div(divisor: number): this {
    this.zeroCount /= divisor
    this.count /= divisor
    this.sum /= divisor
    if (divisor === 0) {
      this.positive = emptySide()
      this.negative = emptySide()
      return this
    }
    for (const { counts } of [this.positive, this.negative]) for (let i = 0; i < counts.length; i++) counts[i] /= divisor
    if (divisor < 0) this.counterReset = 'gauge'
    return this
  }

  /** Leaves out empty buckets. */
  compact(): this {
    compactSide(this.positive)
    compactSide(this.negative)
    return this
  }

  /** To a coarser exponential schema. */
  reduceResolution(schema: number): this {
    if (this.custom || schema >= this.schema) return this
    this.positive = reduceSide(this.positive, this.schema - schema)
    this.negative = reduceSide(this.negative, this.schema - schema)
    this.schema = schema
    return this
  }

  /** Same buckets, also empty ones, with the same counts; the counter reset hint does not matter. */
  equals(other: FloatHistogram): boolean {
    if (this.schema !== other.schema || !Object.is(this.count, other.count) || !Object.is(this.sum, other.sum)) return false
    if (this.custom && !sameBounds(this.customBounds, other.customBounds)) return false
    if (this.zeroThreshold !== other.zeroThreshold || !Object.is(this.zeroCount, other.zeroCount)) return false
    return sameSide(this.negative, other.negative) && sameSide(this.positive, other.positive)
  }

  /** Whether the counter was reset between the previous sample and this one: as the hint says, else when anything fell. */
  detectReset(previous: FloatHistogram): boolean {
    if (this.counterReset === 'reset') return true
    return this.counterReset !== 'not_reset' && fell(this, previous)
  }

  hasOverflow(): boolean {
    if (infinite(this.zeroCount) || infinite(this.count) || infinite(this.sum)) return true
    return anyInfinite(this.positive.counts) || anyInfinite(this.negative.counts) || anyInfinite(this.customBounds)
  }

  /** Operators `</` (keeps what is below `at`) and `>/` (keeps what is above). */
  trim(at: number, keepBelow: boolean): this {
    trim(this, at, keepBelow)
    return this
  }

  /** @param note told what observations of NaN did to the result */
  quantile(q: number, note?: NanNote): number {
    return quantile(this, q, note)
  }

  /** The part of the observations between two values. */
  fraction(lower: number, upper: number, note?: NanNote): number {
    return fraction(this, lower, upper, note)
  }

  mean(): number {
    return mean(this)
  }

  variance(): number {
    return variance(this)
  }

  /** As the HTTP API answers it: JSON. */
  toJsonText(): string {
    return toJsonText(this)
  }

  toString(): string {
    return toText(this)
  }

  private emptyCopy(): FloatHistogram {
    const h = new FloatHistogram()
    h.schema = this.schema
    h.counterReset = this.counterReset
    h.zeroThreshold = this.zeroThreshold
    h.customBounds = this.customBounds
    return h
  }

  private combine(other: FloatHistogram, sign: 1 | -1): number {
    if (this.custom !== other.custom) return ADD_INCOMPATIBLE
    const met = this.adoptHint(other)
    this.count += sign * other.count
    this.sum += sign * other.sum
    if (this.custom) return met | this.addCustom(other, undefined, sign)
    reconcileZeroBuckets(this, other, undefined)
    this.zeroCount += sign * otherZero.count
    this.reduceResolution(other.schema)
    const shift = other.schema - this.schema
    const positive = shift === 0 ? other.positive : reduceSide(other.positive, shift)
    const negative = shift === 0 ? other.negative : reduceSide(other.negative, shift)
    addSide(this.positive, positive, firstAbove(positive.index, this.schema, this.zeroThreshold), sign)
    addSide(this.negative, negative, firstAbove(negative.index, this.schema, this.zeroThreshold), sign)
    return met
  }

  private addCustom(other: FloatHistogram, lost: FloatHistogram | undefined, sign: 1 | -1): number {
    if (sameBounds(this.customBounds, other.customBounds)) {
      if (lost === undefined) addSide(this.positive, other.positive, 0, sign)
      else kahanAddSide(this.positive, lost.positive, other.positive, undefined, 0)
      return 0
    }
    const common = commonBounds(this.customBounds, other.customBounds)
    addInCommonBounds(this.positive, lost?.positive, this.customBounds, other.positive, other.customBounds, common, sign)
    this.customBounds = common
    if (lost !== undefined) lost.customBounds = common
    return ADD_RECONCILED
  }

  private kahanAddSides(other: FloatHistogram, lost: FloatHistogram, sign: 'positive' | 'negative'): void {
    let theirs = other[sign]
    let lostOfTheirs: Float64Array | undefined
    if (other.schema > this.schema) {
      const reduced = kahanReduceSide(theirs, new Float64Array(theirs.counts.length), other.schema - this.schema)
      theirs = reduced.side
      lostOfTheirs = reduced.lost
    } else if (other.schema < this.schema) {
      const reduced = kahanReduceSide(this[sign], lost[sign].counts, this.schema - other.schema)
      this[sign] = reduced.side
      lost[sign] = { index: reduced.side.index, counts: reduced.lost }
    }
    const from = firstAbove(theirs.index, Math.min(this.schema, other.schema), this.zeroThreshold)
    kahanAddSide(this[sign], lost[sign], theirs, lostOfTheirs, from)
  }

  /** Gauges win, then unknown. @returns ADD_COLLISION when the hints contradict each other */
  private adoptHint(other: FloatHistogram): number {
    const [own, theirs] = [this.counterReset, other.counterReset]
    if (own === theirs || own === 'gauge') return 0
    if (theirs === 'gauge') this.counterReset = 'gauge'
    else {
      this.counterReset = 'unknown'
      if (own !== 'unknown' && theirs !== 'unknown') return ADD_COLLISION
    }
    return 0
  }
}

// Scratch of kahanAdd.
const totals = new Float64Array(2)
const lostTotals = new Float64Array(2)

function infinite(value: number): boolean {
  return value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY
}

function anyInfinite(values: Float64Array): boolean {
  for (let i = 0; i < values.length; i++) if (infinite(values[i])) return true
  return false
}

function sameSide(a: Side, b: Side): boolean {
  return sameIndex(a.index, b.index) && sameCounts(a.counts, b.counts)
}

function scale(counts: Float64Array, factor: number): void {
  for (let i = 0; i < counts.length; i++) counts[i] *= factor
}
