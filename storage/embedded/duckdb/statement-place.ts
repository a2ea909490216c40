/**
 * A statement's place among those at work in DuckDB. A call of DuckDB keeps a thread of libuv's pool until it comes back, and the log's fdatasync waits behind calls
 * that fill the pool: so there are fewer places than threads, and a namespace has a quarter of them (docs/decisions/034-turns-of-the-event-loop.md).
 *
 * A place is kept from call to call, so that what was begun is done first, and left when the rows' reader has others wait.
 */
import { owner } from 'svcdb/lib/event-loop'
import type { Places } from '../../common/places.ts'

/** A reader that does not come back for so long waits for its client. */
const KEPT_MS = 20

export class StatementPlace {
  private readonly places: Places
  private readonly signal: AbortSignal
  private release: (() => void) | undefined
  private timer: NodeJS.Timeout | undefined

  /** @param signal ends its wait. */
  constructor(places: Places, signal: AbortSignal | undefined) {
    this.places = places
    this.signal = signal ?? new AbortController().signal
  }

  /** Calls DuckDB when there is a place. One call at a time. @throws the signal's reason, and what the call throws. */
  async during<T>(call: () => Promise<T>): Promise<T> {
    clearTimeout(this.timer)
    this.release ??= await this.places.enter(owner() ?? '', this.signal)
    try {
      return await call()
    } finally {
      this.timer = setTimeout(() => this.leave(), KEPT_MS)
    }
  }

  /** Safe twice. */
  leave(): void {
    clearTimeout(this.timer)
    this.release?.()
    this.release = undefined
  }
}
