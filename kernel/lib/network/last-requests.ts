/** The first step of a listener's stop. */
import { Server } from 'node:net'
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises'

const SWEEP_MS = 20
/** 100 ms, for clients that send one request after the other. */
const SWEEPS = 5

/**
 * Takes no more connections, and gives those that are open a moment (at most 100 ms) for what has been sent on them: a request that has arrived and is not
 * read yet would be lost with its connection. The listeners' own `close`, which ends idle connections, is called after this.
 */
export async function lastRequests(listeners: readonly Server[]): Promise<void> {
  await turn() // those that wait to be accepted are
  for (const listener of listeners) Server.prototype.close.call(listener)
  for (let sweeps = 0; sweeps < SWEEPS; sweeps++) {
    const open = await Promise.all(listeners.map(connectionsOf))
    if (open.every((count) => count === 0)) return
    await pause(SWEEP_MS)
    await turn() // what came while the event loop was held up is read now
  }
}

const connectionsOf = (listener: Server): Promise<number> =>
  new Promise((resolve) => listener.getConnections((error, count) => resolve(error === null ? count : 0)))
