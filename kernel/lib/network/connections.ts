/** Connections of a listener are bounded: each takes a file handle, and the database needs some for its files. */
import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'

/** Of the handles that the process may have. */
const SHARE = 1 / 4
const LOG_MS = 60_000

/**
 * Beyond `max` connections at one time a listener closes new ones at once.
 * @param max what server.max_connections says; a quarter of the open files that the process may have is never exceeded.
 * @param refused called for each that is closed.
 */
export function boundConnections(
  server: Server,
  max: number,
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void },
  refused: () => void,
): void {
  const handles = openFiles()
  const limit = Math.max(1, Math.min(max, Math.floor(handles * SHARE)))
  if (limit < max)
    log.info({ open_files: handles, max_connections: limit }, 'the process may open few files, and so takes fewer connections than server.max_connections says')
  server.maxConnections = limit
  let logged = Number.NEGATIVE_INFINITY
  server.on('drop', () => {
    refused()
    if (performance.now() - logged < LOG_MS) return
    logged = performance.now()
    log.warn({ max_connections: limit }, 'connections are refused: there are as many as server.max_connections allows')
  })
}

/** Infinity where the system does not say. */
function openFiles(): number {
  if (process.platform !== 'linux') return Number.POSITIVE_INFINITY
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1]
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
}
