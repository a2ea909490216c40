/**
 * What forwarding costs by gRPC points and by Flight DoPut: rows a second, processor time of both ends, bytes on the wire. node storage/forward/transport.bench.ts [seconds]
 * Requests of 10,000 rows, ten floats and a tag, zstd, one at a time, into a node in another process.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { zstdCompress } from 'node:zlib'
import {
  Dictionary,
  Field,
  Float64,
  Int32,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  Table,
  TimestampNanosecond,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow'
import { Column } from 'svcdb/lib/columns'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { runServer } from '../../test/support/server.ts'
import { rowsOf, writeRequest } from './points.ts'
import type { QueueRecord } from './record.ts'

const ROWS = 10_000
const FIELDS = 10
const SECS = Number(process.argv[2] ?? 10)
const zstd = promisify(zstdCompress)
const start = BigInt(Date.now()) * 1_000_000n

/** Processor time of a process, in seconds. */
const processor = (pid: number | 'self'): number => {
  const [, rest] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const fields = rest.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

function recordOf(round: number): QueueRecord {
  const key = new ProtobufWriter()
  const keys = Array.from({ length: 100 }, (_, i) => {
    key.string(1, 'cpu')
    const tag = key.open(2)
    key.string(1, 'host')
    key.string(2, `host_${i}`)
    key.close(tag)
    return key.take()
  })
  const columns = Array.from({ length: FIELDS }, (_, i) => {
    const column = new Column(`usage_${i}`, 'float64', ROWS)
    for (let row = 0; row < ROWS; row++) column.setF64(row, ((row * 7 + i + round) % 1000) / 10)
    return column
  })
  const time = new Int32Array(ROWS * 2)
  new BigInt64Array(time.buffer).set(Array.from({ length: ROWS }, (_, row) => start + BigInt(round * ROWS + row) * 1000n))
  const series = Int32Array.from({ length: ROWS }, (_, row) => row % 100)
  const table = { rows: ROWS, series, time, names: columns.map(({ name }) => name), columns }
  return {
    sequence: round,
    before: 0,
    points: ROWS,
    takenMs: 0,
    namespace: '',
    backfill: false,
    nonFinite: false,
    keys,
    tables: [table],
    heap: new Uint8Array(0),
  }
}

type Send = (record: QueueRecord, round: number) => Promise<number>

function call(
  session: ReturnType<typeof connect>,
  path: string,
  messages: { bytes: Uint8Array; packed: boolean }[],
  headers: Record<string, string>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers })
    let sent = 0
    stream
      .on('trailers', (trailers) => (trailers['grpc-status'] === '0' ? resolve(sent) : reject(new Error(String(trailers['grpc-message'])))))
      .on('response', (first) => first['grpc-status'] !== undefined && first['grpc-status'] !== '0' && reject(new Error(String(first['grpc-message']))))
      .on('error', reject)
      .resume()
    for (const { bytes, packed } of messages) {
      const head = Buffer.alloc(5)
      head[0] = packed ? 1 : 0
      head.writeUInt32BE(bytes.length, 1)
      stream.write(head)
      stream.write(bytes)
      sent += 5 + bytes.length
    }
    stream.end()
  })
}

function byPoints(session: ReturnType<typeof connect>): Send {
  const writer = new ProtobufWriter(1 << 20)
  return async (record, round) => {
    const message = writeRequest(writer, rowsOf([record]), { backfill: false, dedupKey: `k${round}` })
    return call(session, '/svc.Service/Write', [{ bytes: await zstd(message), packed: true }], { 'grpc-encoding': 'zstd' })
  }
}

