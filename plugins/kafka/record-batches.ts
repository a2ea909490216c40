/**
 * The record batches of one partition in a fetch (Kafka's "Record Batch" and "Record", magic 2), in turns of the event loop. The library's own decoder hands the
 * records of a batch on as arguments of one call, which fails from some 120,000 on, each time anew; it makes the headers of a record anew for each of them, so
 * that a record with 8,000 takes half a minute; and it holds the event loop for a whole fetch.
 */
import { ProtobufReader } from 'svcdb/lib/protobuf'
import type { KafkaRecord } from './client.ts'
import { type CodecOf, corrupt, decompressed, type Fetch, MAX_RECORDS, newFetch, RECORD_BYTES, TooMuch, tooManyRecords } from './fetch-bounds.ts'
import { decodeMessages } from './message-sets.ts'

/** Of all partitions of a fetch, one behind the other. */
interface Decoder {
  readonly buffer: Buffer
  readInt32(): number
  canReadBytes(length: number): boolean
  readBytes(length: number): Buffer
}

interface Batch {
  firstOffset: number
  firstTime: bigint
  /** Of all its records, where brokers have set it. */
  time: bigint | undefined
  isControlRecord: boolean
  /** What the library finds those of aborted transactions by. */
  batchContext: { producerId: string; inTransaction: boolean }
}

export interface LibraryRecord extends KafkaRecord {
  isControlRecord: boolean
  batchContext: Batch['batchContext']
}

/** A record without key, value and headers. */
const SMALLEST = 7
const MAGIC_AT = 16
const MAGIC_BATCH = 2
/** First offset and length. */
const FRAME = 12
const LAST_DELTA_AT = 23
/** Up to the records. */
const HEAD = 61
/** Of a record; those behind them are not looked at. */
const MAX_HEADERS = 10_000
const APPEND_TIME = 8
const IN_TRANSACTION = 16
const CONTROL = 32

/** @param codecOf the library's. */
export function batchesDecoder(codecOf: CodecOf): (decoder: Decoder) => Promise<KafkaRecord[]> {
  const fetches = new WeakMap<Decoder, Fetch>()
  return async (decoder) => {
    const fetch = fetches.get(decoder) ?? newFetch(decoder.buffer.length, codecOf)
    fetches.set(decoder, fetch)
    const size = decoder.readInt32()
    if (size <= 0 || !decoder.canReadBytes(size)) return []
    const bytes = decoder.readBytes(size)
    if (bytes.readInt8(MAGIC_AT) !== MAGIC_BATCH) return decodeMessages(bytes, fetch)
    const all: LibraryRecord[] = []
    for (let at = 0; at + HEAD <= bytes.length && fetch.left > 0; ) {
      const end = at + FRAME + bytes.readInt32BE(at + 8)
      // Brokers end a fetch at its size, within a batch.
      if (end > bytes.length) break
      await decodeBatch(bytes.subarray(at, end), fetch, all)
      at = end
    }
    return all
  }
}

async function decodeBatch(bytes: Buffer, fetch: Fetch, all: LibraryRecord[]): Promise<void> {
  if (bytes.length < HEAD) throw corrupt()
  const attributes = bytes.readInt16BE(21)
  const batch: Batch = {
    firstOffset: Number(bytes.readBigInt64BE(0)),
    firstTime: bytes.readBigInt64BE(27),
    time: (attributes & APPEND_TIME) === 0 ? undefined : bytes.readBigInt64BE(35),
    isControlRecord: (attributes & CONTROL) !== 0,
    batchContext: { producerId: String(bytes.readBigInt64BE(43)), inTransaction: (attributes & IN_TRANSACTION) !== 0 },
  }
  const count = bytes.readInt32BE(57)
  if (count <= 0) {
    // Compaction has emptied it, and kept it for its producer's sake (KIP-98). It is passed over as a marker is.
    all.push(standIn(bytes, { ...batch, isControlRecord: true }))
    return
  }
  const records = bytes.subarray(HEAD)
  const passOver = ({ why }: TooMuch): void => {
    fetch.left = 0
    all.push(unreadOf(bytes, batch, `cannot read the ${count} records from offset ${batch.firstOffset} on: ${why}`))
  }
  const body = await decompressed(records, attributes, fetch)
  if (body instanceof TooMuch) return passOver(body)
  if (body !== records) fetch.left -= body.length
  fetch.left -= count * RECORD_BYTES
  if (count > MAX_RECORDS && body.length >= count * SMALLEST) return passOver(tooManyRecords())
  const reader = new RecordReader(body, batch)
  for (let i = 0; i < count; i++) {
    all.push(reader.next())
    if (fetch.turn.isOver) await fetch.turn.next()
  }
}

