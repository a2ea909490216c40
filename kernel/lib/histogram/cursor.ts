/**
 * Reads the bytes of a histogram part by part, without an object a bucket: what whoever needs another shape than `NativeHistogram`
 * uses. After `open`, in this order: spans, counts (positive), spans, counts (negative), bounds (custom buckets only), close.
 */

import { HINTS, HISTOGRAM_VERSION, INTEGER, MAX_INDEX, PACKED, STALE, THRESHOLD_BIAS, THRESHOLD_DOUBLE } from './layout.ts'
import type { CounterResetHint } from './native-histogram.ts'

const EMPTY = new Float64Array(0)
const NO_BYTES = new Uint8Array(0)

export class HistogramCursor {
  schema = 0
  counterReset: CounterResetHint = 'unknown'
  count = 0
  sum = 0
  zeroThreshold = 0
  zeroCount = 0
  integer = false
  /** A staleness marker: no buckets follow. */
  stale = false
  /** Offset and length of each span that `spans` has read last, one after the other. */
  pairs: Int32Array = new Int32Array(16)
  private packed = false
  private buckets = 0
  private bytes: Uint8Array = NO_BYTES
  private readonly scratch = new Float64Array(1)
  private readonly scratchBytes: Uint8Array = new Uint8Array(this.scratch.buffer)
  private at = 0
  private end = 0

  /** @throws RangeError, as all that follows. */
  open(bytes: Uint8Array, start: number, end: number): void {
    this.bytes = bytes
    this.at = start
    this.end = Math.min(end, bytes.length)
    const version = this.byte()
    if (version !== HISTOGRAM_VERSION) throw new RangeError(`cannot decode a histogram: it is of version ${version}, this server knows ${HISTOGRAM_VERSION}`)
    const flags = this.byte()
    this.counterReset = HINTS[flags & 3]
    this.integer = (flags & INTEGER) !== 0
    this.packed = (flags & PACKED) !== 0
    this.stale = (flags & STALE) !== 0
    if (flags > 31) throw new RangeError(`cannot decode a histogram: its flags ${flags} are unknown`)
    this.count = 0
    this.zeroCount = 0
    this.zeroThreshold = 0
    this.schema = 0
    this.sum = Number.NaN
    if (this.stale) return
    this.schema = (this.byte() << 24) >> 24
    const threshold = this.byte()
    this.zeroThreshold = threshold === 0 ? 0 : threshold === THRESHOLD_DOUBLE ? this.double() : 2 ** (threshold - THRESHOLD_BIAS)
    this.sum = this.double()
    this.count = this.packed ? this.varint() : this.double()
    this.zeroCount = this.packed ? this.varint() : this.double()
  }

  /** Reads spans into `pairs`, over those before. @returns how many entries are theirs: two a span */
  spans(): number {
    this.buckets = 0
    if (this.stale) return 0
    const entries = this.varint() * 2
    this.require(entries)
    if (entries > this.pairs.length) this.pairs = new Int32Array(entries)
    const { pairs } = this
    let reach = 0
    for (let i = 0; i < entries; i += 2) {
      const offset = unzigzag(this.varint())
      const length = this.varint()
      this.buckets += length
      reach += offset + length
      if (Math.abs(offset) > MAX_INDEX || Math.abs(reach) > MAX_INDEX) throw new RangeError('cannot decode a histogram: a bucket is out of reach')
      // Even packed, a bucket is a byte: this bounds what a few bytes can claim.
      this.require(this.buckets)
      pairs[i] = offset
      pairs[i + 1] = length
    }
    return entries
  }

  /** The counts of the buckets that the last spans had. */
  counts(): Float64Array {
    const { buckets } = this
    if (buckets === 0) return EMPTY
    if (!this.packed) return this.doubles(buckets)
    const counts = new Float64Array(buckets)
    let count = 0
    const { bytes, end } = this
    for (let i = 0; i < buckets; i++) {
      // Most differences take one byte, almost all two.
      const { at } = this
      const byte = at < end ? bytes[at] : 128
      const next = at + 1 < end ? bytes[at + 1] : 128
      if (byte < 128) {
        count += (byte >> 1) ^ -(byte & 1)
        this.at = at + 1
      } else if (next < 128) {
        const value = (byte & 127) | (next << 7)
        count += (value >> 1) ^ -(value & 1)
        this.at = at + 2
      } else count += unzigzag(this.varint())
      counts[i] = count
    }
    return counts
  }

  bounds(): Float64Array {
    return this.doubles(this.varint())
  }

  /** @throws RangeError when bytes are left. */
  close(): void {
    if (this.at !== this.end) throw new RangeError(`cannot decode a histogram: ${this.end - this.at} bytes are left at its end`)
  }

  private doubles(n: number): Float64Array {
    this.require(n * 8)
    const values = new Float64Array(n)
    new Uint8Array(values.buffer).set(this.bytes.subarray(this.at, this.at + n * 8))
    this.at += n * 8
    return values
  }

  private byte(): number {
    this.require(1)
    return this.bytes[this.at++]
  }

  private double(): number {
    this.require(8)
    const { bytes, at, scratchBytes } = this
    for (let i = 0; i < 8; i++) scratchBytes[i] = bytes[at + i]
    this.at = at + 8
    return this.scratch[0]
  }

  private varint(): number {
    const { bytes, end } = this
    let { at } = this
    let value = 0
    let scale = 1
    for (;;) {
      if (at >= end) throw new RangeError('cannot decode a histogram: it ends early')
      const byte = bytes[at++]
      value += (byte & 127) * scale
      if (byte < 128) break
      scale *= 128
      if (scale > 2 ** 49) throw new RangeError('cannot decode a histogram: a number in it is too long')
    }
    this.at = at
    return value
  }

  private require(n: number): void {
    if (n > this.end - this.at) throw new RangeError('cannot decode a histogram: it ends early')
  }
}

/** 2n is n, 2n - 1 is -n. */
function unzigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2
}
