/** The messages of svc.proto that ask for something. */
import type { DeleteRequest, Matcher, ScanRequest } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { tooManyMembers } from 'svcdb/lib/json'
import { BYTES, ProtobufReader, readText } from 'svcdb/lib/protobuf'
import { readTag } from './tag.ts'

/** Of a write beside its points: there are four, and what later versions add. */
const MAX_BESIDE_POINTS = 1024
/** Different values of one repeated enum. */
const MAX_ENUMS = 16

/** What a write has beside its points. */
export interface WriteEnvelope {
  points: number
  backfill: boolean
  forwarded: boolean
  dedupKey: string
}

interface StreamEnvelope {
  points: number
  dedupKey: string
}

interface QueryPlan extends Omit<ScanRequest, 'namespace'> {
  matchers: Matcher[]
  /** 0 = none. */
  limit: number
  rows: boolean
}

const reader = new ProtobufReader()

/** Calls `field` for each field of a message; what it does not read is skipped. @throws BAD_REQUEST for what is no message, or has more than `most` fields. */
function each(message: Uint8Array, field: (number: number) => boolean | undefined, most = Number.POSITIVE_INFINITY): void {
  let count = 0
  try {
    reader.begin(message)
    while (reader.next()) {
      if (++count > most) throw tooManyMembers(most, 'request')
      if (field(reader.field) !== true) reader.skip()
    }
  } finally {
    reader.release()
  }
}

/** @throws BAD_REQUEST for more than `most` points. */
export function writeEnvelope(message: Uint8Array, most = Number.POSITIVE_INFINITY): WriteEnvelope {
  const envelope: WriteEnvelope = { points: 0, backfill: false, forwarded: false, dedupKey: '' }
  besidePoints(message, envelope, most, (number) => {
    if (number === 4) {
      envelope.dedupKey = readText(reader, 'dedup_key')
      return true
    }
    if (number !== 2 && number !== 3) return
    reader.int64()
    envelope[number === 2 ? 'backfill' : 'forwarded'] = (reader.low | reader.high) !== 0
    return true
  })
  return envelope
}

/** @throws BAD_REQUEST for more than `most` points. */
export function streamEnvelope(message: Uint8Array, most = Number.POSITIVE_INFINITY): StreamEnvelope {
  const envelope: StreamEnvelope = { points: 0, dedupKey: '' }
  besidePoints(message, envelope, most, (number) => {
    if (number !== 2) return
    envelope.dedupKey = readText(reader, 'dedup_key')
    return true
  })
  return envelope
}

/** As `each`: counts points, which are field 1, and hands on what else there is. All of it is read in one turn, so it is bounded. */
function besidePoints(message: Uint8Array, envelope: { points: number }, most: number, field: (number: number) => boolean | undefined): void {
  let others = 0
  each(message, (number) => {
    if (number === 1) {
      if (++envelope.points > most) throw tooManyPoints(most)
      return
    }
    if (++others > MAX_BESIDE_POINTS)
      throw new SvcError('BAD_REQUEST', `cannot read request: it has more than ${MAX_BESIDE_POINTS} members beside its points; send what svc.proto has`)
    return field(number)
  })
}

function tooManyPoints(most: number): SvcError {
  return new SvcError('BAD_REQUEST', `cannot write more than ${most} points at once: server.max_write_batch_size is ${most}; send smaller messages`)
}

/** SchemaRequest, DropMeasurementRequest. @throws BAD_REQUEST without a name. */
export function measurementName(message: Uint8Array): string {
  return named(onlyText(message, 'measurement'))
}

/** SqlRequest. */
export function sqlText(message: Uint8Array): string {
  return onlyText(message, 'query')
}

/** A request without members: what it holds all the same has to be a message. */
export function nothing(message: Uint8Array): void {
  each(message, () => undefined)
}

