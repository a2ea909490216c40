/** Record batches of a client. Nothing in them is believed: what is corrupt is refused with BAD_REQUEST before it is used. */
import { makeData } from 'apache-arrow/data'
import { RecordBatch } from 'apache-arrow/recordbatch'
import type { Schema } from 'apache-arrow/schema'
import { Struct } from 'apache-arrow/type'
import { Vector } from 'apache-arrow/vector'
import { BatchReader, type ReadLimits } from './batch-reader.ts'
import type { FlatTable } from './flatbuffer.ts'
import {
  type DecodedSchema,
  DICTIONARY_BATCH,
  decodeSchema,
  expectKind,
  guarded,
  type Layout,
  RECORD_BATCH,
  readMessage,
  refused,
  requireHeader,
} from './layout.ts'

const LIMITS: ReadLimits = { maxColumns: 65_536, maxRows: 1 << 24, maxBytes: 1 << 28 }
/** Parts of a dictionary that came one after the other. */
const MAX_PARTS = 1024

/** Reads the messages of one stream in order; it keeps its dictionaries. */
export class ArrowReader {
  readonly schema: Schema
  private readonly decoded: DecodedSchema
  private readonly limits: ReadLimits
  private readonly dictionaries = new Map<number, Vector>()
  /** Bytes that each dictionary holds. */
  private readonly dictionaryBytes = new Map<number, number>()
  /** Bytes that all dictionaries hold. */
  held = 0
  /** Number of the message that was read last; the schema's is 1. */
  private message = 1

  /** @param header the schema's message without its frame. @throws BAD_REQUEST */
  constructor(header: Uint8Array, limits: Partial<ReadLimits> = {}) {
    this.limits = { ...LIMITS, ...limits }
    this.decoded = decodeSchema(header, this.limits.maxColumns)
    this.schema = this.decoded.schema
  }

  /**
   * @param header a message without its frame. @param body its buffers: the batch may refer to this memory, so leave it alone afterwards.
   * What is compressed is unpacked beside the main thread, or in turns: read one message after the other.
   * @returns the rows, or undefined for a dictionary. Text is not checked to be UTF-8. @throws BAD_REQUEST
   */
  async read(header: Uint8Array, body: Uint8Array): Promise<RecordBatch | undefined> {
    requireHeader(header, this.limits.maxColumns)
    this.message++
    const message = guarded(this.message, () => readMessage(header))
    if (message.bodyLength > body.length) throw refused(`a message announces a body of ${message.bodyLength} bytes and brings ${body.length}`)
    if (message.kind === DICTIONARY_BATCH) return this.readDictionary(message.table, body)
    const reader = guarded(this.message, () => new BatchReader(expectKind(message, RECORD_BATCH), body, this.dictionaries, this.limits))
    await reader.unpack()
    return guarded(this.message, () => {
      const children = reader.read(this.decoded.columns)
      return new RecordBatch(this.schema, makeData({ type: new Struct(this.schema.fields), length: reader.rows, nullCount: 0, children }))
    })
  }

  private async readDictionary(table: FlatTable, body: Uint8Array): Promise<undefined> {
    const { id, reader, values, delta } = guarded(this.message, () => this.dictionaryReader(table, body))
    await reader.unpack()
    const [data] = guarded(this.message, () => reader.read([values]))
    const known = delta ? (this.dictionaries.get(id)?.data ?? []) : []
    // All that the body lies in is held, however little of it is used.
    this.dictionaryBytes.set(id, body.buffer.byteLength + reader.made + (delta ? (this.dictionaryBytes.get(id) ?? 0) : 0))
    this.held = 0
    for (const bytes of this.dictionaryBytes.values()) this.held += bytes
    if (this.held > this.limits.maxBytes) throw refused('the dictionaries of the stream take too much memory; send fewer or smaller ones, or plain values')
    if (known.length >= MAX_PARTS) throw refused(`dictionary ${id} comes in more than ${MAX_PARTS} parts; send it anew`)
    this.dictionaries.set(id, new Vector([...known, data] as never))
  }

  private dictionaryReader(table: FlatTable, body: Uint8Array): { id: number; reader: BatchReader; values: Layout; delta: boolean } {
    const id = table.int64(0)
    const values = this.decoded.dictionaries.get(id)
    const batch = table.table(1)
    if (values === undefined || batch === undefined) throw refused(`dictionary ${id} belongs to no column`)
    return { id, reader: new BatchReader(batch, body, this.dictionaries, this.limits), values, delta: table.uint8(2) === 1 }
  }
}
