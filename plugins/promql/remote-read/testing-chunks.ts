/** Reads chunks back, for tests: written from the format description, and sharing no code with what writes them. */
import type { HistogramSpan } from 'svcdb/lib/histogram'

class BitReader {
  private readonly bytes: Uint8Array
  private at = 0

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
  }

  bits(count: number): bigint {
    let out = 0n
    for (let i = 0; i < count; i++, this.at++) {
      if (this.at >> 3 >= this.bytes.length) throw new Error('the chunk ends early')
      out = (out << 1n) | BigInt((this.bytes[this.at >> 3] >> (7 - (this.at & 7))) & 1)
    }
    return out
  }

  number(count: number): number {
    return Number(this.bits(count))
  }

  uvarint(): bigint {
    let out = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bits(8)
      out |= (byte & 0x7fn) << shift
      if (byte < 0x80n) return out
    }
  }

  varint(): bigint {
    const raw = this.uvarint()
    return raw & 1n ? -((raw + 1n) >> 1n) : raw >> 1n
  }

  /** Ones before a zero, at most `most`. */
  ones(most: number): number {
    let count = 0
    while (count < most && this.bits(1) === 1n) count++
    return count
  }

  /** A value in (-2^(n-1), 2^(n-1)]. */
  signed(count: number): bigint {
    const raw = this.bits(count)
    return raw > 1n << BigInt(count - 1) ? raw - (1n << BigInt(count)) : raw
  }

  varbitUint(): bigint {
    const prefix = this.ones(8)
    return prefix === 0 ? 0n : this.bits([0, 3, 6, 9, 12, 18, 25, 56, 64][prefix])
  }

  varbitInt(): bigint {
    const prefix = this.ones(8)
    if (prefix === 0) return 0n
    return prefix === 8 ? BigInt.asIntN(64, this.bits(64)) : this.signed([0, 3, 6, 9, 12, 18, 25, 56][prefix])
  }

  float(): number {
    return toFloat(this.bits(64))
  }
}

function toFloat(bits: bigint): number {
  return new Float64Array(BigUint64Array.of(bits).buffer)[0]
}

class XorReader {
  bits = 0n
  private leading = 0
  private significant = 0
  private readonly from: BitReader

  constructor(from: BitReader) {
    this.from = from
  }

  first(): bigint {
    return (this.bits = this.from.bits(64))
  }

  next(): bigint {
    if (this.from.bits(1) === 0n) return this.bits
    if (this.from.bits(1) === 1n) {
      this.leading = this.from.number(5)
      this.significant = this.from.number(6) || 64
    }
    this.bits ^= this.from.bits(this.significant) << BigInt(64 - this.leading - this.significant)
    return this.bits
  }
}

interface FloatSample {
  time: number
  /** Of the float. */
  bits: bigint
}

export function readFloatChunk(chunk: Uint8Array): FloatSample[] {
  const from = new BitReader(chunk)
  const count = from.number(16)
  const value = new XorReader(from)
  const out: FloatSample[] = []
  let time = 0n
  let delta = 0n
  for (let i = 0; i < count; i++) {
    if (i === 0) time = from.varint()
    else {
      if (i === 1) delta = from.uvarint()
      else {
        const size = [0, 14, 17, 20, 64][from.ones(4)]
        delta += size === 0 ? 0n : size === 64 ? BigInt.asIntN(64, from.bits(64)) : from.signed(size)
      }
      time += delta
    }
    out.push({ time: Number(time), bits: i === 0 ? value.first() : value.next() })
  }
  return out
}

export interface HistogramSample {
  time: number
  count: number
  zeroCount: number
  sum: number
  /** Absolute. */
  positive: number[]
  negative: number[]
}

interface HistogramChunk {
  flags: number
  zeroThreshold: number
  schema: number
  positiveSpans: HistogramSpan[]
  negativeSpans: HistogramSpan[]
  customBounds: number[]
  samples: HistogramSample[]
}

export function readHistogramChunk(chunk: Uint8Array, integer: boolean): HistogramChunk {
  const from = new BitReader(chunk)
  const total = from.number(16)
  const flags = from.number(8)
  const code = from.number(8)
  const zeroThreshold = code === 0 ? 0 : code === 255 ? from.float() : 2 ** (code - 244)
  const schema = Number(from.varbitInt())
  const spans = (): HistogramSpan[] =>
    Array.from({ length: Number(from.varbitUint()) }, () => {
      const length = Number(from.varbitUint())
      return { offset: Number(from.varbitInt()), length }
    })
  const positiveSpans = spans()
  const negativeSpans = spans()
  const bound = (): number => {
    const whole = Number(from.varbitUint())
    return whole === 0 ? from.float() : (whole - 1) / 1000
  }
  const customBounds = schema === -53 ? Array.from({ length: Number(from.varbitUint()) }, bound) : []
  const sizes = [positiveSpans, negativeSpans].map((list) => list.reduce((sum, { length }) => sum + length, 0))
  const samples = integer ? readIntegers(from, total, sizes) : readFloats(from, total, sizes)
  return { flags, zeroThreshold, schema, positiveSpans, negativeSpans, customBounds, samples }
}

function readFloats(from: BitReader, total: number, [positive, negative]: number[]): HistogramSample[] {
  const columns = Array.from({ length: 3 + positive + negative }, () => new XorReader(from))
  let time = 0n
  let delta = 0n
  return Array.from({ length: total }, (_, i) => {
    if (i === 0) time = from.varbitInt()
    else time += delta += from.varbitInt()
    const [count, zeroCount, sum, ...buckets] = columns.map((column) => toFloat(i === 0 ? column.first() : column.next()))
    return { time: Number(time), count, zeroCount, sum, positive: buckets.slice(0, positive), negative: buckets.slice(positive) }
  })
}

function readIntegers(from: BitReader, total: number, [positive, negative]: number[]): HistogramSample[] {
  const sum = new XorReader(from)
  const values = new Array<bigint>(3 + positive + negative).fill(0n)
  const deltas = new Array<bigint>(3 + positive + negative).fill(0n)
  return Array.from({ length: total }, (_, i) => {
    let total = 0
    const next = (column: number): void => {
      if (i === 0) values[column] = column === 1 || column === 2 ? from.varbitUint() : from.varbitInt()
      else values[column] += deltas[column] += from.varbitInt()
    }
    for (const column of [0, 1, 2]) next(column)
    total = toFloat(i === 0 ? sum.first() : sum.next())
    for (let column = 3; column < values.length; column++) next(column)
    const absolute = (steps: bigint[]): number[] => {
      let level = 0n
      return steps.map((step) => Number((level += step)))
    }
    return {
      time: Number(values[0]),
      count: Number(values[1]),
      zeroCount: Number(values[2]),
      sum: total,
      positive: absolute(values.slice(3, 3 + positive)),
      negative: absolute(values.slice(3 + positive)),
    }
  })
}
