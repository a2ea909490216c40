/** For tests: a broker that speaks the protocol of Kafka over a socket, as far as one consumer of one partition needs it, and says what it is told to. */
import { createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

export const API = {
  fetch: 1,
  listOffsets: 2,
  metadata: 3,
  commit: 8,
  committed: 9,
  coordinator: 10,
  join: 11,
  heartbeat: 12,
  leave: 13,
  sync: 14,
  versions: 18,
}

/** Of each, the version that is spoken. */
const VERSIONS: [api: number, version: number][] = [
  [API.fetch, 4],
  [API.listOffsets, 1],
  [API.metadata, 1],
  [API.commit, 2],
  [API.committed, 1],
  [API.coordinator, 0],
  [API.join, 0],
  [API.heartbeat, 0],
  [API.leave, 0],
  [API.sync, 0],
  [API.versions, 0],
]

export const TOPIC = 'plant'
/** A fetch that finds nothing is held so long. */
const HOLD_MS = 20

export const int16 = (value: number): Buffer => Buffer.from([(value >> 8) & 255, value & 255])
export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}
export function int64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(value)
  return bytes
}
export const text = (value: string): Buffer => Buffer.concat([int16(Buffer.byteLength(value)), Buffer.from(value)])
export const array = (...items: Buffer[]): Buffer => Buffer.concat([int32(items.length), ...items])
const join = (...parts: Buffer[]): Buffer => Buffer.concat(parts)

export interface Request {
  api: number
  id: number
  body: Buffer
  socket: Socket
  /** Of a fetch: the offset that is asked for. */
  offset: bigint
}

export interface RawBroker {
  port: number
  /** Records' batches, as they lie in a fetch, by the offset that is asked for. */
  batches: Map<bigint, Buffer>
  /** Behind the newest record. */
  end: bigint
  committed: bigint
  requests: Map<number, number>
  connections: number
}

