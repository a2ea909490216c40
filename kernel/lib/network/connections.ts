/** Connections of a listener are bounded: each takes a file handle, and the database needs some for its files. */
import { readFileSync } from 'node:fs'
import type { Server, Socket } from 'node:net'

/** Of the handles that the process may have: for one listener, and for all together. */
const SHARE = 1 / 4
const ALL = 1 / 2
/** Places of a listener that are kept free of connections that only wait, and how many at most: so many may come in one turn of the event loop. */
const SPARE = 1 / 4
const MOST_SPARE = 512
/** Milliseconds in which the request of a new connection comes, while there are places left. */
const GRACE_MS = 1000
const LOG_MS = 60_000

/** A listener may hand what it has accepted to another one, which is told of it, too: it counts where it came in. */
const counted = new WeakSet<Socket>()

/** Those that listen: handles are the process's, and so are the listeners that share them. Sets the limit of one anew. */
const listeners = new Map<Server, () => void>()

export interface Bounds {
  /** What server.max_connections says; a quarter of the open files that the process may have is never exceeded, nor a half by all listeners together. */
  max: number
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
  /** Called for each that is closed at once. */
  refused(): void
  /** Ends the one that has waited longest for its client, and at least so long, and says whether there was one: called for each new one that takes one of the last places. */
  makeRoom?(waitedMs: number): boolean
  /** Called for each that made room. */
  closed?(): void
}

/**
 * Beyond `max` connections at one time a listener closes new ones at once. Before it comes to that, those that ask for nothing make room, so that a client that
 * opens connections and leaves them keeps nobody out.
 */
export function boundConnections(server: Server, { max, log, refused, makeRoom, closed }: Bounds): void {
  const handles = openFiles()
  const limit = (): void => {
    server.maxConnections = Math.max(1, Math.min(max, Math.floor(handles * Math.min(SHARE, ALL / listeners.size))))
  }
  const share = (): void => {
    for (const set of listeners.values()) set()
  }
  limit()
  const { maxConnections } = server
  if (maxConnections < max)
    log.info(
      { open_files: handles, max_connections: maxConnections, wanted: max },
      'the process may open few files, and so takes fewer connections than server.max_connections says, and with more than two listeners fewer still; raise the limit (ulimit -n, LimitNOFILE), or lower the key',
    )
  server.once('listening', () => {
    listeners.set(server, limit)
    share()
  })
  server.once('close', () => {
    if (listeners.delete(server)) share()
  })
  const warn = (text: string): (() => void) => {
    let logged = Number.NEGATIVE_INFINITY
    return () => {
      if (performance.now() - logged < LOG_MS) return
      logged = performance.now()
      log.warn({ max_connections: server.maxConnections }, text)
    }
  }
  const full = warn('connections are refused: there are as many as server.max_connections allows, with requests under way')
  server.on('drop', () => {
    refused()
    full()
  })
  const crowded = warn(
    'connections without a request under way are closed, those that wait longest first: there are about as many as server.max_connections allows',
  )
  let open = 0
  // Before anybody else knows of it: it is not the one that makes room.
  server.prependListener('connection', (socket: Socket) => {
    if (counted.has(socket)) return
    counted.add(socket)
    open++
    socket.once('close', () => open--)
    const { maxConnections: most } = server
    const spare = Math.min(MOST_SPARE, Math.ceil(most * SPARE))
    if (open > most - spare && makeRoom?.(open < most ? GRACE_MS : 0) === true) {
      closed?.()
      crowded()
    }
  })
}

/** That the process may have open, connections among them; Infinity where the system does not say. */
export function openFiles(): number {
  if (process.platform !== 'linux') return Number.POSITIVE_INFINITY
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
}
