/**
 * Connections of HTTP on which no request is under way. Those that have never sent one Node.js takes for busy until its time limit for headers, and a server that
 * closes would wait for them; where a listener is full, those that have waited longest make room.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Handshakes } from './handshakes.ts'
import { endOldest, Idle } from './idle.ts'

/** The connections of a listener that have no request under way. */
export class IdleConnections {
  private readonly idle = new Idle<Socket>()
  private readonly handshakes: Handshakes

  /** Call it before the server listens. */
  constructor(server: Server) {
    const { idle } = this
    this.handshakes = new Handshakes(server)
    const opened = (socket: Socket): void => {
      idle.opened(socket)
      socket.once('close', () => idle.closed(socket))
    }
    // With TLS the first is the transport's, and the second has the requests.
    if ('addContext' in server) server.on('secureConnection', opened)
    else server.on('connection', opened)
    server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
      idle.began(socket)
      response.once('close', () => idle.ended(socket))
    })
  }

  /** Ends those that have sent no request. */
  closeUnasked(): void {
    this.handshakes.close()
    for (const socket of this.idle.silent) socket.destroy()
  }

  /** As `endOldest`. */
  makeRoom(waitedMs: number): boolean {
    return endOldest(this.handshakes, this.idle, waitedMs, (socket) => socket.destroy())
  }
}
