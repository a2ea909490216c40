/** Ends a connection whose answer is not whole, so that the client sees it. */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'

/** An answer that is streamed to HTTP/1.0 ends with its connection; later versions mark its end (RFC 9112, sections 6.3 and 8). */
export function endsWithConnection({ httpVersion }: IncomingMessage): boolean {
  return httpVersion === '1.0'
}

/** By a reset where the end of the connection would be taken for the end of the answer. */
export function cutConnection(request: IncomingMessage): void {
  const { socket } = request
  if (socket.destroyed) return
  if (endsWithConnection(request)) {
    // Of TLS the connection below it: few clients look whether TLS ended in order.
    const { _parent: below } = socket as Socket & { _parent?: Socket | null }
    const transport = below ?? socket
    transport.resetAndDestroy()
  }
  socket.destroy()
}
