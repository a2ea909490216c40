import type { Socket } from 'node:net'

/**
 * What a client is answered that speaks HTTP/2 without asking first ("prior knowledge", as gRPC does): its first request is answered 505 with
 * gRPC's status UNIMPLEMENTED and the reason, and GOAWAY ends the connection (RFC 9113). A GOAWAY alone would say that no request was
 * looked at: gRPC clients then connect again at once, hundreds of times a second, and their calls never end.
 */
const HTTP_1_1_REQUIRED = 0x0d
const REASON = 'this port answers HTTP/1.1 only, in plain text or TLS; gRPC and Flight SQL have ports of their own, grpc.addr and flight_sql.addr'
const HEAD_BYTES = 9
const [HEADERS, SETTINGS, GOAWAY] = [0x1, 0x4, 0x7]
const [END_STREAM, END_HEADERS] = [0x1, 0x4]
/** Milliseconds in which a client has to send a request, and to leave when it is answered. */
const PATIENCE_MS = 10_000

function frame(type: number, payload: Buffer, flags = 0, stream = 0): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** A header as HPACK writes one that is in no table (RFC 7541, section 6.2.2); both texts are shorter than a length of two bytes reaches. */
function header(name: string, value: string): Buffer {
  const text = (of: string) => Buffer.concat([Buffer.from(of.length < 127 ? [of.length] : [127, of.length - 127]), Buffer.from(of)])
  return Buffer.concat([Buffer.from([0]), text(name), text(value)])
}

const headers = Buffer.concat([header(':status', '505'), header('grpc-status', '12'), header('grpc-message', REASON)])

/** @param stream of the request that is answered. */
function answer(stream: number): Buffer {
  const last = Buffer.alloc(8)
  last.writeUInt32BE(stream, 0)
  last.writeUInt32BE(HTTP_1_1_REQUIRED, 4)
  // No body: gRPC's own library would not read the status in front of one.
  return Buffer.concat([frame(HEADERS, headers, END_HEADERS | END_STREAM, stream), frame(GOAWAY, Buffer.concat([last, Buffer.from(REASON)]))])
}

/** @param begun what has arrived of the client's frames. */
export function refuseHttp2(socket: Socket, begun: Buffer): void {
  let head = Buffer.alloc(0)
  /** Bytes of the payload that is passed over. */
  let passing = 0
  let answered = false
  const read = (arrived: Buffer) => {
    let rest = arrived
    while (!answered && rest.length > 0) {
      if (passing > 0) {
        const passed = Math.min(passing, rest.length)
        passing -= passed
        rest = rest.subarray(passed)
        continue
      }
      const missing = HEAD_BYTES - head.length
      head = Buffer.concat([head, rest.subarray(0, missing)])
      rest = rest.subarray(missing)
      if (head.length < HEAD_BYTES) return
      if (head[3] === HEADERS) {
        answered = true
        socket.end(answer(head.readUInt32BE(5) & 0x7fff_ffff))
      }
      passing = head.readUIntBE(0, 3)
      head = Buffer.alloc(0)
    }
  }
  const timer = setTimeout(() => socket.destroy(), PATIENCE_MS)
  socket.once('close', () => clearTimeout(timer))
  // Frames are not for the parser of HTTP/1.1, and what comes behind the request is read so that the answer is not lost to a reset.
  socket.removeAllListeners('data').on('data', read)
  socket.write(frame(SETTINGS, Buffer.alloc(0)))
  read(begun)
}
