/** Statements that are tried again while PostgreSQL is away, for a bounded time. */
import { setTimeout } from 'node:timers/promises'
import { SvcError } from 'svcdb/lib/errors'
import { type Connections, failureOf, isPassing, type Prepared } from './connections.ts'

const FIRST_PAUSE_MS = 20
const LONGEST_PAUSE_MS = 1000

interface LinkNotes {
  /** A failure that is tried again. */
  retried(error: Error): void
  reached(): void
}

/** Tries until a deadline. */
class Patience {
  private readonly until: number
  private readonly closing: AbortSignal
  private pause = FIRST_PAUSE_MS

  constructor(ms: number, closing: AbortSignal) {
    this.until = performance.now() + ms
    this.closing = closing
  }

  /** @returns false when there is no time left. */
  async wait(): Promise<boolean> {
    const ms = this.pause * (0.5 + Math.random() / 2)
    if (this.closing.aborted || performance.now() + ms > this.until) return false
    this.pause = Math.min(LONGEST_PAUSE_MS, this.pause * 2)
    return setTimeout(ms, true, { signal: this.closing }).catch(() => false)
  }
}

export class Link {
  readonly connections: Connections
  private readonly retryMs: number
  private readonly notes: LinkNotes
  private readonly closing = new AbortController()
  private refusal: SvcError | undefined

  constructor(connections: Connections, retryMs: number, notes: LinkNotes) {
    this.connections = connections
    this.retryMs = retryMs
    this.notes = notes
  }

  patience(): Patience {
    return new Patience(this.retryMs, this.closing.signal)
  }

  /** @throws DATABASE_CLOSED, and why nothing may be done. */
  requireOpen(): void {
    if (this.closing.signal.aborted) throw new SvcError('DATABASE_CLOSED', 'cannot use the state store: it is closed')
    if (this.refusal !== undefined) throw this.refusal
  }

  /** @param why nothing may be done until further notice; undefined: that is over. */
  refuse(why: SvcError | undefined): void {
    this.refusal = why
  }

  note(error: unknown): void {
    this.notes.retried(error as Error)
  }

  reached(): void {
    this.notes.reached()
  }

  /** What changes nothing, or may be done twice. @throws OVERLOADED, DATABASE_CLOSED. */
  async read<R>(what: string, statement: Prepared, values: unknown[]): Promise<R[]> {
    this.requireOpen()
    const patience = this.patience()
    for (;;) {
      try {
        const rows = await this.connections.query<R>(statement, values)
        this.reached()
        return rows
      } catch (error) {
        this.note(error)
        if (!isPassing(error) || !(await patience.wait())) {
          this.requireOpen()
          throw failureOf(what, error)
        }
      }
    }
  }

  async close(): Promise<void> {
    this.closing.abort()
    await this.connections.close()
  }
}
