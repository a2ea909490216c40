/** Samples as remote write carries them, and requests of remote write 1.0 that hold them. */
import { Buffer } from 'node:buffer'
import snappy from 'snappy'

export interface Span {
  /** Index of the first bucket, or buckets left out since the span before. */
  offset: number
  length: number
}

export interface HistogramSample {
  schema: number
  count: number
  sum: number
  zeroThreshold: number
  zeroCount: number
  negativeSpans: Span[]
  negative: number[]
  positiveSpans: Span[]
  positive: number[]
  customBounds: number[]
  gauge: boolean
  /** Counts are sent as integers. */
  integer: boolean
}

/** Of a series at a time in milliseconds. */
export interface Sample {
  t: number
  value: number | 'stale' | HistogramSample
}

export interface Series {
  labels: Record<string, string>
  samples: Sample[]
}

const VARINT = 0
const FIXED64 = 1
const BYTES = 2
const STALE = 0x7ff0000000000002n
const NORMAL_NAN = 0x7ff8000000000001n

/** Protobuf fields, written one after the other. */
export class Message {
  private readonly parts: Uint8Array[] = []

  varint(field: number, value: number | bigint): this {
    this.parts.push(varint((field << 3) | VARINT), varint(value))
    return this
  }

  zigzag(field: number, value: number): this {
    return this.varint(field, zigzag(value))
  }

  double(field: number, value: number | 'stale'): this {
    this.parts.push(varint((field << 3) | FIXED64), doubleBytes(value))
    return this
  }

  bytes(field: number, value: Uint8Array): this {
    this.parts.push(varint((field << 3) | BYTES), varint(value.length), value)
    return this
  }

  message(field: number, fill: (inner: Message) => void): this {
    const inner = new Message()
    fill(inner)
    return this.bytes(field, inner.end())
  }

  end(): Uint8Array {
    return Buffer.concat(this.parts)
  }
}

function varint(value: number | bigint): Uint8Array {
  const out: number[] = []
  let rest = BigInt.asUintN(64, BigInt(value))
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128)
  out.push(Number(rest))
  return Uint8Array.from(out)
}

const zigzag = (value: number): bigint => (value < 0 ? BigInt(-value) * 2n - 1n : BigInt(value) * 2n)

function doubleBytes(value: number | 'stale'): Uint8Array {
  const out = Buffer.alloc(8)
  if (value === 'stale' || Number.isNaN(value)) out.writeBigUInt64LE(value === 'stale' ? STALE : NORMAL_NAN)
  else out.writeDoubleLE(value)
  return out
}

function writeSide(message: Message, [spansField, deltasField, countsField]: readonly number[], spans: Span[], counts: number[], integer: boolean): void {
  for (const { offset, length } of spans) message.message(spansField, (span) => span.zigzag(1, offset).varint(2, length))
  if (counts.length === 0) return
  if (integer) message.bytes(deltasField, Buffer.concat(counts.map((count, i) => varint(zigzag(count - (i === 0 ? 0 : counts[i - 1]))))))
  else message.bytes(countsField, Buffer.concat(counts.map(doubleBytes)))
}

function writeHistogram(message: Message, t: number, h: HistogramSample): void {
  if (h.integer) message.varint(1, h.count)
  else message.double(2, h.count)
  message.double(3, h.sum).zigzag(4, h.schema).double(5, h.zeroThreshold)
  if (h.integer) message.varint(6, h.zeroCount)
  else message.double(7, h.zeroCount)
  writeSide(message, [8, 9, 10], h.negativeSpans, h.negative, h.integer)
  writeSide(message, [11, 12, 13], h.positiveSpans, h.positive, h.integer)
  if (h.gauge) message.varint(14, 3)
  message.varint(15, t)
  if (h.customBounds.length > 0) message.bytes(16, Buffer.concat(h.customBounds.map(doubleBytes)))
}

/** A request of remote write 1.0, compressed. */
export function writeRequest(series: readonly Series[]): Uint8Array<ArrayBuffer> {
  const request = new Message()
  for (const { labels, samples } of series) {
    request.message(1, (one) => {
      const sorted = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))
      for (const [name, value] of sorted) one.message(1, (label) => label.bytes(1, Buffer.from(name)).bytes(2, Buffer.from(value)))
      for (const { t, value } of samples) {
        if (typeof value === 'object') one.message(4, (histogram) => writeHistogram(histogram, t, value))
        else one.message(2, (sample) => sample.double(1, value).varint(2, t))
      }
    })
  }
  return Uint8Array.from(snappy.compressSync(Buffer.from(request.end())))
}

/** Writes the series to a receiver. @throws Error with its answer when it does not take all of them. */
export async function remoteWrite(url: string, series: readonly Series[]): Promise<void> {
  const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy', 'x-prometheus-remote-write-version': '0.1.0' }
  const answer = await fetch(url, { method: 'POST', headers, body: writeRequest(series) })
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`)
  await answer.arrayBuffer()
}
