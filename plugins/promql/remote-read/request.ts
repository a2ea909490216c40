/** A remote read request: ReadRequest of prometheus/prompb. */
import type { MatcherOp } from 'svcdb'
import { tooManyMembers } from 'svcdb/lib/json'
import { BYTES, ProtobufReader } from 'svcdb/lib/protobuf'
import type { LabelMatcher } from '../ast.ts'
import { apiError } from '../http/api-error.ts'

export interface ReadQuery {
  /** Milliseconds, both included. */
  start: number
  end: number
  matchers: LabelMatcher[]
}

export interface ReadRequest {
  queries: ReadQuery[]
  /** Answered as a stream of chunks, else as samples. */
  streamed: boolean
}

const OPS: readonly MatcherOp[] = ['=', '!=', '=~', '!~']
/** Characters of a name that a refusal repeats. */
const SHOWN = 64
const SAMPLES = 0
const STREAMED_XOR_CHUNKS = 1
/** As far as nanoseconds fit 64 bits: the least of them are in the millisecond before. */
const MAX_MS = 9_223_372_036_854

/** @param members the most queries, matchers and types. @throws SvcError for bytes that are no such message, have more, or want an answer of another kind. */
export function readRequest(bytes: Uint8Array, members = Number.POSITIVE_INFINITY): ReadRequest {
  const reader = new ProtobufReader()
  reader.begin(bytes)
  const queries: ReadQuery[] = []
  const accepted: number[] = []
  let left = members
  const count = (): void => {
    if (--left < 0) throw tooManyMembers(members, 'remote read')
  }
  while (reader.next()) {
    if (reader.field === 1) queries.push(query(reader, queries.length, count))
    else if (reader.field === 2) acceptedTypes(reader, accepted, count)
    else reader.skip()
  }
  const type = accepted.length === 0 ? SAMPLES : accepted.find((one) => one === SAMPLES || one === STREAMED_XOR_CHUNKS)
  if (type === undefined)
    throw apiError(
      'bad_data',
      `cannot answer the remote read: none of the response types it accepts (${accepted.join(', ')}) is known; ask for SAMPLES or STREAMED_XOR_CHUNKS`,
    )
  return { queries, streamed: type === STREAMED_XOR_CHUNKS }
}

/** Packed or one by one. */
function acceptedTypes(reader: ProtobufReader, accepted: number[], count: () => void): void {
  if (reader.wire !== BYTES) {
    count()
    return void accepted.push(reader.int32())
  }
  const outer = reader.enter()
  while (reader.at < reader.end) {
    count()
    reader.varint()
    accepted.push(reader.low)
  }
  reader.leave(outer)
}

/** @param place of it among the queries, from 0. */
function query(reader: ProtobufReader, place: number, count: () => void): ReadQuery {
  count()
  const out: ReadQuery = { start: 0, end: 0, matchers: [] }
  const outer = reader.enter()
  while (reader.next()) {
    if (reader.field === 1) out.start = time(reader)
    else if (reader.field === 2) out.end = time(reader)
    else if (reader.field === 3) {
      count()
      out.matchers.push(matcher(reader, `queries[${place}].matchers[${out.matchers.length}]`))
    } else reader.skip()
  }
  reader.leave(outer)
  return out
}

function time(reader: ProtobufReader): number {
  reader.int64()
  return Math.max(-MAX_MS - 1, Math.min(MAX_MS, reader.signed))
}

function matcher(reader: ProtobufReader, place: string): LabelMatcher {
  let type = 0
  let name = ''
  let value = ''
  const outer = reader.enter()
  while (reader.next()) {
    if (reader.field === 1) type = reader.int32()
    else if (reader.field === 2) name = text(reader)
    else if (reader.field === 3) value = text(reader)
    else reader.skip()
  }
  reader.leave(outer)
  const op = OPS[type]
  if (op === undefined)
    throw apiError(
      'bad_data',
      `cannot answer the remote read: ${place}, of label ${JSON.stringify(name.slice(0, SHOWN))}, has the unknown type ${type}; use 0 (=), 1 (!=), 2 (=~) or 3 (!~)`,
    )
  return { name, op, value }
}

function text(reader: ProtobufReader): string {
  const start = reader.span()
  return Buffer.from(reader.bytes.buffer, reader.bytes.byteOffset + start, reader.at - start).toString('utf8')
}
