/**
 * Connections whose TLS handshake has not ended: they are no connections of HTTP yet, and a server that closes waits for them, for two minutes where the
 * client says nothing more.
 */
import type { Server, Socket } from 'node:net'

const MAX_MS = 60_000

/** Milliseconds that a handshake may take: as long as a request, and a minute at most; Node.js would wait for two. */
export function handshakeMs({ request_timeout_secs: secs }: { readonly request_timeout_secs: number }): number {
  return Math.min(Math.ceil(secs * 1000) || MAX_MS, MAX_MS)
}

/** The TLS handshakes of a listener that are under way. */
export class Handshakes {
  /** By both ends, for Node.js does not say which connection a secure one is of; each with when it began. */
  private readonly underWay = new Map<string, [Socket, number]>()

  /** Call it before the server listens. In plain text there are none. */
  constructor(server: Server) {
    if (!('addContext' in server)) return
    server.on('connection', (socket: Socket) => {
      const ends = endsOf(socket)
      this.underWay.set(ends, [socket, performance.now()])
      socket.once('close', () => this.underWay.get(ends)?.[0] === socket && this.underWay.delete(ends))
    })
    server.on('secureConnection', (socket: Socket) => this.underWay.delete(endsOf(socket)))
  }

  /** That which began first, and when, by `performance.now`. */
  get oldest(): [Socket, number] | undefined {
    for (const handshake of this.underWay.values()) return handshake
    return undefined
  }

  /** Ends one: it counts no more from now on. */
  end(socket: Socket): void {
    this.underWay.delete(endsOf(socket))
    socket.destroy()
  }

  /** Ends those that are under way. */
  close(): void {
    for (const [socket] of this.underWay.values()) socket.destroy()
  }
}

function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`
}
