/** For tests: HTTP/2 as bytes (RFC 9113), of clients that no library would be. */

export const RST_STREAM = 3
export const [DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE] = [0, 1, 4, 6, 7, 8]
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

export function frame(type: number, flags = 0, stream = 0, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** A header that is in no table (RFC 7541, section 6.2.2). */
const header = (name: string, value: string): Buffer =>
  Buffer.concat([Buffer.of(0, name.length), Buffer.from(name), Buffer.of(value.length), Buffer.from(value)])

/** A call with one empty message. @param more headers. @param stream an odd number, above those before */
export function request(path: string, more: Record<string, string> = {}, stream = 1): Buffer {
  const headers = {
    ':method': 'POST',
    ':scheme': 'http',
    ':path': path,
    ':authority': 'localhost',
    'content-type': 'application/grpc',
    te: 'trailers',
    ...more,
  }
  const block = Buffer.concat(Object.entries(headers).map(([name, value]) => header(name, value)))
  return Buffer.concat([frame(HEADERS, 4, stream, block), frame(DATA, 1, stream, Buffer.alloc(5))])
}
