/** Connections that have not sent a request: Node.js takes them for busy until its time limit for headers, and a server that closes would wait for them. */
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { Handshakes } from './handshakes.ts'

export class Unasked {
  private readonly sockets = new Set<Socket>()
  private readonly handshakes: Handshakes

  constructor(server: Server) {
    this.handshakes = new Handshakes(server)
    const opened = (socket: Socket): void => {
      this.sockets.add(socket)
      socket.once('close', () => this.sockets.delete(socket))
    }
    // With TLS the first is the transport's, and the second has the requests.
    if ('addContext' in server) server.on('secureConnection', opened)
    else server.on('connection', opened)
    server.on('request', ({ socket }) => this.sockets.delete(socket))
  }

  close(): void {
    this.handshakes.close()
    for (const socket of this.sockets) socket.destroy()
  }
}
