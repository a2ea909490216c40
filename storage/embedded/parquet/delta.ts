/**
 * DELTA_BINARY_PACKED: blocks of differences, packed in miniblocks of a width each. Integers stay pairs of 32 bits: no BigInt, no double that would lose
 * digits. Format: parquet-format Encodings.md.
 */
import { milliseconds, restOf } from './nanoseconds.ts'
import { PageFault } from './page-fault.ts'

const NS_PER_MS = 1_000_000
const TWO_32 = 4294967296
const MAX_BLOCK = 1 << 20
const MAX_WIDTH = 64

/** What a block of differences is turned into. */
interface Sums {
  /** The first value, by its halves. */
  begin(low: number, high: number): void
  /** @param words the miniblock, from its first bit on; two words more can be read. */
  add(words: Int32Array, word: number, width: number, count: number, minLow: number, minHigh: number): void
}

/** Decodes one page's integers; kept, for its memory. */
export class DeltaDecoder {
  private words: Int32Array = new Int32Array(4096)
  private raw: Uint8Array = new Uint8Array(this.words.buffer)
  private readonly int32 = new Int32Sums()
  private readonly int64 = new Int64Sums()
  private readonly time = new TimeSums()
  private low = 0
  private high = 0
  private at = 0

  /** INT32. @returns where the encoded values end. @throws PageFault */
  toInt32(bytes: Uint8Array, from: number, to: number, out: Int32Array, first: number, count: number): number {
    this.int32.open(out, first)
    return this.decode(bytes, from, to, count, this.int32)
  }

  /** INT64 as halves, low one first: two numbers a value. */
  toInt64(bytes: Uint8Array, from: number, to: number, out: Int32Array, first: number, count: number): number {
    this.int64.open(out, first)
    return this.decode(bytes, from, to, count, this.int64)
  }

  /** INT64 that are nanoseconds, as whole milliseconds and the nanoseconds beyond. They must lie within 2^63 of each other. */
  toTimes(bytes: Uint8Array, from: number, to: number, ms: Float64Array, rests: Int32Array, first: number, count: number): number {
    this.time.open(ms, rests, first)
    return this.decode(bytes, from, to, count, this.time)
  }

  private decode(bytes: Uint8Array, from: number, to: number, count: number, sums: Sums): number {
    this.at = from
    const blockSize = this.number(bytes, to)
    const minis = this.number(bytes, to)
    const total = this.number(bytes, to)
    const perMini = blockSize / minis
    if (blockSize === 0 || blockSize > MAX_BLOCK || blockSize % 128 !== 0 || !Number.isInteger(perMini) || perMini % 32 !== 0)
      throw new PageFault('a page has blocks of a size that there is not')
    if (total !== count) throw new PageFault(`a page has ${total} values instead of ${count}`)
    this.zigzag(bytes, to)
    if (count === 0) return this.at
    sums.begin(this.low, this.high)
    for (let left = count - 1; left > 0; ) {
      this.zigzag(bytes, to)
      const { low, high } = this
      const widths = this.at
      if (widths + minis > to) throw new PageFault('a page ends early')
      let at = widths + minis
      const first = at
      // All miniblocks that have values, copied at once.
      let used = 0
      for (let rest = left; used < minis && rest > 0; used++, rest -= perMini) {
        const width = bytes[widths + used]
        if (width > MAX_WIDTH) throw new PageFault(`a page has values of ${width} bits`)
        at += (perMini * width) >> 3
      }
      if (at > to) throw new PageFault('a page ends early')
      this.take(bytes, first, at)
      for (let mini = 0, word = 0; mini < used; mini++) {
        const width = bytes[widths + mini]
        const n = Math.min(perMini, left)
        sums.add(this.words, word, width, n, low, high)
        word += (perMini * width) >> 5
        left -= n
      }
      this.at = at
    }
    return this.at
  }

  private take(bytes: Uint8Array, from: number, to: number): void {
    if (this.raw.length < to - from + 8) {
      this.words = new Int32Array(((to - from) >> 1) + 16)
      this.raw = new Uint8Array(this.words.buffer)
    }
    this.raw.set(bytes.subarray(from, to), 0)
  }

  private number(bytes: Uint8Array, to: number): number {
    this.varint(bytes, to)
    if (this.high !== 0 || this.low < 0) throw new PageFault('a page has a count out of range')
    return this.low
  }

  private zigzag(bytes: Uint8Array, to: number): void {
    this.varint(bytes, to)
    const { low, high } = this
    const sign = -(low & 1)
    this.low = ((low >>> 1) | (high << 31)) ^ sign
    this.high = (high >>> 1) ^ sign
  }

  private varint(bytes: Uint8Array, to: number): void {
    let low = 0
    let high = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.at >= to) break
      const byte = bytes[this.at++]
      const part = byte & 127
      if (shift < 28) low |= part << shift
      else if (shift === 28) {
        low |= part << 28
        high |= part >>> 4
      } else high |= shift < 63 ? part << (shift - 32) : (part & 1) << 31
      if (byte < 128) {
        this.low = low
        this.high = high
        return
      }
    }
    throw new PageFault('a page has a number without an end')
  }
}

class Int32Sums implements Sums {
  private out: Int32Array = new Int32Array(0)
  private at = 0
  private last = 0

  open(out: Int32Array, first: number): void {
    this.out = out
    this.at = first
  }

  begin(low: number): void {
    this.out[this.at++] = this.last = low
  }

