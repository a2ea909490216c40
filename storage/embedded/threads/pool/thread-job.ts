/** The main thread's end of a job on an engine thread: its output as a bounded stream, its result, time limit and cancellation. */
import type { JobOptions, RunningJob } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Timer, Timers } from '../../../common/timers.ts'
import type { Interval } from '../../read/sources.ts'
import type { JobTrace } from './job-trace.ts'
import type { CachedResult, PartialDraft, ResultDraft } from './result-cache.ts'
import type { SharedAnswer } from './shared-answers.ts'

/** A job that is stopped for what its snapshot holds is begun again so often: after that its caller is told. */
const MOST_AGAIN = 3

interface Link {
  /** Its caller has left. */
  cancel(): void
  /** Has the engine thread end it. */
  stop(): void
  /** Begins it anew: the engine thread has let go of it. */
  again(): void
  taken(bytes: number): void
  /** The engine thread has let go of the job. */
  ended(): void
}

export class ThreadJob<R = unknown> implements RunningJob<R> {
  readonly result: Promise<R>
  readonly output: AsyncIterable<Uint8Array>
  readonly namespace: string
  /** Undefined where nothing is recorded. */
  readonly trace: JobTrace | undefined
  /** Its own, which others may get a copy of. */
  answer: SharedAnswer | undefined
  /** Another's, which it waits for a copy of. */
  joined: SharedAnswer | undefined
  /** What is to be kept of its result; undefined when nothing is. */
  draft: ResultDraft | undefined
  /** What it goes on from, as of the last time it was handed to its thread; undefined when nothing is kept. */
  partial: PartialDraft | undefined
  /** Its time limit; 0 = none. */
  readonly timeoutMs: number
  private readonly link: Link
  private queue: Uint8Array[] = []
  private state: 'running' | 'done' | 'failed' = 'running'
  private error: Error | undefined
  private wake: (() => void) | undefined
  private resolve!: (value: R) => void
  private reject!: (error: Error) => void
  private released = false
  private cancelled = false
  /** Some of its output has come. */
  private spoken = false
  /** It was stopped, to begin again once its thread has let go of it. */
  private beginsAgain = false
  /** Output that has come since: nobody's if it begins again, and its own if it had ended before it heard of it. */
  private late: Uint8Array[] = []
  private begunAgain = 0
  private readonly timer: Timer | undefined
  private readonly timers: Timers
  private readonly unlisten: (() => void) | undefined

