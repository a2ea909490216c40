/** Requests that are admitted and not there yet. */
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:net'
import type { TestNode } from 'svcdb/testkit'

export interface LateRequest {
  /** Sends what the request lacks. @returns the status of its answer. */
  finish(): Promise<string>
}

/** A request of which all but the last byte of its body is there. */
export async function lateHttp(
  node: TestNode,
  headers: Readonly<Record<string, string>>,
  path: string,
  type: string,
  body: string,
  method = 'POST',
): Promise<LateRequest> {
  const socket = connect(Number(new URL(node.url).port), '127.0.0.1')
  socket.on('error', () => {})
  const lines = Object.entries({ host: 'localhost', connection: 'close', 'content-type': type, ...headers }).map(([name, value]) => `${name}: ${value}`)
  const head = [`${method} ${path} HTTP/1.1`, ...lines]
  socket.write(`${head.join('\r\n')}\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, -1)}`)
  return {
    async finish() {
      socket.write(body.slice(-1))
      let text = ''
      for await (const chunk of socket) text += chunk
      return text.split(' ')[1]
    },
  }
}

/** A call whose only message is there but for its last byte. */
export async function lateGrpc(
  node: TestNode,
  headers: Readonly<Record<string, string>>,
  path: string,
  request: Uint8Array,
  listener = 'grpc',
): Promise<LateRequest> {
  const session = connectHttp2(`http://127.0.0.1:${node.port(listener)}`)
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers })
  const head = Buffer.alloc(5)
  head.writeUInt32BE(request.length, 1)
  stream.write(Buffer.concat([head, request.subarray(0, -1)]))
  return {
    async finish() {
      const status = new Promise<string>((resolve) => {
        for (const event of ['response', 'trailers']) stream.on(event, (headers) => headers['grpc-status'] !== undefined && resolve(headers['grpc-status']))
      })
      stream.resume()
      stream.end(request.subarray(-1))
      const code = await status
      session.close()
      return code
    },
  }
}