/** A record at the last offset of a batch, in place of all of it. */
function standIn(bytes: Buffer, { firstOffset, firstTime, isControlRecord, batchContext }: Batch): LibraryRecord {
  const offset = String(firstOffset + bytes.readInt32BE(LAST_DELTA_AT))
  return { offset, timestamp: String(firstTime), key: null, value: null, headers: {}, isControlRecord, batchContext }
}

/** What was made to fill memory comes again with each fetch: it is one record instead, so that those behind it are reached. */
const unreadOf = (bytes: Buffer, batch: Batch, why: string): LibraryRecord => ({ ...standIn(bytes, batch), unread: { bytes: bytes.length - HEAD, why } })

interface Range {
  bytes: Buffer
  at: number
  end: number
}

/** Its headers are read when somebody asks for them: a batch of a few kilobytes may decompress to millions. */
class BatchRecord implements LibraryRecord {
  readonly timestamp: string
  readonly offset: string
  readonly key: Buffer | null
  readonly value: Buffer | null
  private readonly batch: Batch
  private readonly range: Range

  constructor(batch: Batch, { timestamp, offset, key, value }: Pick<KafkaRecord, 'timestamp' | 'offset' | 'key' | 'value'>, headers: Range) {
    this.timestamp = timestamp
    this.offset = offset
    this.key = key
    this.value = value
    this.batch = batch
    this.range = headers
  }

  get isControlRecord(): boolean {
    return this.batch.isControlRecord
  }

  get batchContext(): Batch['batchContext'] {
    return this.batch.batchContext
  }

  /** @throws Error for bytes that are none. */
  get headers(): KafkaRecord['headers'] {
    return RecordReader.headers(this.range, this.batch)
  }
}

/** Its numbers are written as protobuf's of type sint32 and sint64. */
class RecordReader {
  private readonly bytes: Buffer
  private readonly batch: Batch
  private readonly reader = new ProtobufReader()

  constructor(bytes: Buffer, batch: Batch) {
    this.bytes = bytes
    this.batch = batch
    this.reader.begin(bytes)
  }

  /** @throws Error for bytes that are no record. */
  next(): LibraryRecord {
    const { reader, batch } = this
    const length = this.number()
    const end = reader.at + length
    if (length < 0 || end > this.bytes.length) throw corrupt()
    // Behind attributes, of which there are none yet.
    reader.at++
    const timestamp = this.time()
    const offset = String(batch.firstOffset + this.number())
    const [key, value] = [this.blob(), this.blob()]
    if (reader.at > end) throw corrupt()
    const record = new BatchRecord(batch, { timestamp, offset, key, value }, { bytes: this.bytes, at: reader.at, end })
    reader.at = end
    return record
  }

  /** Of one record. */
  static headers({ bytes, at, end }: Range, batch: Batch): KafkaRecord['headers'] {
    const records = new RecordReader(bytes.subarray(0, end), batch)
    records.reader.at = at
    return records.headers()
  }

  private number(): number {
    try {
      this.reader.zigzag()
    } catch {
      throw corrupt()
    }
    return this.reader.signed
  }

  private time(): string {
    const millis = Number(this.batch.firstTime) + this.number()
    const { firstTime, time } = this.batch
    if (time === undefined && Number.isSafeInteger(millis)) return String(millis)
    const delta = (BigInt(this.reader.high) << 32n) | BigInt(this.reader.low >>> 0)
    return String(time ?? BigInt.asIntN(64, firstTime + delta))
  }

  private blob(): Buffer | null {
    const length = this.number()
    if (length === -1) return null
    const start = this.reader.at
    const end = start + length
    if (length < 0 || end > this.bytes.length) throw corrupt()
    this.reader.at = end
    return this.bytes.subarray(start, end)
  }

  /** A name that is there several times has all its values. */
  private headers(): KafkaRecord['headers'] {
    const headers: Record<string, Buffer | Buffer[]> = Object.create(null)
    for (let left = Math.min(this.number(), MAX_HEADERS); left > 0; left--) {
      const name = String(this.blob())
      // One without a value is an empty one.
      const value = this.blob() ?? NOTHING
      const known = headers[name]
      if (known === undefined) headers[name] = value
      else if (Array.isArray(known)) known.push(value)
      else headers[name] = [known, value]
    }
    return headers
  }
}

const NOTHING = Buffer.alloc(0)
