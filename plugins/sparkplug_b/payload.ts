/**
 * Payloads of Sparkplug B (specification 3.0, 6.4; `org.eclipse.tahu.protobuf.Payload`), field by field. A metric is read into one object that is used again:
 * its text is left where it lies until it is asked for.
 */
import { SvcError } from 'svcdb/lib/errors'
import { type ProtobufReader, ProtobufWriter, readText, textOf } from 'svcdb/lib/protobuf'

/** DataType. */
export const UNKNOWN = 0
export const INT8 = 1
export const INT16 = 2
export const INT32 = 3
export const INT64 = 4
export const UINT8 = 5
export const UINT16 = 6
export const UINT32 = 7
export const UINT64 = 8
export const FLOAT = 9
export const DOUBLE = 10
export const BOOLEAN = 11
export const STRING = 12
export const DATE_TIME = 13
export const TEXT = 14
export const UUID = 15
export const TEMPLATE = 19
const NAMES = ['Unknown', 'Int8', 'Int16', 'Int32', 'Int64', 'UInt8', 'UInt16', 'UInt32', 'UInt64', 'Float', 'Double', 'Boolean', 'String', 'DateTime']
const MORE_NAMES = ['Text', 'UUID', 'DataSet', 'Bytes', 'File', 'Template', 'PropertySet', 'PropertySetList']
export const typeName = (type: number): string => [...NAMES, ...MORE_NAMES][type] ?? (type >= 22 && type <= 34 ? 'array' : `type ${type}`)

/** Which member of the value's oneof was sent: its field's number, 0 = none. */
export const NO_VALUE = 0
export const INT_VALUE = 10
export const LONG_VALUE = 11
export const FLOAT_VALUE = 12
export const DOUBLE_VALUE = 13
export const BOOLEAN_VALUE = 14
export const STRING_VALUE = 15
export const TEMPLATE_VALUE = 18

const QUALITY = 'Quality'
export const GOOD = 192
const TWO_53 = 2 ** 53

/** An alias has 64 bits: those that no number holds are texts. */
export type Alias = number | string

export class Metric {
  name: string | undefined
  alias: Alias | undefined
  /** Milliseconds since the Unix epoch. */
  time: number | undefined
  type = UNKNOWN
  transient = false
  isNull = false
  quality = GOOD
  /** Number of the value's field. */
  value = NO_VALUE
  low = 0
  high = 0
  number = 0
  /** Where a text or a template lies. */
  start = 0
  end = 0

  /** Reads the message that the reader has stepped to. @throws BAD_REQUEST. */
  read(reader: ProtobufReader): void {
    this.name = this.alias = this.time = undefined
    this.type = UNKNOWN
    this.transient = this.isNull = false
    this.quality = GOOD
    this.value = NO_VALUE
    const outer = reader.enter()
    while (reader.next()) {
      const { field } = reader
      if (field === 1) this.name = readText(reader, 'name of a metric')
      else if (field === 2) {
        reader.int64()
        this.alias = reader.unsigned < TWO_53 ? reader.unsigned : `${reader.high >>> 0}:${reader.low >>> 0}`
      } else if (field === 3) {
        reader.int64()
        this.time = reader.unsigned
      } else if (field === 4) this.type = reader.uint32()
      else if (field === 6) this.transient = truth(reader)
      else if (field === 7) this.isNull = truth(reader)
      else if (field === 9) this.quality = qualityOf(reader)
      else if (field >= INT_VALUE && field <= 19) this.readValue(reader)
      else reader.skip()
    }
    reader.leave(outer)
  }

  text(reader: ProtobufReader): string {
    return textOf(reader, this.start, this.end, 'value of a metric')
  }

  private readValue(reader: ProtobufReader): void {
    this.value = reader.field
    if (reader.field === INT_VALUE || reader.field === LONG_VALUE || reader.field === BOOLEAN_VALUE) {
      reader.int64()
      this.low = reader.low
      this.high = reader.high
    } else if (reader.field === FLOAT_VALUE) this.number = reader.float()
    else if (reader.field === DOUBLE_VALUE) this.number = reader.double()
    else {
      this.start = reader.span()
      this.end = reader.at
    }
  }
}

/** Field of a payload. */
export const METRICS = 2

export interface Head {
  /** Of the message, milliseconds since the Unix epoch. */
  time: number | undefined
  seq: number | undefined
}

/** What a message says of itself. @throws BAD_REQUEST. */
export function readHead(reader: ProtobufReader, body: Uint8Array): Head {
  const head: Head = { time: undefined, seq: undefined }
  reader.begin(body)
  while (reader.next()) if (!readOfHead(reader, head)) reader.skip()
  return head
}

/** What the field `uuid` of a payload says whose `body` is another one, compressed. The specification has no such thing; Tahu has. */
const COMPRESSED = Buffer.from('SPBV1.0_COMPRESSED')

/** @returns false for a field that is none of the head, which was not read. @throws BAD_REQUEST for a payload that is compressed. */
export function readOfHead(reader: ProtobufReader, head: Head): boolean {
  if (reader.field === 1) {
    reader.int64()
    head.time = reader.unsigned
  } else if (reader.field === 3) {
    reader.int64()
    head.seq = reader.unsigned
  } else if (reader.field === 4) {
    const start = reader.span()
    if (COMPRESSED.equals(reader.bytes.subarray(start, reader.at)))
      throw new SvcError('BAD_REQUEST', `cannot read a payload that its sender has compressed (${COMPRESSED}); have the edge node send without compression`)
  } else return false
  return true
}

/** A template's metrics have this field. */
export const MEMBERS = 2

/** Whether a template says what there may be of it, instead of being one. */
export function isDefinition(reader: ProtobufReader): boolean {
  let found = false
  while (reader.next()) {
    if (reader.field === 5) found = truth(reader)
    else reader.skip()
  }
  return found
}

/** A request to send all births again (6.4.26). */
export function rebirthRequest(time: number): Uint8Array {
  const writer = new ProtobufWriter(64)
  writer.int(1, time)
  const mark = writer.open(2)
  writer.string(1, 'Node Control/Rebirth')
  writer.int(3, time)
  writer.int(4, BOOLEAN)
  writer.int(BOOLEAN_VALUE, 1)
  writer.close(mark)
  return writer.take()
}

function truth(reader: ProtobufReader): boolean {
  reader.int64()
  return reader.low !== 0 || reader.high !== 0
}

/** The property "Quality" of a PropertySet: keys and values in the same order. */
function qualityOf(reader: ProtobufReader): number {
  let quality = GOOD
  let at = -1
  let keys = 0
  const values: number[] = []
  const outer = reader.enter()
  while (reader.next()) {
    if (reader.field === 1) {
      if (readText(reader, 'key of a property') === QUALITY) at = keys
      keys++
    } else if (reader.field === 2) values.push(propertyValue(reader))
    else reader.skip()
  }
  reader.leave(outer)
  if (at >= 0 && at < values.length) quality = values[at]
  return quality
}

/** An integer, or GOOD for all else. */
function propertyValue(reader: ProtobufReader): number {
  let value = GOOD
  const outer = reader.enter()
  while (reader.next()) {
    if (reader.field === 3 || reader.field === 4) {
      reader.int64()
      value = reader.unsigned
    } else reader.skip()
  }
  reader.leave(outer)
  return value
}
