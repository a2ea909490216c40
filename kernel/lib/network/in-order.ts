/**
 * Requests of a connection one after the other: what a client sends ahead waits until the answer before it is sent.
 *
 * Invariants
 * - What reads sees what was written before it (RFC 9112, section 9.3.2: only requests that change nothing may be worked on at the same time).
 * - A connection has one request under way, where one read of it can hold thousands.
 * - While MAX_WAITING requests wait, nothing more is read: Node.js would read on for as long as there are no answers, and when the connection is gone take
 *   its requests apart in time that grows with the square of them. That a client with so many has gone is seen when an answer is sent.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Those that came in the same read as the last are known all the same. */
const MAX_WAITING = 16

type Serve = (request: IncomingMessage, response: ServerResponse) => void

/** Puts itself before all who listen for the server's requests by now. */
export function serveInOrder(server: Server): void {
  /** Requests that wait, by connection. */
  const waiting = new WeakMap<Socket, number>()
  /** Connections that had a request begun in this turn of the event loop: what is answered at once would else be followed by all that came with it. */
  const begun = new Set<Socket>()
  const served = server.listeners('request') as Serve[]
  const serve: Serve = (request, response) => {
    if (begun.size === 0) setImmediate(() => begun.clear())
    begun.add(request.socket)
    for (const each of served) each(request, response)
  }
  const full = (socket: Socket): boolean => (waiting.get(socket) ?? 0) >= MAX_WAITING
  const begin: Serve = (request, response) => {
    const { socket } = request
    if (socket.destroyed) return
    waiting.set(socket, (waiting.get(socket) ?? 1) - 1)
    if (!full(socket)) socket.resume()
    serve(request, response)
  }
  server.removeAllListeners('request')
  server.on('request', (request, response) => {
    const { socket } = request
    // Node.js gives a response the connection when the one before has been sent.
    const next = response.socket !== null
    if (next && !begun.has(socket)) return serve(request, response)
    const known = waiting.get(socket)
    // Node.js goes on reading when a request is over.
    if (known === undefined) socket.on('resume', () => full(socket) && socket.pause())
    waiting.set(socket, (known ?? 0) + 1)
    if (full(socket)) socket.pause()
    if (next) setImmediate(begin, request, response)
    else response.once('socket', () => setImmediate(begin, request, response))
  })
}
