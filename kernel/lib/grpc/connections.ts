/**
 * The connections below a listener's sessions. node:http2 ends a connection behind all that is to be sent, and waits for the client to end its side of it, also
 * when the session is destroyed: a client that does not read, or does not leave, would keep it for ever, and with it a file handle, what was to be sent to it,
 * and the stop of the server. So they are looked at from outside. So are those that have had no call for long.
 */
import type { Http2SecureServer, Http2Server, Http2Session, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { endOldest, type Handshakes, Idle } from '../network/index.ts'

/** Milliseconds that a client has to leave when everything was sent to it, or nothing more will be. */
const LEAVE_MS = 1000
/** Milliseconds that a client has to read what was sent to it, where its memory is needed. */
const READ_MS = 2000
const LOOK_MS = 250

interface ConnectionLimits {
  /** 0 = none. */
  idle_timeout_secs: number
  keepalive_timeout_secs: number
}

interface Connection {
  socket: Socket
  /** When its session was first seen to be over, and when all was sent. */
  over: number | undefined
  sent: number | undefined
  /** It is to read on, or is cut. */
  hurried: boolean
}

/** Times are of `performance.now`. */
export class Connections {
  private readonly limits: ConnectionLimits
  /** Those without a session, too: of TLS in other protocols. */
  private readonly sockets = new Set<Socket>()
  private readonly known = new Map<Http2Session, Connection>()
  /** Without a call, also one that is refused. */
  private readonly idle = new Idle<Http2Session>()
  private timer: NodeJS.Timeout | undefined

  /** Call it before the server listens. */
  constructor(server: Http2Server | Http2SecureServer, limits: ConnectionLimits) {
    this.limits = limits
    let newest: Socket | undefined
    // The server makes the session of a connection as it is told of it, and behind this.
    server.prependListener('addContext' in server ? 'secureConnection' : 'connection', (socket: Socket) => {
      newest = socket
      this.sockets.add(socket)
      socket.once('close', () => this.sockets.delete(socket))
    })
    server.on('session', (session) => this.watch(session, newest as Socket))
  }

  /** Ends a session and its connection at once, whatever waits to be sent. */
  cut(session: Http2Session): void {
    session.destroy()
    this.known.get(session)?.socket.destroy()
  }

  /**
   * Cuts a connection unless its client reads what was sent to it by now, which a ping behind it shows. What node:http2 has handed to the connection is in
   * memory until it is read, whatever becomes of its stream.
   */
  hurry(session: Http2Session): void {
    const connection = this.known.get(session)
    if (connection === undefined || connection.hurried || session.destroyed) return
    connection.hurried = true
    // An answer may be there that this turn has not come to.
    const late = setTimeout(() => setImmediate(() => connection.hurried && this.cut(session)), READ_MS).unref()
    session.ping(() => {
      clearTimeout(late)
      connection.hurried = false
    })
  }

  /** As `endOldest`. */
  makeRoom(handshakes: Handshakes, waitedMs: number): boolean {
    return endOldest(handshakes, this.idle, waitedMs, (session) => this.cut(session))
  }

  cutAll(): void {
    for (const socket of this.sockets) socket.destroy()
  }

  private watch(session: ServerHttp2Session, socket: Socket): void {
    const connection: Connection = { socket, over: undefined, sent: undefined, hurried: false }
    this.known.set(session, connection)
    this.idle.opened(session)
    this.timer ??= setInterval(() => this.look(), LOOK_MS).unref()
    session.on('stream', (stream: ServerHttp2Stream) => {
      this.idle.began(session)
      stream.once('close', () => this.idle.ended(session))
    })
    session.on('close', () => {
      this.known.delete(session)
      this.idle.closed(session)
      if (this.known.size > 0) return
      clearInterval(this.timer)
      this.timer = undefined
    })
  }

  private look(): void {
    const now = performance.now()
    const idleMs = this.limits.idle_timeout_secs * 1000
    for (const [session, connection] of this.known) {
      if (session.destroyed || session.closed) this.leaves(session, connection, now)
      // Its client is told, and calls that it sends meanwhile are none: clients of gRPC make them again on another connection.
      else if (idleMs > 0 && now - (this.idle.since(session) ?? now) >= idleMs) session.close()
    }
  }

  /** Ends the connection of a session that is over, if its client does not. */
  private leaves(session: Http2Session, connection: Connection, now: number): void {
    const { socket } = connection
    // It goes on to its last call.
    if (!session.destroyed && this.idle.since(session) === undefined) return
    connection.over ??= now
    if (socket.writableFinished) connection.sent ??= now
    // One that is closed in order may be slow to take the end of an answer.
    const patience = session.closed && connection.sent === undefined ? Math.max(LEAVE_MS, this.limits.keepalive_timeout_secs * 1000) : LEAVE_MS
    if (now - (connection.sent ?? connection.over) >= patience) socket.destroy()
  }
}
