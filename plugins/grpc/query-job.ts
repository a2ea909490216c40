/** Query beside the data: scans, merges the series by time, emits QueryResponse messages. */
import type { Job, JobIo, Reader, ScanRequest, SeriesChunk } from 'svcdb'
import { ArrowEncoder, type ArrowMessage, END_OF_STREAM, frame, type MessagePrefix, streamPrefix } from 'svcdb/lib/arrow'
import { heldRows, type RowHold, TimeMerge } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { RowGatherer } from './gather.ts'
import { RowEncoder } from './rows.ts'

export interface QueryArgs {
  request: ScanRequest
  /** Rows instead of Arrow. */
  rows: boolean
  /** 0 = none. */
  limit: number
  /** Rows an answer may have: server.sql_max_rows. */
  maxRows: number
  /** What rows that are held for their order may take in memory; 0 = what all queries of the thread may hold. */
  maxBytes: number
  /** What all queries of the thread may hold: server.max_held_memory. */
  maxHeldBytes: number
  /** Bytes of one message, about. */
  messageBytes: number
}

/** Columns may have as much, however few rows may be held. */
const LEAST_COLUMN_BYTES = 33_554_432

type Emit = (bytes: Uint8Array) => Promise<void>
type EachRow = (row: (chunk: SeriesChunk, index: number) => boolean | Promise<boolean>) => Promise<void>

async function runQuery(reader: Reader, args: QueryArgs, io: JobIo): Promise<number> {
  const options = { namespace: args.request.namespace, limit: args.maxHeldBytes, engineLimit: reader.memoryLimit, signal: io.signal }
  return heldRows.during(options, (hold) => answer(reader, args, io, hold))
}

async function answer(reader: Reader, args: QueryArgs, io: JobIo, hold: RowHold): Promise<number> {
  const { request, limit, maxRows } = args
  const maxBytes = args.maxBytes || hold.limit
  const setting = args.maxBytes === 0 ? 'server.max_held_memory' : 'grpc.max_query_memory_bytes'
  // Without a limit one row too many is enough to know that the answer is refused.
  const earliest = limit === 0 ? maxRows + 1 : limit
  const merge = new TimeMerge(earliest, maxBytes)
  for await (const chunk of hold.chunks(reader.scan({ ...request, earliest }), () => merge.bytes)) {
    io.signal.throwIfAborted()
    if (!merge.add(chunk)) throw tooLarge(maxBytes, setting)
  }
  if (limit === 0 && merge.held > maxRows) {
    throw new SvcError(
      'BAD_REQUEST',
      `cannot answer query: it has more than ${maxRows} rows, and server.sql_max_rows is ${maxRows}; name a limit or narrow the range`,
    )
  }
  let written = 0
  const each: EachRow = (row) =>
    merge.each((chunk, index) => {
      if (limit > 0 && written === limit) return false
      written++
      return row(chunk, index)
    })
  const taken: Emit = (bytes) => hold.taken(io.emit(bytes))
  if (args.rows) {
    hold.gathered()
    await emitRows(each, args, taken)
  } else await emitArrow(reader, each, args, hold, taken)
  return written
}

async function emitRows(each: EachRow, { messageBytes }: QueryArgs, emit: Emit): Promise<void> {
  const encoder = new RowEncoder()
  const { writer } = encoder
  await each((chunk, index) => {
    encoder.row(chunk, index)
    return writer.at < messageBytes ? true : emit(writer.take()).then(() => true)
  })
  if (writer.at > 0) await emit(writer.take())
}

async function emitArrow(reader: Reader, each: EachRow, { request, messageBytes, maxBytes }: QueryArgs, hold: RowHold, taken: Emit): Promise<void> {
  const measurement = (await reader.measurements(request.namespace, request.measurement)).at(0)
  const { fields: wanted } = request
  const all = measurement?.fields ?? []
  const fields = all.filter(({ name }) => wanted === undefined || wanted.includes(name))
  const tags = measurement?.tags ?? []
  const bound = Math.max(maxBytes || hold.limit, LEAST_COLUMN_BYTES)
  const own = RowGatherer.bytesOf(tags.length + fields.length + 1)
  if (own > bound) throw tooWide(tags.length, fields.length, bound)
  await hold.has(hold.bytes + own)
  hold.gathered()
  const gatherer = new RowGatherer(tags, fields, all)
  const encoder = new ArrowEncoder(gatherer.columns, { maxBytes: messageBytes, prefix: responsePrefix })
  const emit = async (messages: readonly ArrowMessage[]): Promise<boolean> => {
    for (const message of messages) await taken(message.framed ?? frame(message, responsePrefix))
    return true
  }
  await emit([encoder.schemaMessage()])
  await each((chunk, index) => {
    gatherer.add(chunk, index)
    return gatherer.full ? emit(encoder.push(gatherer.take())) : true
  })
  await emit(encoder.push(gatherer.take()))
  await emit(encoder.flush())
  await taken(response(END_OF_STREAM))
}

/** `QueryResponse.arrow_ipc` around a message of the stream. */
const responsePrefix: MessagePrefix = (header, bodyLength) => {
  const front = streamPrefix(header, bodyLength)
  const writer = new ProtobufWriter(front.length + 16)
  writer.varint(0x12)
  writer.varint(front.length + bodyLength)
  writer.append(front)
  return writer.take()
}

function response(ipc: Uint8Array): Uint8Array {
  const writer = new ProtobufWriter()
  writer.blob(2, ipc)
  return writer.take()
}

function tooLarge(maxBytes: number, setting: string): SvcError {
  return new SvcError(
    'BAD_REQUEST',
    `cannot answer query: its rows take more than ${maxBytes} bytes of memory, which is ${setting}; narrow the range or name fewer fields, or raise it`,
  )
}

function tooWide(tags: number, fields: number, maxBytes: number): SvcError {
  return new SvcError(
    'BAD_REQUEST',
    `cannot answer query as Arrow: ${tags} tags and ${fields} fields make columns of more than ${maxBytes} bytes of memory (grpc.max_query_memory_bytes); ask for ROWS, or raise it`,
  )
}

export default runQuery satisfies Job<QueryArgs, number>