/** @param hook what is answered in place of what a broker answers: the body, or null when it has written by itself. */
export async function rawBroker(
  t: Pick<Test, 'teardown'>,
  hook: (request: Request, broker: RawBroker) => Buffer | null | undefined = () => undefined,
): Promise<RawBroker> {
  const sockets = new Set<Socket>()
  const broker: RawBroker = { port: 0, batches: new Map(), end: 0n, committed: -1n, requests: new Map(), connections: 0 }
  const server = createServer((socket) => {
    broker.connections++
    sockets.add(socket)
    socket.on('error', () => {})
    let rest: Buffer = Buffer.alloc(0)
    socket.on('data', (bytes: Buffer) => {
      rest = Buffer.concat([rest, bytes])
      while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
        const request = requestOf(rest.subarray(4, 4 + rest.readInt32BE(0)), socket)
        rest = rest.subarray(4 + rest.readInt32BE(0))
        broker.requests.set(request.api, (broker.requests.get(request.api) ?? 0) + 1)
        const body = hook(request, broker)
        if (body !== undefined) {
          if (body !== null) reply(request, body)
        } else if (request.api === API.fetch && !broker.batches.has(request.offset))
          setTimeout(() => reply(request, answerOf(request, broker)), HOLD_MS).unref()
        else reply(request, answerOf(request, broker))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  broker.port = (server.address() as { port: number }).port
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return broker
}

export function reply({ id, socket }: Request, body: Buffer): void {
  if (!socket.destroyed) socket.write(join(int32(4 + body.length), int32(id), body))
}

function requestOf(bytes: Buffer, socket: Socket): Request {
  const api = bytes.readInt16BE(0)
  const body = bytes.subarray(10 + Math.max(0, bytes.readInt16BE(8)))
  // Replica, wait, bytes twice, isolation, one topic, one partition.
  const at = 4 * 4 + 1 + 4 + 2 + TOPIC.length + 4 + 4
  return { api, id: bytes.readInt32BE(4), body, socket, offset: api === API.fetch ? body.readBigInt64BE(at) : -1n }
}

export const fetched = (batches: Buffer, end: bigint, error = 0): Buffer =>
  join(int32(0), array(join(text(TOPIC), array(join(int32(0), int16(error), int64(end), int64(end), array(), int32(batches.length), batches)))))

/** An answer to who asks where the partition begins, or ends. */
export const begins = (offset: bigint): Buffer => array(join(text(TOPIC), array(join(int32(0), int16(0), int64(-1n), int64(offset)))))

function answerOf(request: Request, broker: RawBroker): Buffer {
  const here = (id: number) => join(int32(id), text('127.0.0.1'), int32(broker.port))
  switch (request.api) {
    case API.versions:
      return join(int16(0), array(...VERSIONS.map(([api, version]) => join(int16(api), int16(version), int16(version)))), int32(0))
    case API.metadata:
      return join(
        array(join(here(1), int16(-1))),
        int32(1),
        array(join(int16(0), text(TOPIC), Buffer.from([0]), array(join(int16(0), int32(0), int32(1), array(int32(1)), array(int32(1)))))),
      )
    case API.coordinator:
      return join(int16(0), here(1))
    case API.join:
      return join(int16(0), int32(1), text('RoundRobinAssigner'), text('leader'), text('member'), array())
    case API.sync: {
      const assignment = join(int16(0), array(join(text(TOPIC), array(int32(0)))), int32(0))
      return join(int16(0), int32(assignment.length), assignment)
    }
    case API.committed:
      return array(join(text(TOPIC), array(join(int32(0), int64(broker.committed), int16(0), int16(0)))))
    case API.listOffsets:
      // The earliest is asked for as -2.
      return begins(request.body.includes(int64(-2n)) ? 0n : broker.end)
    case API.commit:
      // Group, generation, member, retention, one topic, one partition.
      broker.committed = request.body.readBigInt64BE(request.body.indexOf(text(TOPIC)) + 2 + TOPIC.length + 4 + 4)
      return array(join(text(TOPIC), array(join(int32(0), int16(0)))))
    case API.fetch:
      return fetched(broker.batches.get(request.offset) ?? Buffer.alloc(0), broker.end)
    default:
      return int16(0)
  }
}

function varint(value: number): number[] {
  let rest = value < 0 ? -2 * value - 1 : 2 * value
  const bytes: number[] = []
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return [...bytes, rest]
}

const HEAD = 61

function framed(first: bigint, records: Buffer, { count = 1, attributes = 0, lastDelta = 0 } = {}): Buffer {
  const head = Buffer.alloc(HEAD)
  head.writeBigInt64BE(first)
  head.writeInt32BE(49 + records.length, 8)
  head[16] = 2
  head.writeInt16BE(attributes, 21)
  head.writeInt32BE(lastDelta, 23)
  head.writeBigInt64BE(BigInt(Date.now()), 27)
  head.writeBigInt64BE(-1n, 43)
  head.writeInt32BE(count, 57)
  return Buffer.concat([head, records])
}

function recordOf(key: Buffer | undefined, value: Buffer): Buffer {
  const keyed = key === undefined ? varint(-1) : [...varint(key.length), ...key]
  const body = Buffer.from([0, ...varint(0), ...varint(0), ...keyed, ...varint(value.length), ...value, 0])
  return Buffer.concat([Buffer.from(varint(body.length)), body])
}

/** A batch of one record. */
export const batchOf = (value: string, first: bigint): Buffer => framed(first, recordOf(undefined, Buffer.from(value)))

/** The marker that a transaction is committed, which no consumer is given. */
export const markerOf = (first: bigint): Buffer => framed(first, recordOf(Buffer.from([0, 0, 0, 1]), Buffer.alloc(6)), { attributes: 0x30 })

/** What compaction leaves of a batch of which it has taken all records. */
export const emptyBatchOf = (first: bigint, records: number): Buffer => framed(first, Buffer.alloc(0), { count: 0, lastDelta: records - 1 })
