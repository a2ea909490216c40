/**
 * A statement's place among those at work in DuckDB. A call of DuckDB keeps a thread of libuv's pool until it comes back, and the log's fdatasync waits behind calls
 * that fill the pool: so there are fewer places than threads, and a namespace has a quarter of them (docs/decisions/034-turns-of-the-event-loop.md).
 *
 * A place is kept from call to call, so that what was begun is done first, and left when the rows' reader has others wait. The first call of a job waits for memory,
 * too (statement-room.ts).
 */
import { SvcError } from 'svcdb/lib/errors'
import { owner } from 'svcdb/lib/event-loop'
import type { Places } from '../../common/places.ts'
import type { StatementRoom } from './statement-room.ts'

/** A reader that does not come back for so long waits for its client. */
const KEPT_MS = 20
/** Others that have ended nothing for so long wait for their clients, or for what this one was to do first. */
const PATIENCE_MS = 10_000
/** So long, where there is memory and others only may come to need it. */
const CAUTION_MS = 2000
const SHORT =
  'cannot run the statement: other questions of the namespace have the memory that it may take on this engine thread, and none has ended for 10 s; read their answers, ask fewer at once, or raise [database] per_query_memory_limit'

export class StatementPlace {
  private readonly places: Places
  private readonly forPlanning: Places
  private readonly room: StatementRoom
  private readonly signal: AbortSignal
  private release: (() => void) | undefined
  /** Of no other statement. */
  private readonly own: boolean
  private begun = false
  private timer: NodeJS.Timeout | undefined

  /** @param signal of its job: ends its wait. Whoever hands one in ends the job in `room`. */
  constructor(places: Places, forPlanning: Places, room: StatementRoom, signal: AbortSignal | undefined) {
    this.places = places
    this.forPlanning = forPlanning
    this.room = room
    this.own = signal === undefined
    this.signal = signal ?? new AbortController().signal
  }

  /** Calls DuckDB when there is a place, and before the first call of its job room. One call at a time. @throws the signal's reason, and what the call throws. */
  async during<T>(call: () => Promise<T>): Promise<T> {
    clearTimeout(this.timer)
    const namespace = owner() ?? ''
    try {
      this.release ??= await this.places.enter(namespace, this.signal)
      if (!this.begun) await this.begin(namespace)
      return await call()
    } finally {
      this.timer = setTimeout(() => this.rest(), KEPT_MS)
    }
  }

  /**
   * Calls DuckDB for what reads no rows, when there is a place for that: a statement that is only described, or has a mistake, does not wait for the rows of others.
   * @throws the signal's reason, and what the call throws.
   */
  async planning<T>(call: () => Promise<T>): Promise<T> {
    const leave = await this.forPlanning.enter(owner() ?? '', this.signal)
    try {
      return await call()
    } finally {
      leave()
    }
  }

  /** For good. Safe twice. */
  leave(): void {
    this.rest()
    if (this.own) this.room.end(this.signal)
  }

  /** Those that it waits for need its place. */
  private async begin(namespace: string): Promise<void> {
    for (;;) {
      const short = await this.room.shortage(namespace, this.signal)
      if (short === undefined) break
      this.rest()
      const hasEnded = await endsWithin(short.ended, short.isLow ? PATIENCE_MS : CAUTION_MS, this.signal)
      if (!hasEnded && short.isLow) throw new SvcError('OVERLOADED', SHORT)
      this.release = await this.places.enter(namespace, this.signal)
      if (!hasEnded) break
    }
    this.signal.throwIfAborted()
    this.room.begin(namespace, this.signal)
    this.begun = true
  }

  private rest(): void {
    clearTimeout(this.timer)
    this.release?.()
    this.release = undefined
  }
}

/** @returns whether it ended in time. @throws the signal's reason. */
async function endsWithin(ended: Promise<void>, ms: number, signal: AbortSignal): Promise<boolean> {
  const over = Promise.withResolvers<boolean>()
  const abort = (): void => over.reject(signal.reason)
  const timer = setTimeout(() => over.resolve(false), ms)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort)
  try {
    return await Promise.race([ended.then(() => true), over.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', abort)
  }
}
