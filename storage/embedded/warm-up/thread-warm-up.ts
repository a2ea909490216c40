/**
 * The warm-up in an engine thread: runs the jobs that the main thread sends a slice at a time, over made-up rows, and lets go of all of it at the end. It steps aside
 * for jobs that somebody waits for.
 */
import { threadId } from 'node:worker_threads'
import type { RelationContext } from '../read/relation.ts'
import type { FromWorker, WarmUpJob, WorkerConfig } from '../threads/messages.ts'
import { SnapshotPin, SnapshotPins } from '../threads/snapshot-pins.ts'
import { JobRunner } from '../threads/worker/job-runner.ts'
import { lookThrough } from './known-data.ts'
import type { MadeUpRows } from './made-up-rows.ts'

export interface WarmUpSlice {
  jobs: readonly WarmUpJob[]
  /** Processor milliseconds after which no further job begins. */
  ms: number
  /** What the slices before have left is collected first. */
  trim: boolean
}

/** What a slice has come to. */
export interface WarmedUp {
  /** Jobs that have run. */
  jobs: number
  /** Processor milliseconds of the thread. */
  ms: number
  /** Why jobs failed, the first of them. */
  cause?: string
  /** It takes no more slices. */
  over?: true
}

const SLOT = 0
/** Processor milliseconds that are spent on what there is, at the end. */
const LOOK_MS = 100
/** A job of so little is run again at once: from what it has kept. */
const TWICE_BELOW_MS = 20

export class ThreadWarmUp {
  private readonly thread: RelationContext
  private readonly config: WorkerConfig
  private readonly busy: () => boolean
  private readonly trim: () => void
  private readonly ended = new AbortController()
  private rows: Promise<MadeUpRows> | undefined
  private nextJob = 0
  /** The slice that runs. */
  private running: Promise<unknown> = Promise.resolve()
  /** Of its own, for one job at a time: nobody gives made-up rows back while they are read. */
  private readonly pins = new SnapshotPins(1)

  /** @param busy whether somebody waits for the thread. @param trim collects its heap. */
  constructor(thread: RelationContext, config: WorkerConfig, busy: () => boolean, trim: () => void) {
    this.thread = thread
    this.config = config
    this.busy = busy
    this.trim = trim
  }

  run(slice: WarmUpSlice): Promise<WarmedUp> {
    const running = this.slice(slice)
    this.running = running
    return running
  }

  /** Ends the slice that runs, and lets go of the rows. @param closing nobody will ask any more. */
  async end(closing = false): Promise<void> {
    this.ended.abort(new Error('the warm-up has ended'))
    await this.running
    if (!closing) await this.look()
    const rows = await this.rows?.catch(() => undefined)
    this.rows = undefined
    rows?.remove()
  }

  /** Looks through what there is, until somebody waits for the thread. */
  private async look(): Promise<void> {
    const began = processorMs()
    for (const _ of lookThrough(this.thread.state)) {
      // Messages come in.
      await new Promise((resolve) => setImmediate(resolve))
      if (this.busy() || processorMs() - began >= LOOK_MS) return
    }
  }

  private async slice({ jobs, ms, trim }: WarmUpSlice): Promise<WarmedUp> {
    const began = processorMs()
    if (trim) this.trim()
    const out: WarmedUp = { jobs: 0, ms: 0 }
    const spent = (): number => processorMs() - began
    if (this.ended.signal.aborted) return { ...out, over: true }
    try {
      const rows = await (this.rows ??= this.make())
      const context = rows.context()
      for (const job of jobs) {
        // Messages come in between two jobs.
        await new Promise((resolve) => setImmediate(resolve))
        if (this.ended.signal.aborted || this.busy() || spent() >= ms) break
        out.jobs++
        out.cause ??= await this.once(context, job)
      }
    } catch (error) {
      // Without rows there is nothing to run.
      out.jobs = jobs.length
      out.cause = (error as Error).message
    }
    out.ms = spent()
    return out
  }

  /** What makes rows is loaded for that: a thread has no other use for it. */
  private async make(): Promise<MadeUpRows> {
    const { MadeUpRows } = await import('./made-up-rows.ts')
    return MadeUpRows.make(this.thread, this.config, `warm-up-${threadId}`)
  }

  private async once(context: RelationContext, job: WarmUpJob): Promise<string | undefined> {
    const began = processorMs()
    const failure = await this.job(context, job)
    if (failure !== undefined || processorMs() - began >= TWICE_BELOW_MS || this.busy()) return failure
    return this.job(context, job)
  }

  /** Runs it as every job is run; what it says ends here. @returns why it failed. */
  private async job(context: RelationContext, { module, args }: WarmUpJob): Promise<string | undefined> {
    let failure: string | undefined
    const hear = (message: FromWorker): void => {
      if (message.kind === 'output') runner.taken(message.id, message.bytes.length)
      else if (message.kind === 'failed') failure = message.error.message
    }
    const runner = new JobRunner(context, hear, this.config.emitWindowBytes)
    const id = this.nextJob++
    const cancel = (): void => runner.cancel(id)
    this.ended.signal.addEventListener('abort', cancel)
    await runner.start({ id, namespace: '', module, args }, new SnapshotPin(this.pins.words, SLOT))
    this.ended.signal.removeEventListener('abort', cancel)
    return failure
  }
}

function processorMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
