/**
 * Messages of the formats before that of batches (Kafka's "Message Set", magic 0 and 1), in turns of the event loop. A compressed message has others in it. The
 * library's own decoder hands them on as arguments of one call, which fails from some 120,000 on, each time anew.
 */
import type { KafkaRecord } from './client.ts'
import { corrupt, decompressed, type Fetch, MAX_RECORDS, RECORD_BYTES, TooMuch, tooManyRecords } from './fetch-bounds.ts'

/** Offset and length. */
const FRAME = 12
const MAGIC_AT = 16
const ATTRIBUTES_AT = 17
const TIME_AT = 18
/** A message of magic 0 without key and value: checksum, magic, attributes, two lengths. */
const SMALLEST = 14
const CODEC = 7
const APPEND_TIME = 8
/** Of a message that has none, and all of magic 0. */
const NO_TIME = '-1'

interface Message {
  offset: bigint
  magic: number
  attributes: number
  timestamp: string
  key: Buffer | null
  value: Buffer | null
}

/** @throws Error for bytes that are none. */
export async function decodeMessages(bytes: Buffer, fetch: Fetch): Promise<KafkaRecord[]> {
  const all: KafkaRecord[] = []
  for (let at = 0; at + FRAME + SMALLEST <= bytes.length && fetch.left > 0; ) {
    const end = endOf(bytes, at)
    // One that is cut, or a batch of the format of today behind old ones, is what the next fetch begins with.
    if (end > bytes.length || bytes.readInt8(at + MAGIC_AT) > 1) break
    const message = messageAt(bytes, at, end)
    if ((message.attributes & CODEC) === 0) take(message, all, fetch)
    else await decodeWithin(message, all, fetch)
    at = end
    if (fetch.turn.isOver) await fetch.turn.next()
  }
  return all
}

async function decodeWithin(outer: Message, all: KafkaRecord[], fetch: Fetch): Promise<void> {
  if (outer.value === null) throw corrupt()
  const bytes = await decompressed(outer.value, outer.attributes, fetch)
  const set = bytes instanceof TooMuch ? bytes : extentOf(bytes)
  if (bytes instanceof TooMuch || set instanceof TooMuch) {
    fetch.left = 0
    const why = `cannot read the records up to offset ${outer.offset}: ${(set as TooMuch).why}`
    return void all.push({ ...recordOf({ ...outer, value: null }), unread: { bytes: outer.value.length, why } })
  }
  // From magic 1 on those within count from their first, and the message around them has the offset of their last.
  const base = outer.magic === 0 ? 0n : outer.offset - set.last
  const time = outer.magic > 0 && (outer.attributes & APPEND_TIME) !== 0 ? outer.timestamp : undefined
  for (let at = 0; at < set.end; ) {
    const end = endOf(bytes, at)
    const message = messageAt(bytes, at, end)
    message.offset += base
    message.timestamp = time ?? message.timestamp
    take(message, all, fetch)
    at = end
    if (fetch.turn.isOver) await fetch.turn.next()
  }
}

/** Where messages end, and the offset of the last one. They are counted before any is read: what was made to fill memory is not. */
function extentOf(bytes: Buffer): { end: number; last: bigint } | TooMuch {
  let [at, last] = [0, 0]
  for (let count = 0; at < bytes.length; count++) {
    if (count === MAX_RECORDS) return tooManyRecords()
    last = at
    if (at + FRAME + SMALLEST > bytes.length) throw corrupt()
    at = endOf(bytes, at)
  }
  if (at === 0 || at > bytes.length) throw corrupt()
  return { end: at, last: bytes.readBigInt64BE(last) }
}

function endOf(bytes: Buffer, at: number): number {
  const length = bytes.readInt32BE(at + 8)
  if (length < SMALLEST) throw corrupt()
  return at + FRAME + length
}

function messageAt(bytes: Buffer, at: number, end: number): Message {
  const [magic, attributes] = [bytes.readInt8(at + MAGIC_AT), bytes.readInt8(at + ATTRIBUTES_AT)]
  if (magic < 0 || magic > 1) throw corrupt()
  const keyAt = at + (magic === 0 ? TIME_AT : TIME_AT + 8)
  const [key, valueAt] = blobAt(bytes, keyAt, end)
  const [value] = blobAt(bytes, valueAt, end)
  return { offset: bytes.readBigInt64BE(at), magic, attributes, timestamp: magic === 0 ? NO_TIME : String(bytes.readBigInt64BE(at + TIME_AT)), key, value }
}

/** @returns it, and what is behind it. */
function blobAt(bytes: Buffer, at: number, end: number): [Buffer | null, number] {
  if (at + 4 > end) throw corrupt()
  const length = bytes.readInt32BE(at)
  if (length === -1) return [null, at + 4]
  const behind = at + 4 + length
  if (length < 0 || behind > end) throw corrupt()
  return [bytes.subarray(at + 4, behind), behind]
}

function take(message: Message, all: KafkaRecord[], fetch: Fetch): void {
  all.push(recordOf(message))
  fetch.left -= RECORD_BYTES + (message.key?.length ?? 0) + (message.value?.length ?? 0)
}

function recordOf({ offset, timestamp, key, value }: Message): KafkaRecord {
  return { offset: String(offset), timestamp, key, value, headers: {} }
}
