/**
 * Which snapshots jobs have, as all threads see it: memory of memtables and files of segments are given back when no snapshot has them any more.
 *
 * Invariants
 * - A slot belongs to one job on one thread at a time, and only that thread writes to it, until the job has ended or the thread is gone.
 * - A snapshot as of event E (`Shared.EVENTS`) is noted before the thread looks whether E is still the newest event, and the main thread publishes that
 *   something is gone before it looks for snapshots that have it. All four are Atomics, so either the thread sees the event, and takes a later snapshot,
 *   or the main thread sees the snapshot.
 * - A job notes that it begins before it takes its first snapshot, so that one that has not begun sees all that is published by then.
 * - What was there from event `since` on and is gone as of event `until` is in a snapshot as of E when since <= E < until, modulo 2^32.
 */
import { SvcError } from 'svcdb/lib/errors'

/** BEGUN: a snapshot was taken since the slot was given to its job. */
const Slot = { STATE: 0, FROM: 1, TO: 2, BEGUN: 3, WORDS: 4 } as const
const State = { NONE: 0, FILES: 1, ALL: 2 } as const

/** When something that readers may have was published, and when that it is gone, as counts of `Shared.EVENTS`. `since` undefined: ever since. */
export interface Lifetime {
  since?: number
  until: number
}

/** A job's end, on its own thread. */
export class SnapshotPin {
  private readonly words: Int32Array
  private readonly at: number
  private closed = false

  constructor(pins: Int32Array, slot: number) {
    this.words = pins
    this.at = slot * Slot.WORDS
  }

  /** Notes a snapshot as of this event, beside those before it. @returns takes it back, when it was too late. @throws when the job has ended. */
  take(event: number): () => void {
    const { words, at } = this
    if (this.closed) throw new SvcError('INTERNAL_ERROR', 'cannot take a snapshot: its job has ended')
    Atomics.store(words, at + Slot.BEGUN, 1)
    const before = Atomics.load(words, at + Slot.TO)
    const state = Atomics.load(words, at + Slot.STATE)
    if (state === State.NONE) Atomics.store(words, at + Slot.FROM, event)
    Atomics.store(words, at + Slot.TO, event)
    Atomics.store(words, at + Slot.STATE, State.ALL)
    return () => {
      Atomics.store(words, at + Slot.STATE, state)
      Atomics.store(words, at + Slot.TO, before)
    }
  }

  /** Nothing is read of memtables any more. */
  releaseMemtables(): void {
    if (!this.closed) Atomics.store(this.words, this.at + Slot.STATE, State.FILES)
  }

  /** Nothing is read any more. Safe twice. */
  release(): void {
    if (this.closed) return
    this.closed = true
    Atomics.store(this.words, this.at + Slot.STATE, State.NONE)
  }
}

/** The main thread's end: gives slots to jobs, and looks who has what. */
export class SnapshotPins {
  readonly words: Int32Array
  private readonly free: number[] = []

  /** @param jobs at most, at once. */
  constructor(jobs: number) {
    this.words = new Int32Array(new SharedArrayBuffer(jobs * Slot.WORDS * Int32Array.BYTES_PER_ELEMENT))
    for (let slot = jobs - 1; slot >= 0; slot--) this.free.push(slot)
  }

  /** For a job that goes to a thread now. */
  assign(): number {
    const slot = this.free.pop()
    if (slot === undefined) throw new SvcError('INTERNAL_ERROR', 'cannot start a job: more jobs are under way than there is room for')
    Atomics.store(this.words, slot * Slot.WORDS + Slot.BEGUN, 0)
    return slot
  }

  /** The job's thread has let go of it, or is gone. */
  leave(slot: number): void {
    Atomics.store(this.words, slot * Slot.WORDS + Slot.STATE, State.NONE)
    this.free.push(slot)
  }

  /** Whether the job may have taken a snapshot; what is published after a `false` is in it. */
  begun(slot: number): boolean {
    return Atomics.load(this.words, slot * Slot.WORDS + Slot.BEGUN) !== 0
  }

  /** Whether the job has a snapshot that memory of memtables is read of. */
  readsMemory(slot: number): boolean {
    return Atomics.load(this.words, slot * Slot.WORDS + Slot.STATE) === State.ALL
  }

  /** Event of the job's first snapshot. */
  from(slot: number): number {
    return Atomics.load(this.words, slot * Slot.WORDS + Slot.FROM)
  }

  /** Whether a job may read what was there then. Call after the event that says it is gone. */
  holds(slot: number, kind: 'memory' | 'files', { since, until }: Lifetime): boolean {
    const { words } = this
    const at = slot * Slot.WORDS
    const state = Atomics.load(words, at + Slot.STATE)
    if (state === State.NONE || (kind === 'memory' && state === State.FILES)) return false
    if (((until - Atomics.load(words, at + Slot.FROM)) | 0) <= 0) return false
    return since === undefined || ((Atomics.load(words, at + Slot.TO) - since) | 0) >= 0
  }
}