/** @param most fields, such as conditions and names. */
export function queryPlan(message: Uint8Array, most?: number): QueryPlan {
  const plan: QueryPlan = { measurement: '', matchers: [], limit: 0, rows: false }
  const fields: string[] = []
  each(
    message,
    (number) => {
      if (number === 1) plan.measurement = readText(reader, 'measurement')
      else if (number === 2) Object.assign(plan, range())
      else if (number === 3) plan.matchers.push(matcher())
      else if (number === 4) fields.push(readText(reader, 'name of a field'))
      else if (number === 5) {
        reader.int64()
        plan.limit = reader.unsigned
      } else if (number === 6) {
        const format = reader.int32()
        if (format !== 0 && format !== 1) throw new SvcError('BAD_REQUEST', `cannot answer query: there is no format ${format}; use ARROW or ROWS`)
        plan.rows = format === 1
      } else return
      return true
    },
    most,
  )
  named(plan.measurement)
  return fields.length === 0 ? plan : { ...plan, fields }
}

export function deleteRequest(message: Uint8Array, most?: number): Omit<DeleteRequest, 'namespace'> {
  const matchers: Matcher[] = []
  let measurement = ''
  let bounds = {}
  each(
    message,
    (number) => {
      if (number === 1) measurement = readText(reader, 'measurement')
      else if (number === 2) matchers.push(matcher())
      else if (number === 3) bounds = range()
      else return
      return true
    },
    most,
  )
  return { measurement: named(measurement), matchers, ...bounds }
}

export interface SubscribeRequest {
  measurements: string[]
  /** Numbers of ChangeKind. */
  kinds: number[]
  after: string
}

/** @param most members of it. */
export function subscribeRequest(message: Uint8Array, most?: number): SubscribeRequest {
  const request: SubscribeRequest = { measurements: [], kinds: [], after: '' }
  each(
    message,
    (number) => {
      if (number === 1) request.measurements.push(readText(reader, 'name of a measurement'))
      else if (number === 2) enums(request.kinds)
      else if (number === 3) request.after = readText(reader, 'after')
      else return
      return true
    },
    most,
  )
  return request
}

/** Values of a repeated enum, packed or one. Each is kept once. */
function enums(into: number[]): void {
  const add = (value: number): void => {
    if (!into.includes(value)) into.push(value)
    if (into.length > MAX_ENUMS) throw new SvcError('BAD_REQUEST', `cannot read request: it names more than ${MAX_ENUMS} kinds of changes; there are fewer`)
  }
  if (reader.wire !== BYTES) return add(reader.int32())
  const outer = reader.enter()
  while (reader.at < reader.end) {
    reader.varint()
    add(reader.low)
  }
  reader.leave(outer)
}

function onlyText(message: Uint8Array, what: string): string {
  let text = ''
  each(message, (number) => {
    if (number !== 1) return
    text = readText(reader, what)
    return true
  })
  return text
}

function named(measurement: string): string {
  if (measurement === '') throw new SvcError('BAD_REQUEST', 'cannot read request: measurement is empty; name one, ListMeasurements lists them')
  return measurement
}

/** A TimeRange. Members that are not sent are 0, as everywhere in proto3: a range that leaves one out is no half of all times. */
function range(): { start: bigint; end: bigint } {
  let start = 0n
  let end = 0n
  const outer = reader.enter()
  while (reader.next()) {
    if (reader.field > 2) {
      reader.skip()
      continue
    }
    reader.int64()
    const value = (BigInt(reader.high) << 32n) | BigInt(reader.low >>> 0)
    if (reader.field === 1) start = value
    else end = value
  }
  reader.leave(outer)
  if (start > end) throw new SvcError('BAD_REQUEST', `cannot use range: start ${start} is after end ${end}; set both, or leave the range out for all times`)
  return { start, end }
}

/** A Tag as the condition that they are equal. */
function matcher(): Matcher {
  const { key, value } = readTag(reader)
  return { tag: key, op: '=', value }
}