/** As a client of Arrow's library does it, with messages compressed by gRPC; tags as dictionary. */
function byFlight(session: ReturnType<typeof connect>): Send {
  return async ({ tables: [{ columns, time }] }) => {
    const hosts = vectorFromArray(
      Array.from({ length: ROWS }, (_, row) => `host_${row % 100}`),
      new Dictionary(new Utf8(), new Int32()),
    )
    const all = [
      { name: '_time', data: makeData({ type: new TimestampNanosecond(), length: ROWS, data: new BigInt64Array(time.buffer) }) as never },
      { name: 'host', data: hosts.data[0] as never },
      ...columns.map(({ name, f64 }) => ({ name, data: makeData({ type: new Float64(), length: ROWS, data: f64 }) as never })),
    ] as { name: string; data: { type: never } }[]
    const fields = all.map(({ name, data }) => new Field(name, data.type, true))
    const batch = new RecordBatch(
      new Schema(fields),
      makeData({ type: new Struct(fields), length: ROWS, nullCount: 0, children: all.map(({ data }) => data) as never }),
    )
    const stream = tableToIPC(new Table(batch), 'stream')
    const messages = messagesOf(stream)
    const writer = new ProtobufWriter()
    const framed: { bytes: Uint8Array; packed: boolean }[] = []
    for (const [i, { header, body }] of messages.entries()) {
      if (i === 0) {
        const descriptor = writer.open(1)
        writer.int(1, 1)
        writer.string(3, 'cpu')
        writer.close(descriptor)
      }
      writer.blob(2, header)
      writer.blob(1000, body)
      framed.push({ bytes: await zstd(writer.take()), packed: true })
    }
    return call(session, '/arrow.flight.protocol.FlightService/DoPut', framed, { 'grpc-encoding': 'zstd' })
  }
}

/** The messages of an IPC stream: continuation, length of the header, header, body. */
function messagesOf(stream: Uint8Array): { header: Uint8Array; body: Uint8Array }[] {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength)
  const messages: { header: Uint8Array; body: Uint8Array }[] = []
  for (let at = 0; at + 8 <= stream.length; ) {
    const length = view.getInt32(at + 4, true)
    if (length === 0) break
    const header = stream.subarray(at + 8, at + 8 + length)
    const bodyLength = bodyLengthOf(header)
    messages.push({ header, body: stream.subarray(at + 8 + length, at + 8 + length + bodyLength) })
    at += 8 + length + bodyLength
  }
  return messages
}

/** Message.bodyLength of a flatbuffer: the fourth field of its root table. */
function bodyLengthOf(header: Uint8Array): number {
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength)
  const table = view.getUint32(0, true)
  const vtable = table - view.getInt32(table, true)
  // A message without a body may leave the field out.
  const offset = view.getUint16(vtable, true) > 10 ? view.getUint16(vtable + 10, true) : 0
  return offset === 0 ? 0 : Number(view.getBigInt64(table + offset, true))
}

const folder = mkdtempSync(join(tmpdir(), 'svc-transport-'))
const config = join(folder, 'svc.toml')
writeFileSync(config, 'plugins = ["grpc", "flight_sql"]\n[database]\nwarm_up_ms = 0\n')
try {
  for (const name of ['points', 'flight', 'points', 'flight']) {
    const server = await runServer(config)
    const port = Number(
      new RegExp(
        `listening.*plugin=${name === 'points' ? 'grpc' : 'flight_sql'}.*port=(\\d+)|${name === 'points' ? 'grpc' : 'flight_sql'}.*listening.*port=(\\d+)`,
      )
        .exec(server.output())
        ?.slice(1)
        .find(Boolean),
    )
    const session = connect(`http://127.0.0.1:${port}`)
    const send = name === 'points' ? byPoints(session) : byFlight(session)
    const records = Array.from({ length: 20 }, (_, round) => recordOf(round))
    for (let round = 0; round < 3; round++) await send(records[round], round - 10)
    const [own, theirs, began] = [processor('self'), processor(server.pid), performance.now()]
    let [rounds, bytes] = [0, 0]
    for (; performance.now() - began < SECS * 1000; rounds++) bytes += await send(records[rounds % records.length], rounds)
    const secs = (performance.now() - began) / 1000
    const million = (rounds * ROWS) / 1e6
    console.log(
      `${name}: ${Math.round((rounds * ROWS) / secs)} rows/s, ${((processor('self') - own) / million).toFixed(2)} s of the sender and ${((processor(server.pid) - theirs) / million).toFixed(2)} s of the upstream for a million rows, ${(bytes / rounds / ROWS).toFixed(1)} bytes a row`,
    )
    session.destroy()
    await server.stop()
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
