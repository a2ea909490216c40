/** Connections of a listener are bounded: each takes a file handle, and the database needs some for its files. */
import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'

/** Of the handles that the process may have: for one listener, and for all together. */
const SHARE = 1 / 4
const ALL = 1 / 2
const LOG_MS = 60_000

/** Those that listen: handles are the process's, and so are the listeners that share them. Sets the limit of one anew. */
const listeners = new Map<Server, () => void>()

/**
 * Beyond `max` connections at one time a listener closes new ones at once.
 * @param max what server.max_connections says; a quarter of the open files that the process may have is never exceeded, nor a half by all listeners together.
 * @param refused called for each that is closed.
 */
export function boundConnections(
  server: Server,
  max: number,
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void },
  refused: () => void,
): void {
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
  let logged = Number.NEGATIVE_INFINITY
  server.on('drop', () => {
    refused()
    if (performance.now() - logged < LOG_MS) return
    logged = performance.now()
    log.warn({ max_connections: server.maxConnections }, 'connections are refused: there are as many as server.max_connections allows')
  })
}

/** That the process may have open, connections among them; Infinity where the system does not say. */
export function openFiles(): number {
  if (process.platform !== 'linux') return Number.POSITIVE_INFINITY
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
}
