/**
 * Who may read what is not part of the database any more: memory of memtables that were flushed, and files of segments that were merged. Each stays until
 * no job's snapshot has it; a job that waits for its turn has none yet. Files stay for leases of backups, too.
 *
 * What jobs hold of memory is bounded: `cut` ends those with the oldest snapshots.
 */
import { type Lifetime, SnapshotPins } from '../snapshot-pins.ts'

/** Jobs at once where nobody says how many. */
const USUAL_JOBS = 64

/** What may be done about a job that holds much. */
interface ReadingJob {
  /** Ends it before its time. */
  end(): void
  /** It waits for its caller to take what it has answered. */
  stalled(): boolean
}

interface Reader {
  slot: number
  job: ReadingJob | undefined
}

interface Retired extends Lifetime {
  kind: 'memory' | 'files'
  bytes: number
  done(): void
}

export class Readers {
  readonly pins: SnapshotPins
  private nextId = 1
  /** Jobs, on a thread or waiting, and leases. */
  private readonly running = new Set<number>()
  /** Of the jobs on threads. */
  private readonly reading = new Map<number, Reader>()
  /** As of which event. */
  private readonly leases = new Map<number, number>()
  private readonly waiting: { after: number; done: () => void }[] = []
  private retired: Retired[] = []

  constructor(pins: SnapshotPins = new SnapshotPins(USUAL_JOBS)) {
    this.pins = pins
  }

  /** A job is there. @returns its number. */
  begin(): number {
    const id = this.nextId++
    this.running.add(id)
    return id
  }

  /** The job goes to a thread. @param job absent = it is not to be ended. @returns its slot among the pins. */
  start(id: number, job?: ReadingJob): number {
    const slot = this.pins.assign()
    this.reading.set(id, { slot, job })
    return slot
  }

  /** The job has ended, and its thread has let go of it or is gone. */
  end(id: number): void {
    const reader = this.reading.get(id)
    if (reader !== undefined) {
      this.reading.delete(id)
      this.pins.leave(reader.slot)
    }
    this.gone(id)
  }

  /** Files that are retired from this event on (`Shared.EVENTS`) stay until the returned function is called. */
  lease(event: number): () => void {
    const id = this.begin()
    this.leases.set(id, event)
    return () => {
      this.leases.delete(id)
      this.gone(id)
    }
  }

  get count(): number {
    return this.running.size
  }

  /** Calls `done` when every reader that is there now has ended, those that wait for their turn among them. */
  afterAll(done: () => void): void {
    if (this.running.size === 0) return done()
    this.waiting.push({ after: this.nextId, done })
  }

  /** Calls `done` when no snapshot has it. Call after the event that says it is gone. @param bytes of memory that it takes until then. */
  afterUnread(kind: Retired['kind'], { since, until }: Lifetime, bytes: number, done: () => void): void {
    const one: Retired = { kind, ...(since === undefined ? {} : { since }), until, bytes, done }
    if (this.isRead(one)) this.retired.push(one)
    else done()
  }

  /** Bytes of memory that jobs hold which are at work: those that wait for their callers do not count. */
  get workingBytes(): number {
    let bytes = 0
    for (const one of this.retired) {
      if (one.kind !== 'memory') continue
      for (const { slot, job } of this.reading.values()) {
        if (job?.stalled() === true || !this.pins.holds(slot, 'memory', one)) continue
        bytes += one.bytes
        break
      }
    }
    return bytes
  }

  /**
   * Ends jobs so that what is left holds no more than `limit` bytes of memory: those that wait for their callers first, then those with the oldest
   * snapshots. Each is told once; what it holds is given back when it has ended.
   * @returns how many.
   */
  cut(limit: number): number {
    const left = [...this.reading.values()].filter(({ slot, job }) => job !== undefined && this.pins.readsMemory(slot))
    const stalled = new Set(left.filter(({ job }) => job?.stalled()))
    left.sort((a, b) => Number(stalled.has(b)) - Number(stalled.has(a)) || (this.pins.from(a.slot) - this.pins.from(b.slot)) | 0)
    const memory = this.retired.filter(({ kind }) => kind === 'memory')
    let cut = 0
    for (;;) {
      const held = memory.filter((one) => left.some(({ slot }) => this.pins.holds(slot, 'memory', one)))
      if (held.reduce((sum, { bytes }) => sum + bytes, 0) <= limit) return cut
      const at = left.findIndex(({ slot }) => held.some((one) => this.pins.holds(slot, 'memory', one)))
      const [reader] = left.splice(at, 1)
      const { job } = reader
      reader.job = undefined
      job?.end()
      cut++
    }
  }

  private gone(id: number): void {
    this.running.delete(id)
    if (this.waiting.length > 0) {
      const oldest = Math.min(...this.running, Number.MAX_SAFE_INTEGER)
      for (let i = this.waiting.length - 1; i >= 0; i--) {
        if (this.waiting[i].after > oldest) continue
        const [{ done }] = this.waiting.splice(i, 1)
        done()
      }
    }
    if (this.retired.length === 0) return
    const unread: Retired[] = []
    this.retired = this.retired.filter((one) => this.isRead(one) || !unread.push(one))
    for (const { done } of unread) done()
  }

  private isRead(one: Retired): boolean {
    if (one.kind === 'files') for (const event of this.leases.values()) if (((one.until - event) | 0) > 0) return true
    for (const { slot } of this.reading.values()) if (this.pins.holds(slot, one.kind, one)) return true
    return false
  }
}
