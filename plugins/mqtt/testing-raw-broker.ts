/** For tests: a broker that sends what it is told to, byte for byte. */
import { createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

export interface RawConnection {
  socket: Socket
  /** Identifiers of what was acknowledged. */
  acked: number[]
  /** The largest packet that the client says it takes; a broker that keeps to version 5 discards what is larger. */
  takes: number
}

export interface RawBroker {
  port: number
  /** All that there were; the last one is up, if any is. */
  connections: RawConnection[]
}

const CONNECT = 1
const PUBACK = 4
const PUBREC = 5
const SUBSCRIBE = 8
const PINGREQ = 12

/** Takes every connection and subscription; versions 3.1.1 and 5. @param ready called when a client has subscribed. */
export async function rawBroker(t: Test, ready: (connection: RawConnection, index: number) => void): Promise<RawBroker> {
  const connections: RawConnection[] = []
  const server = createServer((socket) => {
    const connection: RawConnection = { socket, acked: [], takes: Number.POSITIVE_INFINITY }
    const index = connections.push(connection) - 1
    let rest: Buffer = Buffer.alloc(0)
    let five = false
    socket.on('error', () => {})
    socket.on('data', (bytes: Buffer) => {
      rest = Buffer.concat([rest, bytes])
      for (let frame = frameOf(rest); frame !== undefined; frame = frameOf(rest)) {
        rest = rest.subarray(frame.end)
        const { type, body } = frame
        if (type === CONNECT) {
          five = body[6] === 5
          if (five) connection.takes = maximumPacketSize(body)
          socket.write(five ? Buffer.from([0x20, 3, 0, 0, 0]) : Buffer.from([0x20, 2, 0, 0]))
        } else if (type === SUBSCRIBE) {
          socket.write(five ? Buffer.from([0x90, 4, body[0], body[1], 0, 1]) : Buffer.from([0x90, 3, body[0], body[1], 1]))
          ready(connection, index)
        } else if (type === PINGREQ) socket.write(Buffer.from([0xd0, 0]))
        else if (type === PUBACK || type === PUBREC) connection.acked.push(body.readUInt16BE(0))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const { socket } of connections) socket.destroy()
    server.close()
  })
  return { port: (server.address() as { port: number }).port, connections }
}

/** Of a CONNECT of version 5 (MQTT 5, 3.1.2.11.4), behind the name, version, flags and keep-alive; lengths of properties that clients here send. */
function maximumPacketSize(body: Buffer): number {
  const lengths: Record<number, number> = { 17: 4, 33: 2, 34: 2, 39: 4, 23: 1, 25: 1 }
  for (let at = 11; at < 11 + body[10]; at += 1 + lengths[body[at]]) {
    if (!(body[at] in lengths)) throw new Error(`a property 0x${body[at].toString(16)} that is not known here`)
    if (body[at] === 0x27) return body.readUInt32BE(at + 1)
  }
  return Number.POSITIVE_INFINITY
}

function frameOf(bytes: Buffer): { type: number; body: Buffer; end: number } | undefined {
  let length = 0
  for (let at = 1; at < Math.min(bytes.length, 5); at++) {
    length += (bytes[at] & 127) * 128 ** (at - 1)
    if (bytes[at] > 127) continue
    const end = at + 1 + length
    return end > bytes.length ? undefined : { type: bytes[0] >> 4, body: bytes.subarray(at + 1, end), end }
  }
  return undefined
}

interface PublishOptions {
  id?: number
  qos?: number
  five?: boolean
  user?: Record<string, string>
  /** In place of those, as they are sent. */
  properties?: Buffer
}

const userProperties = (user: Record<string, string>): Buffer =>
  Buffer.concat(
    Object.entries(user).flatMap(([name, value]) => [
      Buffer.from([0x26]),
      ...[name, value].map((text) => Buffer.concat([Buffer.from([0, Buffer.byteLength(text)]), Buffer.from(text)])),
    ]),
  )

/** The beginning of a PUBLISH whose payload of `length` bytes is still to come. @param five of version 5. */
export function publishHead(
  topic: string,
  length: number,
  { id = 1, qos = 1, five = false, user = {}, properties = userProperties(user) }: PublishOptions = {},
): Buffer {
  const name = Buffer.from(topic)
  const variable = Buffer.concat([
    Buffer.from([name.length >> 8, name.length & 255]),
    name,
    ...(qos > 0 ? [Buffer.from([id >> 8, id & 255])] : []),
    ...(five ? [lengthOf(properties.length), properties] : []),
  ])
  return Buffer.concat([Buffer.from([0x30 | (qos << 1)]), lengthOf(variable.length + length), variable])
}

function lengthOf(length: number): Buffer {
  const bytes: number[] = []
  let rest = length
  do {
    bytes.push(rest > 127 ? (rest % 128) | 128 : rest)
    rest = Math.floor(rest / 128)
  } while (rest > 0)
  return Buffer.from(bytes)
}

export const publish = (topic: string, payload: string, options: PublishOptions = {}): Buffer =>
  Buffer.concat([publishHead(topic, Buffer.byteLength(payload), options), Buffer.from(payload)])
