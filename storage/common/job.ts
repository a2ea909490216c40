/**
 * Runs a job module in this process, with what a job on another thread would meet: arguments and result are cloned, output is
 * bounded, and the caller gets its answer when the time is up whether the job has noticed or not. A job that computes without
 * awaiting holds the process up; that is the price of having no threads.
 */
import type { Job, JobOptions, Reader, RunningJob } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { ownedBy } from 'svcdb/lib/event-loop'

/** Bytes waiting for the consumer before `emit` holds the job. */
const MAX_QUEUED = 1 << 20

interface LocalJob<R> extends RunningJob<R> {
  readonly namespace: string
  end(error: SvcError): void
}

/** Jobs that have not ended. */
export class LocalJobs {
  private readonly jobs = new Set<LocalJob<unknown>>()

  start<R>(reader: Reader, module: URL, args: unknown, options?: JobOptions): RunningJob<R> {
    const job = startJob<R>(reader, module, args, options)
    this.jobs.add(job)
    job.result.catch(() => {}).finally(() => this.jobs.delete(job))
    return job
  }

  get results(): Promise<unknown>[] {
    return [...this.jobs].map(({ result }) => result)
  }

  cancelAll(): void {
    for (const job of this.jobs) job.cancel()
  }

  endOf(namespace: string): void {
    for (const job of this.jobs) if (job.namespace === namespace) job.end(namespaceGone(namespace))
  }
}

/** What jobs of a namespace that is gone are ended with. */
export function namespaceGone(namespace: string): SvcError {
  return new SvcError('NOT_FOUND', `cannot go on with the query: namespace "${namespace}" was deleted since it was asked`)
}

function startJob<R>(reader: Reader, module: URL, args: unknown, options: JobOptions = {}): LocalJob<R> {
  const deadline = new Deadline(options)
  const output = new OutputQueue(deadline.signal)
  const body = async (): Promise<R> => {
    const copied = structuredClone(args)
    const { default: job } = (await import(module.href)) as { default: Job<unknown, R> }
    deadline.signal.throwIfAborted()
    return structuredClone(await job(reader, copied, { signal: deadline.signal, emit: (bytes) => output.push(bytes) }))
  }
  const result = deadline.race(ownedBy(options.namespace ?? '', body)).finally(() => deadline.clear())
  result.then(
    () => output.end(),
    (error) => output.fail(error),
  )
  return {
    output,
    result,
    get waiting() {
      return output.waiting
    },
    cancel: () => deadline.cancel(),
    namespace: options.namespace ?? '',
    end: (error) => deadline.cancel(error),
  }
}

/** The caller's signal, the time limit and `cancel` as one signal. */
export class Deadline {
  private readonly controller = new AbortController()
  private readonly timer: NodeJS.Timeout | undefined
  private readonly unlink: () => void

  constructor({ signal, timeoutMs = 0, timeoutSetting }: JobOptions) {
    if (timeoutMs > 0) {
      const hint = timeoutSetting === undefined ? 'narrow the query' : `raise ${timeoutSetting} or narrow the query`
      this.timer = setTimeout(
        () => this.controller.abort(new SvcError('QUERY_TIMEOUT', `cannot finish the query: it took longer than ${timeoutMs / 1000} s; ${hint}`)),
        timeoutMs,
      )
    }
    const forward = () => this.controller.abort(signal?.reason)
    if (signal?.aborted) forward()
    signal?.addEventListener('abort', forward, { once: true })
    this.unlink = () => signal?.removeEventListener('abort', forward)
  }

  get signal(): AbortSignal {
    return this.controller.signal
  }

  cancel(reason?: unknown): void {
    this.controller.abort(reason)
  }

  clear(): void {
    clearTimeout(this.timer)
    this.unlink()
  }

  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const abort = () => reject(this.signal.reason)
      if (this.signal.aborted) abort()
      this.signal.addEventListener('abort', abort, { once: true })
      work.then(resolve, reject)
    })
  }
}

class OutputQueue implements AsyncIterable<Uint8Array> {
  private readonly chunks: Uint8Array[] = []
  /** Bytes. */
  waiting = 0
  private ended = false
  private error: unknown
  private changed = Promise.withResolvers<void>()
  private readonly signal: AbortSignal

  constructor(signal: AbortSignal) {
    this.signal = signal
    signal.addEventListener('abort', () => this.wake(), { once: true })
  }

  async push(bytes: Uint8Array): Promise<void> {
    this.signal.throwIfAborted()
    this.chunks.push(bytes)
    this.waiting += bytes.length
    this.wake()
    while (this.waiting > MAX_QUEUED) {
      await this.changed.promise
      this.signal.throwIfAborted()
    }
  }

  end(): void {
    this.ended = true
    this.wake()
  }

  fail(error: unknown): void {
    this.error = error
    this.end()
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    while (true) {
      const chunk = this.error === undefined ? this.chunks.shift() : undefined
      if (chunk !== undefined) {
        this.waiting -= chunk.length
        this.wake()
        yield chunk
      } else if (this.ended) {
        if (this.error !== undefined) throw this.error
        return
      } else await this.changed.promise
    }
  }

  private wake(): void {
    const { resolve } = this.changed
    this.changed = Promise.withResolvers<void>()
    resolve()
  }
}
