/** The client's side of remote read, for tests: builds requests, reads both kinds of answer back. */
import type { MatcherOp } from 'svcdb'
import { crc32c } from 'svcdb/lib/files'
import { ProtobufReader, ProtobufWriter } from 'svcdb/lib/protobuf'
import { readFloatChunk, readHistogramChunk } from './testing-chunks.ts'

export interface TestQuery {
  start: number
  end: number
  matchers: [name: string, op: MatcherOp, value: string][]
}

/** @param accepted response types; 0 samples, 1 chunks. */
export function readRequestBytes(queries: readonly TestQuery[], accepted: readonly number[], packed = true): Uint8Array {
  const out = new ProtobufWriter()
  for (const { start, end, matchers } of queries) {
    const query = out.open(1)
    out.int(1, start)
    out.int(2, end)
    for (const [name, op, value] of matchers) {
      const matcher = out.open(3)
      out.int(1, ['=', '!=', '=~', '!~'].indexOf(op))
      out.string(2, name)
      out.string(3, value)
      out.close(matcher)
    }
    const hints = out.open(4)
    out.int(1, 15_000)
    out.string(2, 'rate')
    out.close(hints)
    out.close(query)
  }
  if (packed && accepted.length > 0) {
    const list = out.open(2)
    for (const type of accepted) out.varint(type)
    out.close(list)
  } else for (const type of accepted) out.int(2, type)
  return out.take()
}

interface ReadHistogram {
  time: number
  integer: boolean
  count: number
  zeroCount: number
  sum: number
  schema: number
  /** Steps of integers, counts of floats. */
  positive: number[]
  negative: number[]
  customBounds: number[]
  resetHint: number
}

export interface ReadSeries {
  query: number
  labels: Record<string, string>
  samples: { time: number; bits: bigint }[]
  histograms: ReadHistogram[]
  /** Of chunks. */
  encodings: number[]
  flags: number[]
}

const newSeries = (query: number): ReadSeries => ({ query, labels: {}, samples: [], histograms: [], encodings: [], flags: [] })

class MessageReader extends ProtobufReader {
  constructor(bytes: Uint8Array) {
    super()
    this.begin(bytes)
  }

  /** Goes through the fields of a nested message. */
  each(field: (number: number) => void): void {
    const outer = this.enter()
    while (this.next()) field(this.field)
    this.leave(outer)
  }

  text(): string {
    const start = this.span()
    return Buffer.from(this.bytes.subarray(start, this.at)).toString()
  }

  integer(): number {
    this.int64()
    return this.signed
  }

  bits(): bigint {
    this.fixed64()
    return (BigInt(this.high >>> 0) << 32n) | BigInt(this.low >>> 0)
  }

  label(into: Record<string, string>): void {
    const pair = ['', '']
    this.each((field) => {
      pair[field - 1] = this.text()
    })
    into[pair[0]] = pair[1]
  }
}

/** A ReadResponse. */
export function readSamples(bytes: Uint8Array): ReadSeries[] {
  const out: ReadSeries[] = []
  const reader = new MessageReader(bytes)
  for (let query = 0; reader.next(); query++) {
    reader.each(() => {
      const series = newSeries(query)
      reader.each((field) => {
        if (field === 1) reader.label(series.labels)
        else if (field === 2) {
          const sample = { time: 0, bits: 0n }
          reader.each((part) => {
            if (part === 1) sample.bits = reader.bits()
            else sample.time = reader.integer()
          })
          series.samples.push(sample)
        } else if (field === 4) series.histograms.push(readHistogram(reader))
        else reader.skip()
      })
      out.push(series)
    })
  }
  return out
}

function readHistogram(reader: MessageReader): ReadHistogram {
  const out: ReadHistogram = { time: 0, integer: false, count: 0, zeroCount: 0, sum: 0, schema: 0, positive: [], negative: [], customBounds: [], resetHint: 0 }
  const steps = (): number[] => {
    const values: number[] = []
    const outer = reader.enter()
    while (reader.at < reader.end) {
      reader.zigzag()
      values.push(reader.signed)
    }
    reader.leave(outer)
    return values
  }
  const doubles = (): number[] => {
    const values: number[] = []
    for (let at = reader.span(); at < reader.at; at += 8) values.push(reader.view.getFloat64(at, true))
    return values
  }
  reader.each((field) => {
    if (field === 1) {
      out.integer = true
      out.count = reader.integer()
    } else if (field === 2) out.count = reader.double()
    else if (field === 3) out.sum = reader.double()
    else if (field === 4) out.schema = reader.sint32()
    else if (field === 6) out.zeroCount = reader.integer()
    else if (field === 7) out.zeroCount = reader.double()
    else if (field === 9) out.negative = steps()
    else if (field === 10) out.negative = doubles()
    else if (field === 12) out.positive = steps()
    else if (field === 13) out.positive = doubles()
    else if (field === 14) out.resetHint = reader.int32()
    else if (field === 15) out.time = reader.integer()
    else if (field === 16) out.customBounds = doubles()
    else reader.skip()
  })
  return out
}

export interface Frame {
  bytes: number
  series: ReadSeries
}

/** Frames of ChunkedReadResponse, checksums checked. */
export function readFrames(bytes: Uint8Array): Frame[] {
  const frames: Frame[] = []
  for (let at = 0; at < bytes.length; ) {
    let length = 0
    for (let shift = 0, more = true; more; shift += 7) {
      more = bytes[at] >= 0x80
      length += (bytes[at++] & 0x7f) * 2 ** shift
    }
    const checksum = Buffer.from(bytes.buffer, bytes.byteOffset + at, 4).readUInt32BE()
    at += 4
    if (crc32c(bytes, at, at + length) !== checksum) throw new Error(`the checksum of the frame at ${at} is wrong`)
    frames.push({ bytes: length, series: readChunked(bytes.subarray(at, at + length)) })
    at += length
  }
  return frames
}

function readChunked(bytes: Uint8Array): ReadSeries {
  const series = newSeries(0)
  const reader = new MessageReader(bytes)
  while (reader.next()) {
    if (reader.field === 2) series.query = reader.integer()
    else
      reader.each((field) => {
        if (field === 1) reader.label(series.labels)
        else readChunk(reader, series)
      })
  }
  return series
}

function readChunk(reader: MessageReader, series: ReadSeries): void {
  let type = 0
  let data = new Uint8Array(0)
  const times: number[] = []
  reader.each((field) => {
    if (field === 3) type = reader.int32()
    else if (field === 4) {
      const start = reader.span()
      data = reader.bytes.slice(start, reader.at)
    } else times.push(reader.integer())
  })
  series.encodings.push(type)
  const read = type === 1 ? readFloatChunk(data) : []
  series.samples.push(...read)
  let first = read[0]?.time
  let last = read.at(-1)?.time
  if (type !== 1) {
    const { flags, schema, customBounds, samples } = readHistogramChunk(data, type === 2)
    series.flags.push(flags)
    for (const { positive, negative, ...rest } of samples)
      series.histograms.push({ ...rest, integer: type === 2, schema, positive, negative, customBounds, resetHint: 0 })
    first = samples[0].time
    last = samples.at(-1)?.time
  }
  if (first !== times[0] || last !== times[1]) throw new Error(`a chunk from ${first} to ${last} says ${times}`)
}
