/** Runs job modules side by side in one engine thread, with cancellation and a bounded amount of output under way. */
import type { Job } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import { ownedBy, turnToBegin } from 'svcdb/lib/event-loop'
import { inSpan, SpanRecorder, traced } from 'svcdb/lib/trace'
import { ArchiveRequests, JobSegments } from '../../read/archived-segments.ts'
import { EngineReader } from '../../read/reader.ts'
import type { RelationContext } from '../../read/relation.ts'
import type { FromWorker, ToWorker, WireError } from '../messages.ts'
import { OUTPUT_WINDOW_BYTES } from '../output-window.ts'
import type { SnapshotPin } from '../snapshot-pins.ts'

interface Running {
  abort: AbortController
  inFlight: number
  wake: (() => void) | undefined
  /** Output that is not handed over yet: where the job ends in this turn of the loop, it goes with the result. */
  held: Uint8Array | undefined
  later: NodeJS.Immediate | undefined
}

type JobMessage = Pick<Extract<ToWorker, { kind: 'job' }>, 'id' | 'namespace' | 'module' | 'args' | 'traced' | 'read' | 'partial'>

type Post = (message: FromWorker, transfer?: ArrayBuffer[]) => void

export class JobRunner {
  private readonly running = new Map<number, Running>()
  private readonly context: RelationContext
  private readonly post: Post
  private readonly window: number
  private readonly archived: ArchiveRequests
  /** Resolving a module anew for each job takes longer than some jobs do. */
  private readonly modules = new Map<string, Job>()

  constructor(context: RelationContext, post: Post, window: number = OUTPUT_WINDOW_BYTES) {
    this.context = context
    this.post = post
    this.window = window
    this.archived = new ArchiveRequests(post)
  }

  start(message: JobMessage, pin: SnapshotPin): Promise<void> {
    if (message.traced !== true) return ownedBy(message.namespace, () => this.run(message, pin, undefined))
    const recorder = new SpanRecorder('run')
    return inSpan(recorder.span, () => ownedBy(message.namespace, () => this.run(message, pin, recorder)))
  }

  private async run({ id, module, args, read, partial }: JobMessage, pin: SnapshotPin, recorder: SpanRecorder | undefined): Promise<void> {
    const job: Running = { abort: new AbortController(), inFlight: 0, wake: undefined, held: undefined, later: undefined }
    const { signal } = job.abort
    this.running.set(id, job)
    let reader: EngineReader | undefined
    try {
      // Before anything waits: what was acknowledged when the job was asked for is in the snapshot.
      reader = await traced('open a snapshot', () =>
        EngineReader.open(
          { ...this.context, pin, verifier: new JobSegments(this.context.verifier, (objects) => this.archived.fetch(id, objects, signal)) },
          signal,
        ),
      )
      const run = this.modules.get(module) ?? (await this.load(module))
      // Many that come together, each ending in one go, would hold the thread for as long as a large one.
      await turnToBegin()
      signal.throwIfAborted()
      let kept: Uint8Array | undefined
      const keep = (bytes: Uint8Array): void => {
        kept = shared(bytes)
      }
      const emit = (bytes: Uint8Array): Promise<void> => this.emit(id, job, bytes)
      const result = await run(reader, args, partial === undefined ? { signal, emit } : { signal, emit, partial: { ...partial, keep } })
      signal.throwIfAborted()
      this.close(id, reader, pin)
      recorder?.span.end()
      this.end(id, job, result, { ...spansOf(recorder), ...(read === true && { read: reader.read }), ...(kept !== undefined && { kept }) })
    } catch (error) {
      this.close(id, reader, pin)
      clearImmediate(job.later)
      recorder?.span.fail(error)
      recorder?.span.end()
      this.post({ kind: 'failed', id, error: wireError(signal.aborted ? signal.reason : error), ...spansOf(recorder) })
    }
  }

