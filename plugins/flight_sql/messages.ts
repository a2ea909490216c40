/** Messages of `arrow.flight.protocol` (Flight.proto), to and from their bytes. */
import { SvcError } from 'svcdb/lib/errors'
import { ProtobufReader, ProtobufWriter } from 'svcdb/lib/protobuf'
import { readBytes, readString } from './protobuf-text.ts'

const NOTHING: Uint8Array = new Uint8Array(0)
/** A statement, and what is around it. */
const MAX_DESCRIPTOR_BYTES = 2_097_152
const MAX_PATH_PARTS = 16
/** Of one message, or of a packed list of numbers. Clients send some dozens, and each may have an answer of its own. */
const MAX_FIELDS = 1024
export const PATH = 1
export const CMD = 2

export interface FlightDescriptor {
  type: number
  cmd: Uint8Array
  path: string[]
}

export interface FlightData {
  descriptor: FlightDescriptor | undefined
  /** Flatbuffers Message; empty in messages that only carry metadata. */
  header: Uint8Array
  appMetadata: Uint8Array
  body: Uint8Array
  /** The message that all of it lies in. */
  message: Uint8Array
}

export interface FlightInfo {
  /** The schema's message with its length in front, as in a stream. */
  schema: Uint8Array
  descriptor: FlightDescriptor
  ticket: Uint8Array
}

/** Reads the fields of a message that takes all of `bytes`; what `field` does not read is skipped. @throws BAD_REQUEST for more than there can be. */
export function eachField(bytes: Uint8Array, field: (reader: ProtobufReader) => boolean): void {
  const reader = new ProtobufReader()
  reader.begin(bytes)
  for (let count = 1; reader.next(); count++) {
    boundFields(count, 'fields')
    if (!field(reader)) reader.skip()
  }
}

/** @throws BAD_REQUEST when a message has more of something than there can be. */
export function boundFields(count: number, what: string): void {
  if (count > MAX_FIELDS) throw new SvcError('BAD_REQUEST', `cannot read the message: it has more than ${MAX_FIELDS} ${what}; send fewer`)
}

/** @throws BAD_REQUEST for what is no descriptor of a command or a table. */
export function readDescriptor(bytes: Uint8Array): FlightDescriptor {
  // That of a DoPut comes in a message that may be as large as its record batches.
  if (bytes.length > MAX_DESCRIPTOR_BYTES)
    throw new SvcError('BAD_REQUEST', `cannot read the descriptor: it has ${bytes.length} bytes and may have ${MAX_DESCRIPTOR_BYTES}`)
  const descriptor: FlightDescriptor = { type: 0, cmd: NOTHING, path: [] }
  eachField(bytes, (reader) => {
    if (reader.field === 1) descriptor.type = reader.int32()
    else if (reader.field === 2) descriptor.cmd = readBytes(reader)
    else if (reader.field === 3) {
      if (descriptor.path.push(readString(reader)) > MAX_PATH_PARTS)
        throw new SvcError('BAD_REQUEST', `cannot read the descriptor: its path has more than ${MAX_PATH_PARTS} parts; a measurement's has one`)
    } else return false
    return true
  })
  return descriptor
}

function putDescriptor(out: ProtobufWriter, field: number, { type, cmd, path }: FlightDescriptor): void {
  const mark = out.open(field)
  if (type !== 0) out.int(1, type)
  if (cmd.length > 0) out.blob(2, cmd)
  for (const part of path) out.string(3, part)
  out.close(mark)
}

function putInfo(out: ProtobufWriter, { schema, descriptor, ticket }: FlightInfo): void {
  out.blob(1, schema)
  putDescriptor(out, 2, descriptor)
  const endpoint = out.open(3)
  const inner = out.open(1)
  out.blob(1, ticket)
  out.close(inner)
  out.close(endpoint)
  // How much it will be is not known before it has run.
  out.int(4, -1)
  out.int(5, -1)
}

export function writeInfo(info: FlightInfo): Uint8Array {
  const out = new ProtobufWriter()
  putInfo(out, info)
  return out.take()
}

/** A PollInfo that is complete: the statement runs when its ticket is redeemed. */
export function writePollInfo(info: FlightInfo): Uint8Array {
  const out = new ProtobufWriter()
  const mark = out.open(1)
  putInfo(out, info)
  out.close(mark)
  out.double(3, 1)
  return out.take()
}

/** Tickets of a FlightInfo's endpoints. */
export function ticketsOf(info: Uint8Array): Uint8Array[] {
  const tickets: Uint8Array[] = []
  eachField(info, (reader) => {
    if (reader.field !== 3) return false
    eachField(readBytes(reader), (endpoint) => {
      if (endpoint.field !== 1) return false
      tickets.push(firstBytes(readBytes(endpoint)))
      return true
    })
    return true
  })
  return tickets
}