  add(words: Int32Array, word: number, width: number, count: number, min: number): void {
    const { out, at } = this
    if (width === 0) this.last = stepInt32(out, at, count, min, this.last)
    else if (width < 32) this.last = sumInt32(words, word, width, count, min, this.last, out, at)
    else this.last = sumWideInt32(words, word, width, count, min, this.last, out, at)
    this.at = at + count
  }
}

function stepInt32(out: Int32Array, at: number, count: number, step: number, before: number): number {
  let last = before
  if (step === 0) out.fill(last, at, at + count)
  else for (let i = at; i < at + count; i++) out[i] = last = (last + step) | 0
  return last
}

function sumInt32(words: Int32Array, word: number, width: number, count: number, min: number, before: number, out: Int32Array, at: number): number {
  const mask = (1 << width) - 1
  let last = before
  let w = word
  let shift = 0
  for (let i = at; i < at + count; i++) {
    let v = words[w] >>> shift
    shift += width
    if (shift > 31) {
      shift -= 32
      w++
      // What the next word has of it; none where it ended with the word: the mask has no room for bits beyond.
      v |= words[w] << (width - shift)
    }
    out[i] = last = (last + min + (v & mask)) | 0
  }
  return last
}

/** Of differences of 32 bits and more the low 32 are enough: sums are modulo 2^32. */
function sumWideInt32(words: Int32Array, word: number, width: number, count: number, min: number, before: number, out: Int32Array, at: number): number {
  let last = before
  for (let i = 0; i < count; i++) {
    const bit = i * width
    const w = word + (bit >>> 5)
    const shift = bit & 31
    const v = shift === 0 ? words[w] : (words[w] >>> shift) | (words[w + 1] << (32 - shift))
    out[at + i] = last = (last + min + v) | 0
  }
  return last
}

class Int64Sums implements Sums {
  private out: Int32Array = new Int32Array(0)
  private at = 0
  private low = 0
  private high = 0

  open(out: Int32Array, first: number): void {
    this.out = out
    this.at = first * 2
  }

  begin(low: number, high: number): void {
    this.low = low
    this.high = high
    this.put()
  }

  add(words: Int32Array, word: number, width: number, count: number, minLow: number, minHigh: number): void {
    const { out } = this
    let { at, low, high } = this
    for (let i = 0; i < count; i++) {
      const bit = i * width
      const w = word + (bit >>> 5)
      const shift = bit & 31
      const sum = (low >>> 0) + (minLow >>> 0) + (lowBits(words, w, shift, width) >>> 0)
      const more = width > 32 ? lowBits(words, w + 1, shift, width - 32) : 0
      out[at++] = low = sum | 0
      out[at++] = high = (high + minHigh + more + (sum >= 2 * TWO_32 ? 2 : sum >= TWO_32 ? 1 : 0)) | 0
    }
    this.at = at
    this.low = low
    this.high = high
  }

  private put(): void {
    this.out[this.at++] = this.low
    this.out[this.at++] = this.high
  }
}

/** The 32 bits, or `width` when that is less, from bit `shift` of a word on. */
function lowBits(words: Int32Array, word: number, shift: number, width: number): number {
  if (width === 0) return 0
  let v = words[word] >>> shift
  if (shift !== 0 && shift + width > 32) v |= words[word + 1] << (32 - shift)
  return width < 32 ? v & ((1 << width) - 1) : v | 0
}

/** Times mostly go on by the same difference as before, which is divided into milliseconds once then. */
class TimeSums implements Sums {
  private ms: Float64Array = new Float64Array(0)
  private rests: Int32Array = new Int32Array(0)
  private at = 0
  private time = 0
  private rest = 0

  open(ms: Float64Array, rests: Int32Array, first: number): void {
    this.ms = ms
    this.rests = rests
    this.at = first
  }

  begin(low: number, high: number): void {
    this.time = milliseconds(low, high)
    this.rest = restOf(low, this.time)
    this.ms[this.at] = this.time
    this.rests[this.at++] = this.rest
  }

  add(words: Int32Array, word: number, width: number, count: number, minLow: number, minHigh: number): void {
    const { ms, rests } = this
    let { at, time, rest } = this
    let low = 0
    let high = 0
    let step = milliseconds(minLow, minHigh)
    let stepRest = restOf(minLow, step)
    const wide = width > 32
    const lowMask = width >= 32 ? -1 : (1 << width) - 1
    const highMask = width === 64 ? -1 : wide ? (1 << (width - 32)) - 1 : 0
    let w = word
    let shift = 0
    for (let i = 0; i < count; i++) {
      // Shifted in two steps: by 32 there is no shift.
      const l = ((words[w] >>> shift) | ((words[w + 1] << 1) << (31 - shift))) & lowMask
      const h = wide ? ((words[w + 1] >>> shift) | ((words[w + 2] << 1) << (31 - shift))) & highMask : 0
      shift += width
      w += shift >>> 5
      shift &= 31
      if (l !== low || h !== high) {
        low = l
        high = h
        const sum = (minLow >>> 0) + (l >>> 0)
        const sumHigh = (minHigh + h + (sum >= TWO_32 ? 1 : 0)) | 0
        step = milliseconds(sum | 0, sumHigh)
        stepRest = restOf(sum | 0, step)
      }
      time += step
      rest += stepRest
      if (rest >= NS_PER_MS) {
        rest -= NS_PER_MS
        time++
      }
      ms[at] = time
      rests[at++] = rest
    }
    this.at = at
    this.time = time
    this.rest = rest
  }
}
