/** Values of attributes (the message AnyValue) as the text of a tag: a string as it is, all else as JSON. */
import { SvcError } from 'svcdb/lib/errors'
import type { ProtobufReader } from 'svcdb/lib/protobuf'
import { utf8Of } from 'svcdb/lib/text'

/** Lists within lists; deeper ones are refused. */
const MAX_DEPTH = 32
/** Of the lists and objects of one set of attributes together: an empty one takes two bytes, and all are read in one go. Each is at least two characters of a tag. */
const MAX_ENTRIES = 32_768

/** An attribute that cannot be a tag. As an error of a point it has no stack: one request may have a million of them. */
export class AttributeError extends SvcError {
  constructor(message: string) {
    super('INVALID_POINT', message)
  }
}

/** @throws AttributeError when it is not UTF-8. */
export function textAt(bytes: Uint8Array, start: number, end: number): string {
  // A call into the runtime costs more than this for the short texts that nearly all are.
  if (end - start < 32) {
    let text = ''
    let at = start
    for (; at < end && bytes[at] < 0x80; at++) text += String.fromCharCode(bytes[at])
    if (at === end) return text
  }
  const text = utf8Of(bytes, start, end)
  if (text === undefined) throw new AttributeError('it is not UTF-8')
  return text
}

/** What the values of one set of attributes have in common. */
export class ValueBudget {
  private entries = 0

  /** One more entry of a list or an object. @throws AttributeError when there are too many. */
  take(): void {
    if (++this.entries > MAX_ENTRIES) throw new AttributeError(`its lists and objects have more than ${MAX_ENTRIES} entries`)
  }
}

/** Reads the AnyValue in [start, end). @returns '' when no value is set. @throws AttributeError. */
export function attributeText(reader: ProtobufReader, start: number, end: number, budget: ValueBudget): string {
  return valueAt(reader, start, end, 0, budget)?.text ?? ''
}

interface Value {
  /** As a tag's value. */
  text: string
  /** Within a list or an object. */
  json: string
}

/** The last value that is set counts: they are one of another. Leaves the reader's place as it was. */
function valueAt(reader: ProtobufReader, start: number, end: number, depth: number, budget: ValueBudget): Value | undefined {
  if (depth > MAX_DEPTH) throw new AttributeError(`its value is nested more than ${MAX_DEPTH} deep`)
  const { at: outerAt, end: outerEnd } = reader
  reader.at = start
  reader.end = end
  let value: Value | undefined
  while (reader.next()) {
    switch (reader.field) {
      case 1: {
        const from = reader.span()
        const text = textAt(reader.bytes, from, reader.at)
        value = { text, json: JSON.stringify(text) }
        break
      }
      case 2:
        reader.int64()
        value = json(reader.low !== 0 || reader.high !== 0 ? 'true' : 'false')
        break
      case 3:
        reader.int64()
        value = json(String((BigInt(reader.high) << 32n) | BigInt(reader.low >>> 0)))
        break
      case 4:
        value = numberOf(reader.double())
        break
      case 5:
        value = json(listAt(reader, depth, budget))
        break
      case 6:
        value = json(objectAt(reader, depth, budget))
        break
      case 7: {
        const from = reader.span()
        const text = Buffer.from(reader.bytes.subarray(from, reader.at)).toString('base64')
        value = { text, json: JSON.stringify(text) }
        break
      }
      default:
        reader.skip()
    }
  }
  reader.at = outerAt
  reader.end = outerEnd
  return value
}

const json = (text: string): Value => ({ text, json: text })

function numberOf(value: number): Value {
  const text = String(value)
  return Number.isFinite(value) ? json(text) : { text, json: JSON.stringify(text) }
}

function listAt(reader: ProtobufReader, depth: number, budget: ValueBudget): string {
  const outer = reader.enter()
  const items: string[] = []
  while (reader.next()) {
    if (reader.field !== 1) {
      reader.skip()
      continue
    }
    budget.take()
    const from = reader.span()
    items.push(nested(valueAt(reader, from, reader.at, depth + 1, budget)))
  }
  reader.leave(outer)
  return `[${items.join(',')}]`
}

function objectAt(reader: ProtobufReader, depth: number, budget: ValueBudget): string {
  const outer = reader.enter()
  const members: string[] = []
  while (reader.next()) {
    if (reader.field !== 1) {
      reader.skip()
      continue
    }
    budget.take()
    const { start, end, key } = keyValueAt(reader)
    members.push(`${JSON.stringify(key)}:${nested(start < 0 ? undefined : valueAt(reader, start, end, depth + 1, budget))}`)
  }
  reader.leave(outer)
  return `{${members.join(',')}}`
}

function nested(value: Value | undefined): string {
  return value === undefined ? 'null' : value.json
}

/** Reads a KeyValue whose tag was read. @returns where its value lies, start -1 = it has none. */
export function keyValueAt(reader: ProtobufReader): { key: string; start: number; end: number } {
  const outer = reader.enter()
  let key = ''
  let start = -1
  let end = -1
  while (reader.next()) {
    if (reader.field === 1) {
      const from = reader.span()
      key = textAt(reader.bytes, from, reader.at)
    } else if (reader.field === 2) {
      start = reader.span()
      end = reader.at
    } else reader.skip()
  }
  reader.leave(outer)
  return { key, start, end }
}
