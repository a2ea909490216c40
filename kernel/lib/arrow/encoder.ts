/**
 * Rows in columns to Arrow record batches, without an object a row: what chunks hold is copied into the columns' buffers, and those once more into
 * the body of a message when a batch is full.
 */
import { Message } from 'apache-arrow/ipc/metadata/message'
import type { Schema } from 'apache-arrow/schema'
import type { SqlChunk, SqlColumn } from '../sql-result/index.ts'
import { BatchParts } from './body.ts'
import type { ColumnWriter } from './column-writer.ts'
import { DictionaryWriter } from './dictionary-writer.ts'
import { type ArrowMessage, frame, type MessagePrefix } from './framing.ts'
import { type BatchShape, dictionaryBatchHeader, recordBatchHeader } from './header.ts'
import { arrowSchema } from './types.ts'
import { writerOf } from './writers.ts'

/** How rows are divided into record batches. */
export interface EncoderOptions {
  /** Text columns are numbers in a dictionary; else every text is written out, which every client reads. */
  dictionaries?: boolean
  /** Rows of a batch at most. */
  maxRows?: number
  /** Bytes of a batch's body at most, about; a single row that is larger makes a batch of its own. */
  maxBytes?: number
  /** What is put before each body, so that `ArrowMessage.framed` can be sent as it is. */
  prefix?: MessagePrefix
}

/** Found with kernel/lib/arrow/encoder.bench.ts: larger batches gain nothing and leave the cache; clients that accept 4 MiB a message take these. */
const MAX_ROWS = 65_536
const MAX_BYTES = 2 << 20

const NOTHING: ArrowMessage[] = []

/** Makes the messages of an Arrow stream from the chunks of a SQL result: first `schemaMessage`, then what `push` and `flush` give. */
export class ArrowEncoder {
  readonly schema: Schema
  private readonly writers: readonly ColumnWriter[]
  private readonly maxRows: number
  private readonly maxBytes: number
  private readonly prefix: MessagePrefix | undefined
  private ready: ArrowMessage[] = []
  private rows = 0
  private bytes = 0

  /** @throws Error for a column of a type that no result has. */
  constructor(columns: readonly SqlColumn[], { dictionaries = false, maxRows = MAX_ROWS, maxBytes = MAX_BYTES, prefix }: EncoderOptions = {}) {
    this.schema = arrowSchema(columns, dictionaries)
    this.writers = this.schema.fields.map(({ type }) => writerOf(type))
    this.maxRows = maxRows
    this.maxBytes = maxBytes
    this.prefix = prefix
  }

  schemaMessage(): ArrowMessage {
    return schemaMessage(this.schema, this.prefix)
  }

  /**
   * Takes rows [from, to) of a chunk, which may be reused afterwards.
   * @returns the messages that are complete, in order; what is not yet comes with a later call.
   */
  push(chunk: SqlChunk, from = 0, to: number = chunk.rows): ArrowMessage[] {
    for (let at = from; at < to; at += this.maxRows) this.add(chunk, at, Math.min(to, at + this.maxRows))
    return this.take()
  }

  /** The rest. */
  flush(): ArrowMessage[] {
    if (this.rows > 0) this.seal()
    return this.take()
  }

  private take(): ArrowMessage[] {
    if (this.ready.length === 0) return NOTHING
    const { ready } = this
    this.ready = []
    return ready
  }

  private add(chunk: SqlChunk, from: number, to: number): void {
    let size = 0
    for (let i = 0; i < this.writers.length; i++) size += this.writers[i].size(chunk.columns[i], from, to)
    if (size > this.maxBytes && to - from > 1) {
      const middle = (from + to) >> 1
      this.add(chunk, from, middle)
      this.add(chunk, middle, to)
      return
    }
    if (this.rows > 0 && (this.rows + to - from > this.maxRows || this.bytes + size > this.maxBytes)) this.seal()
    for (let i = 0; i < this.writers.length; i++) this.writers[i].append(chunk.columns[i], from, to)
    this.rows += to - from
    this.bytes += size
  }

  private seal(): void {
    for (const writer of this.writers) {
      if (!(writer instanceof DictionaryWriter)) continue
      const dictionary = writer.takeDictionary()
      if (dictionary === undefined) continue
      this.ready.push(batchMessage(dictionary.rows, dictionary.parts, (shape) => dictionaryBatchHeader(writer.id, shape), this.prefix))
    }
    const parts = new BatchParts()
    for (const writer of this.writers) writer.finish(parts)
    this.ready.push(batchMessage(this.rows, parts, recordBatchHeader, this.prefix))
    for (const writer of this.writers) writer.reset()
    this.rows = 0
    this.bytes = 0
  }
}

/** The first message of a stream. @param prefix as `EncoderOptions.prefix`. */
export function schemaMessage(schema: Schema, prefix?: MessagePrefix): ArrowMessage {
  const message: ArrowMessage = { header: Message.encode(Message.from(schema)), body: new Uint8Array(0) }
  if (prefix !== undefined) message.framed = frame(message, prefix)
  return message
}

function batchMessage(rows: number, { nodes, buffers }: BatchParts, headerOf: (shape: BatchShape) => Uint8Array, prefix?: MessagePrefix): ArrowMessage {
  const places: number[] = []
  let bodyLength = 0
  for (const buffer of buffers) {
    places.push(bodyLength, buffer.length)
    bodyLength = (bodyLength + buffer.length + 7) & ~7
  }
  const header = headerOf({ rows, nodes, buffers: places, bodyLength })
  const front = prefix?.(header, bodyLength)
  const framed = new Uint8Array((front?.length ?? 0) + bodyLength)
  const body = framed.subarray(framed.length - bodyLength)
  for (let i = 0; i < buffers.length; i++) body.set(buffers[i], places[2 * i])
  if (front === undefined) return { header, body }
  framed.set(front)
  return { header, body, framed }
}