/** Field 1, bytes: Ticket, Criteria, SchemaResult, Result, CancelFlightInfoRequest and others have nothing else. */
export function firstBytes(message: Uint8Array): Uint8Array {
  let first = NOTHING
  eachField(message, (reader) => {
    if (reader.field !== 1) return false
    first = readBytes(reader)
    return true
  })
  return first
}

export function wrapBytes(bytes: Uint8Array): Uint8Array {
  const out = new ProtobufWriter(bytes.length + 16)
  if (bytes.length > 0) out.blob(1, bytes)
  return out.take()
}

export function readAction(bytes: Uint8Array): { type: string; body: Uint8Array } {
  const action = { type: '', body: NOTHING }
  eachField(bytes, (reader) => {
    if (reader.field === 1) action.type = readString(reader)
    else if (reader.field === 2) action.body = readBytes(reader)
    else return false
    return true
  })
  return action
}

export function writeActionType(type: string, description: string): Uint8Array {
  const out = new ProtobufWriter()
  out.string(1, type)
  out.string(2, description)
  return out.take()
}

/** Payload of a HandshakeRequest. */
export function readHandshake(bytes: Uint8Array): Uint8Array {
  let payload = NOTHING
  eachField(bytes, (reader) => {
    if (reader.field !== 2) return false
    payload = readBytes(reader)
    return true
  })
  return payload
}

export function writeHandshake(payload: string): Uint8Array {
  const out = new ProtobufWriter()
  out.string(2, payload)
  return out.take()
}

/** A BasicAuth; undefined when the payload is none. */
export function readBasicAuth(payload: Uint8Array): { username: string; password: string } | undefined {
  const auth = { username: '', password: '' }
  let found = false
  try {
    eachField(payload, (reader) => {
      if (reader.field === 2) auth.username = readString(reader)
      else if (reader.field === 3) auth.password = readString(reader)
      else return false
      return (found = true)
    })
  } catch {
    return undefined
  }
  return found ? auth : undefined
}

export function readFlightData(bytes: Uint8Array): FlightData {
  const data: FlightData = { descriptor: undefined, header: NOTHING, appMetadata: NOTHING, body: NOTHING, message: bytes }
  eachField(bytes, (reader) => {
    if (reader.field === 1) data.descriptor = readDescriptor(readBytes(reader))
    else if (reader.field === 2) data.header = readBytes(reader)
    else if (reader.field === 3) data.appMetadata = readBytes(reader)
    else if (reader.field === 1000) data.body = readBytes(reader)
    else return false
    return true
  })
  return data
}

const HEADER_TAG = (2 << 3) | 2
/** Field 1000, length-delimited: 8002 as a varint. */
const BODY_TAG = [0xc2, 0x3e]

/** What stands before the body in the FlightData of an Arrow message, so that both lie in one buffer without copying the body again. */
export function flightPrefix(header: Uint8Array, bodyLength: number): Uint8Array {
  const withBody = bodyLength > 0 ? BODY_TAG.length + varintSize(bodyLength) : 0
  const out = new Uint8Array(1 + varintSize(header.length) + header.length + withBody)
  out[0] = HEADER_TAG
  let at = putVarint(out, 1, header.length)
  out.set(header, at)
  at += header.length
  if (withBody === 0) return out
  out.set(BODY_TAG, at)
  putVarint(out, at + BODY_TAG.length, bodyLength)
  return out
}

/** A whole FlightData. */
export function writeFlightData(header: Uint8Array, body: Uint8Array): Uint8Array {
  const prefix = flightPrefix(header, body.length)
  const out = new Uint8Array(prefix.length + body.length)
  out.set(prefix)
  out.set(body, prefix.length)
  return out
}

function putVarint(out: Uint8Array, at: number, value: number): number {
  let rest = value
  while (rest > 0x7f) {
    out[at++] = (rest & 0x7f) | 0x80
    rest >>>= 7
  }
  out[at++] = rest
  return at
}

function varintSize(value: number): number {
  let size = 1
  for (let rest = value; rest > 0x7f; rest >>>= 7) size++
  return size
}

/** The PutResult that holds a DoPutUpdateResult. */
export function writeUpdateResult(records: number): Uint8Array {
  const out = new ProtobufWriter()
  const mark = out.open(1)
  if (records !== 0) out.int(1, records)
  out.close(mark)
  return out.take()
}

/** The PutResult that holds a DoPutPreparedStatementResult. */
export function writePreparedResult(handle: Uint8Array): Uint8Array {
  return wrapBytes(wrapBytes(handle))
}
