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

/** How a header that is in no table begins: kept in none (RFC 7541, section 6.2.2), or in the dynamic one (6.2.1). */
const [UNINDEXED, INDEXED] = [0, 0x40]
/** The newest entry of the dynamic table, as a whole header (RFC 7541, section 6.1). */
const NEWEST = 0x80 | 62

const header = (name: string, value: string, kind = UNINDEXED): Buffer =>
  Buffer.concat([Buffer.of(kind, name.length), Buffer.from(name), Buffer.of(value.length), Buffer.from(value)])

const headersOf = (path: string): Record<string, string> => ({
  ':method': 'POST',
  ':scheme': 'http',
  ':path': path,
  ':authority': 'localhost',
  'content-type': 'application/grpc',
  te: 'trailers',
})

/** A call with one empty message. @param more headers. @param stream an odd number, above those before */
export function request(path: string, more: Record<string, string> = {}, stream = 1): Buffer {
  const headers = { ...headersOf(path), ...more }
  const block = Buffer.concat(Object.entries(headers).map(([name, value]) => header(name, value)))
  return Buffer.concat([frame(HEADERS, 4, stream, block), frame(DATA, 1, stream, Buffer.alloc(5))])
}

/** Calls that are begun and cancelled, some 30 bytes each: the first of a connection. */
export function cancelledCalls(path: string, count: number): Buffer {
  const headers = Object.entries(headersOf(path))
  const first = Buffer.concat(headers.map(([name, value]) => header(name, value, INDEXED)))
  const again = Buffer.from(headers.map((_, i) => NEWEST + headers.length - 1 - i))
  return Buffer.concat(
    Array.from({ length: count }, (_, i) =>
      Buffer.concat([frame(HEADERS, 4, 2 * i + 1, i === 0 ? first : again), frame(RST_STREAM, 0, 2 * i + 1, Buffer.of(0, 0, 0, 8))]),
    ),
  )
}
