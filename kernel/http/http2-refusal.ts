/**
 * What a client is answered that speaks HTTP/2 without asking first ("prior knowledge", as gRPC does), before any of it is read: settings, and a
 * GOAWAY that says in its debug data why (RFC 9113, sections 3.4, 6.5 and 6.8). It has processed no stream, so nothing is lost by trying elsewhere.
 */
const HTTP_1_1_REQUIRED = 0x0d
const REASON = 'this port answers HTTP/1.1 only, in plain text or TLS; gRPC and Flight SQL have ports of their own, grpc.addr and flight_sql.addr'

function frame(type: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  return Buffer.concat([head, payload])
}

const lastStream = Buffer.from([0, 0, 0, 0])
const code = Buffer.from([0, 0, 0, HTTP_1_1_REQUIRED])
export const HTTP2_REFUSAL: Buffer = Buffer.concat([frame(0x4, Buffer.alloc(0)), frame(0x7, Buffer.concat([lastStream, code, Buffer.from(REASON)]))])