  /** Before the main thread is told: what the job has read may be another's as soon as it knows. */
  private close(id: number, reader: EngineReader | undefined, pin: SnapshotPin): void {
    this.running.delete(id)
    try {
      reader?.close()
    } finally {
      pin.release()
    }
  }

  cancel(id: number, reason: SvcError = new SvcError('QUERY_TIMEOUT', 'the query was cancelled before it was done')): void {
    const job = this.running.get(id)
    if (job === undefined) return
    job.abort.abort(reason)
    job.wake?.()
  }

  taken(id: number, bytes: number): void {
    const job = this.running.get(id)
    if (job === undefined) return
    job.inFlight -= bytes
    if (job.inFlight < this.window) job.wake?.()
  }

  /** The main thread's answer to a request for archived segments. */
  fetched(request: number, error: WireError | undefined): void {
    this.archived.answered(request, error)
  }

  /** The thread ends. */
  cancelAll(reason: SvcError): void {
    for (const id of this.running.keys()) this.cancel(id, reason)
  }

  get active(): number {
    return this.running.size
  }

  /** Numbers of the jobs under way; undefined where there are none. */
  get oldest(): number | undefined {
    return this.running.size === 0 ? undefined : Math.min(...this.running.keys())
  }

  get newest(): number | undefined {
    return this.running.size === 0 ? undefined : Math.max(...this.running.keys())
  }

  private async load(module: string): Promise<Job> {
    const { default: run } = (await import(module)) as { default: Job }
    this.modules.set(module, run)
    return run
  }

  private handOver(id: number, job: Running): void {
    const { held } = job
    if (held === undefined) return
    clearImmediate(job.later)
    job.held = undefined
    this.post({ kind: 'output', id, bytes: held }, [held.buffer as ArrayBuffer])
  }

  /** A message wakes the main thread, which often takes this one's processor: one is better than two. */
  private end(id: number, { held, later }: Running, result: unknown, more: Pick<Extract<FromWorker, { kind: 'done' }>, 'spans' | 'read' | 'kept'>): void {
    clearImmediate(later)
    if (held === undefined) this.post({ kind: 'done', id, result, ...more })
    else this.post({ kind: 'done', id, result, last: held, ...more }, [held.buffer as ArrayBuffer])
  }

  private async emit(id: number, job: Running, bytes: Uint8Array): Promise<void> {
    job.abort.signal.throwIfAborted()
    // Part of a larger buffer (a pooled one, say) is copied: transferring takes the whole buffer away from its owner.
    const whole = bytes.buffer instanceof ArrayBuffer && bytes.byteLength === bytes.buffer.byteLength
    const own = whole ? new Uint8Array(bytes.buffer) : new Uint8Array(bytes)
    job.inFlight += own.byteLength
    this.handOver(id, job)
    job.held = own
    if (job.inFlight >= this.window) this.handOver(id, job)
    else job.later = setImmediate(() => this.handOver(id, job))
    while (job.inFlight >= this.window && !job.abort.signal.aborted) {
      await new Promise<void>((resolve) => {
        job.wake = resolve
      })
      job.wake = undefined
    }
    job.abort.signal.throwIfAborted()
  }
}

const spansOf = (recorder: SpanRecorder | undefined): { spans?: SpanRecorder['records'] } => (recorder === undefined ? {} : { spans: recorder.records })

/** In memory that all threads read: the main thread hands it on and copies nothing. */
function shared(bytes: Uint8Array): Uint8Array {
  const copy = new Uint8Array(new SharedArrayBuffer(bytes.length))
  copy.set(bytes)
  return copy
}

export function wireError(error: unknown): WireError {
  const known = classify(error)
  const cause = known.cause instanceof Error ? known.cause.message : undefined
  return {
    code: known.code,
    message: known.message,
    ...(known.detail === undefined ? {} : { detail: known.detail }),
    ...(cause === undefined || cause === known.message ? {} : { cause }),
  }
}
