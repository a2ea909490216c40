/**
 * Bodies in very many small chunks: each is an event of its own, some two microseconds for six bytes, and libuv reads up to two megabytes of a connection
 * before it looks at anything else. That would hold the event loop for half a second.
 *
 * Invariants
 * - A connection that has brought CHUNKS is read no further in this turn: what it has in one read, 64 KiB, is taken apart still.
 * - Of those that wait so one goes on with each turn of the event loop: many of them together hold it no longer than one.
 */
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** In bodies of a few megabytes, as clients send them, there are some hundreds. */
const CHUNKS = 1000

/** Puts itself before all who listen for the server's requests by now: chunks may come with the head. */
export function takeChunksInTurns(server: Server): void {
  const waiting = new Set<Socket>()
  const known = new WeakSet<Socket>()
  const next = (): void => {
    const [socket] = waiting
    waiting.delete(socket)
    if (waiting.size > 0) setImmediate(next)
    socket.resume()
  }
  const wait = (socket: Socket): void => {
    if (waiting.has(socket) || socket.destroyed) return
    if (waiting.size === 0) setImmediate(next)
    waiting.add(socket)
    // Node.js goes on reading whenever somebody asks for more of the body.
    if (!known.has(socket)) socket.on('resume', () => waiting.has(socket) && socket.pause())
    known.add(socket)
    socket.pause()
  }
  server.prependListener('request', (request: IncomingMessage) => {
    if (request.headers['transfer-encoding'] === undefined) return
    const { socket } = request
    let chunks = 0
    // Not by its events: it may not be read yet, or never.
    request.push = function push(this: IncomingMessage, chunk, encoding) {
      if (++chunks % CHUNKS === 0) wait(socket)
      return Object.getPrototypeOf(this).push.call(this, chunk, encoding)
    }
  })
}