  constructor(options: JobOptions, link: Link, timers: Timers, trace?: JobTrace) {
    this.namespace = options.namespace ?? ''
    this.link = link
    this.timeoutMs = options.timeoutMs ?? 0
    this.trace = trace
    this.timers = timers
    this.result = new Promise<R>((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    // Whoever reads only the output learns of the failure there.
    this.result.catch(() => {})
    this.output = { [Symbol.asyncIterator]: () => ({ next: () => this.next(), return: () => this.left() }) }
    if (options.timeoutMs !== undefined && options.timeoutMs > 0) {
      const { timeoutMs, timeoutSetting = 'the query timeout' } = options
      this.timer = timers.setTimeout(
        () => this.stop(new SvcError('QUERY_TIMEOUT', `the query did not end within ${timeoutMs / 1000} s; narrow its time range or raise ${timeoutSetting}`)),
        timeoutMs,
      )
    }
    const { signal } = options
    if (signal !== undefined) {
      const abort = (): void => this.cancel()
      if (signal.aborted) queueMicrotask(abort)
      else signal.addEventListener('abort', abort, { once: true })
      this.unlisten = () => signal.removeEventListener('abort', abort)
    }
  }

  // An arrow: callers hand it on as an event listener.
  readonly cancel = (): void => {
    if (this.state === 'running') this.stop(new SvcError('BAD_REQUEST', 'the query was cancelled'))
  }

  /** There is output that its caller has not taken yet. */
  get stalled(): boolean {
    return this.queue.length > 0
  }

  get waiting(): number {
    let bytes = 0
    for (const { length } of this.queue) bytes += length
    return bytes
  }

  /** It is answered, or nobody waits for it any more. */
  get over(): boolean {
    return this.state !== 'running'
  }

  /** Ends it before its time, for all who wait for it. */
  end(error: SvcError): void {
    this.answer?.failed(error)
    if (this.over) this.link.stop()
    else this.stop(error)
  }

  /** Has it begin again, on a later snapshot, where nobody can tell: none of its output has come. @returns false when it cannot. */
  beginAgain(): boolean {
    if (this.spoken || !this.awaited || this.begunAgain === MOST_AGAIN) return false
    this.begunAgain++
    this.beginsAgain = true
    this.link.stop()
    return true
  }

  /** Its caller waits for it, or others who get a copy. */
  private get awaited(): boolean {
    return this.state === 'running' || this.answer?.wanted === true
  }

  /** From the engine thread. */
  push(bytes: Uint8Array): void {
    if (this.beginsAgain) return void this.late.push(bytes)
    this.spoken = true
    this.answer?.push(bytes)
    this.draft?.push(bytes)
    if (this.state !== 'running') return
    this.queue.push(bytes)
    this.wake?.()
  }

  /** @param last the end of its output. @param read times of the rows that it has read; undefined = not known. @param kept what other jobs may go on from. */
  done(result: unknown, last?: Uint8Array, read?: Interval, kept?: Uint8Array): void {
    this.beginsAgain = false
    for (const bytes of this.late.splice(0)) this.push(bytes)
    this.answer?.done(result, last)
    if (read !== undefined) {
      this.draft?.done(result, last, this.partial?.readBy(read) ?? read)
      if (kept !== undefined) this.partial?.keep(kept, read)
    }
    this.release()
    if (this.state !== 'running') return
    if (last !== undefined) this.queue.push(last)
    this.state = 'done'
    this.resolve(result as R)
    this.wake?.()
  }

  /** As an equal one was answered. */
  doneAs({ output, result }: CachedResult): void {
    this.done(result, output.length === 0 ? undefined : output.slice())
  }

  /** The engine thread has stopped it, or it has failed there. */
  stopped(error: Error): void {
    const again = this.beginsAgain && this.awaited
    this.beginsAgain = false
    this.late = []
    if (again) this.link.again()
    else this.fail(error)
  }

  fail(error: Error): void {
    this.answer?.failed(error)
    if (this.state === 'running') this.error = error
    this.release()
    this.settle(error)
  }

  private stop(error: SvcError): void {
    if (this.state !== 'running' || this.cancelled) return
    this.cancelled = true
    this.settle(error)
    this.link.cancel()
  }

  private settle(error: Error): void {
    this.timers.clearTimeout(this.timer)
    if (this.state !== 'running') return
    this.state = 'failed'
    this.error = error
    this.queue = []
    this.reject(error)
    this.wake?.()
  }

  private release(): void {
    this.timers.clearTimeout(this.timer)
    this.unlisten?.()
    if (this.released) return
    this.released = true
    this.trace?.ended(this.error)
    this.link.ended()
  }

  /** By hand: a small answer waits for each turn that a generator takes. */
  private async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    while (this.queue.length === 0 && this.state === 'running') {
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
      this.wake = undefined
    }
    const value = this.queue.shift()
    if (value !== undefined) {
      // A job that has ended waits for no room.
      if (this.state === 'running') this.link.taken(value.length)
      return { done: false, value }
    }
    if (this.state === 'failed') throw this.error
    return END
  }

  /** Left early. */
  private left(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.cancel()
    // Its own, or copies: the memory goes back at once, and not with the next garbage collection.
    for (const { buffer } of this.queue.splice(0)) (buffer as ArrayBuffer).transfer(0)
    return Promise.resolve(END)
  }
}

const END: IteratorResult<Uint8Array, undefined> = { done: true, value: undefined }
