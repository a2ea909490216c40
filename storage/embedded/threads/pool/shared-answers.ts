/**
 * Equal jobs that are asked for while one of them waits for its thread, answered by that one: a dashboard that many have open asks the same questions at the same time.
 *
 * Invariants
 * - Whoever joins a job sees what had been acknowledged when he asked: the job has taken no snapshot by then (snapshot-pins.ts).
 * - Nobody waits for another's caller. Who has asked first gets his answer as ever; the others get a copy once it is complete. Of an answer that grows beyond a limit no copy
 *   is kept, and each of the others has a job of its own then.
 * - A job that somebody waits for goes on when others of his leave, the first one among them.
 */
import { classify } from 'svcdb/lib/errors'
import { OUTPUT_WINDOW_BYTES } from '../output-window.ts'
import type { ThreadJob } from './thread-job.ts'

/** Kept of an answer for those who wait for a copy: less than makes a job wait for its caller. */
const MAX_BYTES = OUTPUT_WINDOW_BYTES / 4
/** Those who wait for one answer: their copies are made in one turn of the main thread. */
const MAX_WAITING = 64

interface Waiting {
  job: ThreadJob
  /** Has it answered by a job of its own. */
  begin(): void
}

export interface SharedJob {
  /** Starts it, or has it wait for a thread. */
  begin(): void
  /** Whether it may have taken a snapshot. */
  begun(): boolean
  /** Ends it, for nobody waits for it any more. */
  cancel(): void
}

export class SharedAnswer {
  private readonly first: ThreadJob
  private readonly shared: SharedJob
  private readonly ended: () => void
  private waiting: Waiting[] = []
  private kept: Uint8Array[] = []
  private bytes = 0
  private over = false

  /** @param ended nobody can join any more. */
  constructor(first: ThreadJob, shared: SharedJob, ended: () => void) {
    this.first = first
    this.shared = shared
    this.ended = ended
  }

  /** @returns false when it is too late, or too many wait for it. */
  join(one: Waiting): boolean {
    if (this.over || this.waiting.length === MAX_WAITING || this.shared.begun()) return false
    this.waiting.push(one)
    one.job.joined = this
    return true
  }

  /** Somebody waits for a copy. */
  get wanted(): boolean {
    return !this.over && this.waiting.some(({ job }) => !job.over)
  }

  /** The first one has left. @returns whether the job goes on for others; else nobody can join it. */
  left(): boolean {
    if (this.wanted) return true
    this.end()
    return false
  }

  /** One of those who wait has left: the job ends with the last of them. */
  abandon(): void {
    if (this.over || !this.first.over || this.wanted) return
    this.end()
    this.shared.cancel()
  }

  /** Output of the job. */
  push(bytes: Uint8Array): void {
    if (!this.wanted) return
    this.bytes += bytes.length
    // What the first one gets belongs to his caller, who may free it.
    if (this.bytes <= MAX_BYTES) return void this.kept.push(bytes.slice())
    const waiting = this.end()
    for (const { job, begin } of waiting) {
      if (job.over) continue
      try {
        begin()
      } catch (error) {
        job.fail(classify(error))
      }
    }
    if (this.first.over) this.shared.cancel()
  }

  done(result: unknown, last: Uint8Array | undefined): void {
    const { kept } = this
    for (const { job } of this.end()) {
      // The first one's result is kept, where it is to be.
      job.draft = undefined
      for (const bytes of kept) job.push(bytes.slice())
      job.done(result, last?.slice())
    }
  }

  failed(error: Error): void {
    for (const { job } of this.end()) job.fail(error)
  }

  private end(): Waiting[] {
    const { waiting } = this
    this.waiting = []
    this.kept = []
    for (const { job } of waiting) job.joined = undefined
    if (!this.over) this.ended()
    this.over = true
    return waiting
  }
}

export class SharedAnswers {
  private readonly byKey = new Map<string, SharedAnswer>()
  private readonly joined: () => void

  /** @param joined a job is to be answered by another one. */
  constructor(joined: () => void) {
    this.joined = joined
  }

  /** Answers the job by an equal one that has not begun; where none takes it in it is begun, and others may join it. @throws what beginning it throws. */
  ask(key: string, job: ThreadJob, shared: SharedJob): void {
    if (this.byKey.get(key)?.join({ job, begin: () => shared.begin() }) === true) return this.joined()
    const answer = new SharedAnswer(job, shared, () => {
      if (this.byKey.get(key) === answer) this.byKey.delete(key)
    })
    this.byKey.set(key, answer)
    job.answer = answer
    try {
      shared.begin()
    } catch (error) {
      answer.failed(classify(error))
      throw error
    }
  }
}
