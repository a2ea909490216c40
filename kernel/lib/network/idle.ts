import type { Handshakes } from './handshakes.ts'

/** Connections with nothing under way, in the order in which they began to wait for their clients. */
export class Idle<Connection> {
  /** Since when, by `performance.now`. */
  private readonly waiting = new Map<Connection, number>()
  private readonly unasked = new Set<Connection>()
  /** How much is under way on each other. */
  private readonly busy = new Map<Connection, number>()

  opened(connection: Connection): void {
    this.unasked.add(connection)
    this.waiting.set(connection, performance.now())
  }

  /** It asks for something. */
  began(connection: Connection): void {
    this.unasked.delete(connection)
    this.waiting.delete(connection)
    this.busy.set(connection, (this.busy.get(connection) ?? 0) + 1)
  }

  /** It has its answer. */
  ended(connection: Connection): void {
    const left = (this.busy.get(connection) ?? 0) - 1
    if (left > 0) this.busy.set(connection, left)
    else if (this.busy.delete(connection)) this.waiting.set(connection, performance.now())
  }

  closed(connection: Connection): void {
    this.unasked.delete(connection)
    this.waiting.delete(connection)
    this.busy.delete(connection)
  }

  /** Since when it waits, by `performance.now`; undefined while something is under way. */
  since(connection: Connection): number | undefined {
    return this.waiting.get(connection)
  }

  /** That which has waited longest, and since when. */
  get oldest(): [Connection, number] | undefined {
    for (const entry of this.waiting) return entry
    return undefined
  }

  /** Those that have never asked for anything. */
  get silent(): Iterable<Connection> {
    return this.unasked
  }
}

/**
 * Ends the connection that has waited longest for its client: a TLS handshake, or one with nothing under way.
 * @returns false where none has waited for so many milliseconds.
 */
export function endOldest<Connection>(handshakes: Handshakes, idle: Idle<Connection>, waitedMs: number, end: (connection: Connection) => void): boolean {
  const handshake = handshakes.oldest
  const other = idle.oldest
  const began = Math.min(handshake?.[1] ?? Number.POSITIVE_INFINITY, other?.[1] ?? Number.POSITIVE_INFINITY)
  if (performance.now() - began < waitedMs) return false
  if (handshake !== undefined && (other === undefined || handshake[1] < other[1])) handshakes.end(handshake[0])
  else if (other !== undefined) {
    // Closed it is only after this turn.
    idle.closed(other[0])
    end(other[0])
  } else return false
  return true
}
