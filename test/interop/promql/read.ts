/** Remote read with samples as the answer: its request and its answer, decoded as far as tests look. */
import { Buffer } from 'node:buffer'
import snappy from 'snappy'
import { Message } from './samples.ts'

/** In the order of the protocol's numbers. */
const OPS = ['=', '!=', '=~', '!~'] as const

export interface ReadQuery {
  /** Milliseconds, both included. */
  start: number
  end: number
  matchers: readonly (readonly [string, (typeof OPS)[number], string])[]
}

export interface ReadSeries {
  labels: string
  /** Time and the value's bits: NaNs differ. */
  samples: string[]
  /** Time, count and sum. */
  histograms: string[]
}

interface Field {
  number: number
  value: bigint
  bytes: Buffer
}

function* fields(message: Buffer): Generator<Field> {
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++]
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return BigInt.asIntN(64, value)
    }
  }
  while (at < message.length) {
    const tag = Number(varint())
    const field: Field = { number: tag >> 3, value: 0n, bytes: Buffer.alloc(0) }
    if ((tag & 7) === 0) field.value = varint()
    else {
      const length = (tag & 7) === 1 ? 8 : Number(varint())
      field.bytes = message.subarray(at, (at += length))
      if ((tag & 7) === 1) field.value = field.bytes.readBigUInt64LE()
    }
    yield field
  }
}

function sample(message: Buffer): string {
  let [bits, time] = [0n, 0n]
  for (const { number, value } of fields(message)) {
    if (number === 1) bits = value
    else time = value
  }
  return `${time} ${bits.toString(16)}`
}

function histogram(message: Buffer): string {
  let [time, count, sum] = [0n, 0, 0]
  for (const { number, value, bytes } of fields(message)) {
    if (number === 1) count = Number(value)
    if (number === 2) count = bytes.readDoubleLE()
    if (number === 3) sum = bytes.readDoubleLE()
    if (number === 15) time = value
  }
  return `${time} ${count} ${sum}`
}

function series(message: Buffer): ReadSeries {
  const out: ReadSeries = { labels: '', samples: [], histograms: [] }
  for (const { number, bytes } of fields(message)) {
    if (number === 1) out.labels += `${[...fields(bytes)].map((part) => part.bytes.toString()).join('=')},`
    if (number === 2) out.samples.push(sample(bytes))
    if (number === 4) out.histograms.push(histogram(bytes))
  }
  return out
}

export async function remoteRead(url: string, queries: readonly ReadQuery[]): Promise<{ status: number; text: string; results: ReadSeries[][] }> {
  const request = new Message()
  for (const { start, end, matchers } of queries) {
    request.message(1, (query) => {
      query.varint(1, start).varint(2, end)
      for (const [name, op, value] of matchers)
        query.message(3, (matcher) => matcher.varint(1, OPS.indexOf(op)).bytes(2, Buffer.from(name)).bytes(3, Buffer.from(value)))
    })
  }
  const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy', 'x-prometheus-remote-read-version': '0.1.0' }
  const answer = await fetch(url, { method: 'POST', headers, body: Uint8Array.from(snappy.compressSync(Buffer.from(request.end()))) })
  const body = Buffer.from(await answer.arrayBuffer())
  if (!answer.ok) return { status: answer.status, text: body.toString(), results: [] }
  const results = [...fields(Buffer.from(snappy.uncompressSync(body, { asBuffer: true })))].map(({ bytes }) =>
    [...fields(bytes)].map((one) => series(one.bytes)),
  )
  return { status: answer.status, text: '', results }
}
