/** What Node.js refuses of itself on a listener, with an empty answer: here it has the form of all that the operator API refuses. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

const TYPE = 'application/json; charset=utf-8'
const INVALID = { status: '400 Bad Request', text: 'the request is not valid HTTP; send HTTP/1.1' }
const REFUSED: Readonly<Record<string, { status: string; text: string }>> = {
  HPE_HEADER_OVERFLOW: { status: '431 Request Header Fields Too Large', text: 'the request headers are too large; send less' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', text: 'the request did not arrive in time; send it again' },
}
/** Nobody is there any more, or cannot read an answer yet. */
const GONE = new Set(['ECONNRESET', 'ERR_TLS_HANDSHAKE_TIMEOUT'])

interface Connection extends Socket {
  /** The answer that is under way on it. */
  _httpMessage?: ServerResponse | null
}

/** @param server with `requireHostHeader: false`: what lacks it is refused by who reads the request. */
export function refuseInForm(server: Server): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Connection) => {
    const { code = '' } = error
    // One answer must not be cut by another.
    if (GONE.has(code) || !socket.writable || socket._httpMessage?.headersSent) return void socket.destroy()
    const { status, text } = REFUSED[code] ?? INVALID
    const body = JSON.stringify({ error: text })
    const head = `HTTP/1.1 ${status}\r\ncontent-type: ${TYPE}\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n`
    socket.write(head + body)
    socket.destroySoon()
  })
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const given = JSON.stringify((request.headers.expect ?? '').slice(0, 64)).replaceAll(/["\\]/g, '')
    const body = JSON.stringify({ error: `cannot meet the expectation ${given}: only 100-continue is known; leave the header Expect out` })
    response.writeHead(417, { 'content-type': TYPE, 'content-length': Buffer.byteLength(body), connection: 'close' }).end(body)
  })
}

/** RFC 9112, section 3.2. @throws Error. */
export function requireHost({ headers, httpVersion }: IncomingMessage): void {
  if (headers.host === undefined && httpVersion === '1.1') throw new Error('cannot read the request: it has no header Host, which HTTP/1.1 needs; send it')
}
