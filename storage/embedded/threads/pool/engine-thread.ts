/** The main thread's end of an engine thread: the state that it is given, what it is asked and what it answers, until it is gone. */
import type { StorageContext } from 'svcdb'
import { classify, type ErrorCode, SvcError, tooManyFiles } from 'svcdb/lib/errors'
import { nextTurn } from 'svcdb/lib/event-loop'
import type { Places } from '../../../common/places.ts'
import type { Timer } from '../../../common/timers.ts'
import type { ArchivedObjects } from '../../archive/archived-objects.ts'
import type { EngineWorker, Environment } from '../../environment.ts'
import type { Scrubber } from '../../integrity/scrubber.ts'
import type { EngineMetrics } from '../../metrics.ts'
import type { FromWorker, StateEvent, ThreadRole, ToWorker, WireError, WorkerConfig, WorkerData } from '../messages.ts'
import type { Publisher } from '../publishing/publisher.ts'
import type { Readers } from '../publishing/readers.ts'
import { slicesOf } from '../publishing/state-events.ts'
import { Shared } from '../shared-header.ts'
import { isAtRest, threadLife } from '../thread-life.ts'
import type { ThreadUsage } from '../usage.ts'
import type { ThreadJob } from './thread-job.ts'

export interface ThreadOptions {
  dataDir: string
  shared: Int32Array
  config: Record<ThreadRole, WorkerConfig>
  /** The whole state, for a thread that starts. */
  state(): StateEvent[]
  scrubber: Pick<Scrubber, 'trust' | 'report'>
  readers: Pick<Readers, 'pins'>
  /** For statements in engine processes, of all threads of a role. */
  processes: Record<ThreadRole, Places>
  archived: Pick<ArchivedObjects, 'fetch'>
  metrics: Pick<EngineMetrics, 'prefetchedBytes' | 'prefetchErrors' | 'refusedPlans' | 'unreadPages'>
  publisher: Publisher
  log: StorageContext['log']
  environment: Pick<Environment, 'startThread' | 'timers'>
}

/** An answer to a scrape does not wait longer for a thread that is in the midst of something. */
const USAGE_PATIENCE_MS = 200
/** A thread that is to end and takes no message for so long is in the midst of something: it is ended, if it may be. */
const CLOSE_PATIENCE_MS = 5000
/** Threads that have jobs are looked at so often. */
export const LOOK_MS = 60_000
/**
 * Looks without a word of it, beyond the time limit of its jobs, after which a thread is given up. Turns of it take milliseconds, and seconds on a slow machine. Looks are
 * counted and not time: a process that was stopped for an hour comes to one of them.
 */
const MOST_SILENT_LOOKS = 3

/** How a thread came to its end by itself. */
interface ThreadEnd {
  /** For those who wait for it. */
  error: SvcError
  /** The process had nothing left to start it with, file handles say: it has done nothing, and the next one may find them. */
  passing: boolean
}

type Pending = { resolve: (message: FromWorker) => void; reject: (error: Error) => void }

export class EngineThread {
  /** Nothing more is to be done for its warm-up. */
  warm = false
  readonly jobs = new Map<number, ThreadJob>()
  private readonly tasks = new Map<number, Pending>()
  readonly worker: EngineWorker
  private readonly timers: Environment['timers']
  private readonly life = threadLife()
  /** Of samples that the thread keeps. */
  sampleBytes = 0
  sampleFileBytes = 0
  private lastUsage: ThreadUsage = { heapBytes: 0, bufferBytes: 0, duckdbBytes: 0 }
  private readonly unsubscribe: () => void
  private readonly exited: Promise<void>
  private readonly role: ThreadRole
  private readonly options: ThreadOptions
  /** Messages that wait until the thread has been given the state. */
  private behind: ToWorker[] | undefined
  private gone = false
  /** Why it takes no more tasks: it is gone, given up or to end. */
  private over: SvcError | undefined
  /** Looks since it has said something. */
  private silentLooks = 0
  private givenUp = false
  private closing = false
  /** Statements that have an engine process or wait for one: aborted, they have and want none. */
  private readonly turns = new Map<number, AbortController>()
  private readonly processes: Places

  /** @throws OVERLOADED when the system has no thread to give. */
  constructor(role: ThreadRole, options: ThreadOptions, gone: (thread: EngineThread, end: ThreadEnd) => void) {
    const { publisher, log } = options
    this.options = options
    this.role = role
    this.processes = options.processes[role]
    publisher.flush()
    const [state, ...rest] = slicesOf(options.state())
    const later = rest.reduce((count, events) => count + events.length, 0)
    const workerData: WorkerData = {
      role,
      dataDir: options.dataDir,
      shared: options.shared,
      config: options.config[role],
      state,
      eventsPublished: (Atomics.load(options.shared, Shared.EVENTS) - later) | 0,
      trust: options.scrubber.trust,
      pins: options.readers.pins.words,
      life: this.life,
    }
    this.timers = options.environment.timers
    this.worker = begun(options.environment, workerData)
    if (rest.length > 0) void this.handOver(rest)
    this.unsubscribe = publisher.add((events) => this.post({ kind: 'state', events }))
    this.worker.on('message', (message: FromWorker) => this.receive(message))
    let failure: Error | undefined
    this.worker.on('error', (error) => {
      failure = error
      log.error({ err: error, role }, 'engine thread failed')
    })
    this.exited = new Promise((resolve) => {
      this.worker.once('exit', (code) => {
        this.unsubscribe()
        this.gone = true
        const end = endOf(failure, code)
        const { error } = end
        gone(this, end)
        for (const job of this.jobs.values()) job.fail(error)
        this.failOthers(error)
        resolve()
      })
    })
  }

  /** @throws DataCloneError for what cannot be cloned, also while it has to wait: those behind it would be lost with it. */
  post(message: ToWorker): void {
    if (this.behind !== undefined) this.behind.push(structuredClone(message))
    else this.worker.postMessage(message)
  }

  /** @param message with a number that no other task has. @returns the answer. */
  ask(message: ToWorker & { id: number }): Promise<FromWorker> {
    if (this.over !== undefined) return Promise.reject(this.over)
    return new Promise((resolve, reject) => {
      this.tasks.set(message.id, { resolve, reject })
      this.post(message)
    })
  }

  /** The rest of the state, a slice in a turn of the event loop: what is said to the thread meanwhile comes behind it. */
  private async handOver(slices: readonly StateEvent[][]): Promise<void> {
    const behind: ToWorker[] = []
    this.behind = behind
    for (const events of slices) {
      await nextTurn()
      if (this.gone) return
      this.worker.postMessage({ kind: 'state', events })
    }
    this.behind = undefined
    for (const message of behind) this.worker.postMessage(message)
  }

  /** What its memory was when it last said so; asks it, and does not wait long for one that is busy. */
  async usage(id: number): Promise<ThreadUsage> {
    if (this.over !== undefined) return this.lastUsage
    const asked = this.ask({ kind: 'usage', id })
    let timer: Timer | undefined
    const patience = new Promise<undefined>((resolve) => {
      timer = this.timers.setTimeout(() => resolve(undefined), USAGE_PATIENCE_MS)
    })
    const answer = await Promise.race([asked.catch(() => undefined), patience])
    this.timers.clearTimeout(timer)
    if (answer?.kind === 'usage') this.lastUsage = answer.usage
    return this.lastUsage
  }

  /** One look at it. @returns whether it is lost: it has jobs, and takes no messages. */
  look(): boolean {
    if (this.givenUp || this.jobs.size === 0) {
      this.silentLooks = 0
      return false
    }
    if (this.silentLooks++ === 0) this.post({ kind: 'are-you-there' })
    const limitMs = Math.max(...[...this.jobs.values()].map(({ timeoutMs }) => timeoutMs))
    return this.silentLooks > MOST_SILENT_LOOKS + Math.ceil(limitMs / LOOK_MS)
  }

  /**
   * Who waits for it is told. It is ended where that is safe; otherwise it goes on with what it does, has what it holds, and is closed when it comes back.
   * @returns when it has ended.
   */
  giveUp(): Promise<void> {
    this.givenUp = true
    this.unsubscribe()
    const minutes = Math.round((this.silentLooks * LOOK_MS) / 60_000)
    const error = new SvcError(
      'DATABASE_ERROR',
      `the engine thread has taken no message for ${minutes} minutes, for one of its jobs that does not end, and was replaced; retry, without what never ends, and report it`,
    )
    const ended = isAtRest(this.life)
    this.options.log.error(
      { err: error, role: this.role, jobs: this.jobs.size },
      ended
        ? 'an engine thread does not answer and was replaced'
        : 'an engine thread does not answer and was replaced; it cannot be ended beside a statement of DuckDB, and may keep a processor until a restart',
    )
    for (const job of this.jobs.values()) job.end(error)
    this.failOthers(error)
    if (ended) void this.worker.terminate()
    return this.exited
  }

  private failOthers(error: SvcError): void {
    this.over = error
    for (const task of this.tasks.values()) task.reject(error)
    for (const turn of this.turns.values()) turn.abort(error)
  }

  async close(): Promise<void> {
    this.closing = true
    this.over ??= new SvcError('DATABASE_CLOSED', 'the engine thread is closed; retry, on another or after the restart')
    this.post({ kind: 'close' })
    const end = (): void => {
      if (isAtRest(this.life)) void this.worker.terminate()
    }
    const timer = this.timers.setInterval(end, CLOSE_PATIENCE_MS)
    await this.exited
    this.timers.clearInterval(timer)
  }

  private grant(turn: number, namespace: string): void {
    const abort = new AbortController()
    this.turns.set(turn, abort)
    this.processes.enter(namespace, abort.signal).then(
      () => this.post({ kind: 'process-granted', turn }),
      () => {}, // it wants none any more
    )
  }

  private receive(message: FromWorker): void {
    const { scrubber, archived, metrics, log } = this.options
    this.silentLooks = 0
    if (this.givenUp && !this.closing) void this.close()
    switch (message.kind) {
      case 'ready':
      case 'there':
        return
      case 'corrupt':
        return scrubber.report(message.segment, message.cause)
      case 'prefetched':
        return message.bytes > 0 ? metrics.prefetchedBytes.inc(message.bytes) : metrics.prefetchErrors.inc()
      case 'refused-plan':
        log.error({ namespace: message.namespace, reason: message.reason }, 'a statement was refused: its plan would have read what is not its own')
        return metrics.refusedPlans.inc()
      case 'unread-pages':
        return metrics.unreadPages.inc(message.segments)
      case 'samples-kept':
        this.sampleBytes = message.bytes
        this.sampleFileBytes = message.fileBytes
        return
      case 'fetch': {
        const { id, request } = message
        archived.fetch(id, message.objects).then(
          () => this.post({ kind: 'fetched', id, request }),
          (error: unknown) => this.post({ kind: 'fetched', id, request, error: toWire(error) }),
        )
        return
      }
      case 'process-wanted':
        return this.grant(message.turn, message.namespace)
      case 'process-left':
        this.turns.get(message.turn)?.abort()
        this.turns.delete(message.turn)
        return
      case 'output':
        return this.jobs.get(message.id)?.push(message.bytes)
      case 'done':
        if (message.spans !== undefined) this.jobs.get(message.id)?.trace?.recorded(message.spans)
        this.jobs.get(message.id)?.done(message.result, message.last, message.read, message.kept)
        this.jobs.delete(message.id)
        return
      case 'failed': {
        const error = fromWire(message.error)
        if (message.spans !== undefined) this.jobs.get(message.id)?.trace?.recorded(message.spans)
        this.jobs.get(message.id)?.stopped(error)
        this.jobs.delete(message.id)
        return
      }
      case 'task-failed':
        this.tasks.get(message.id)?.reject(fromWire(message.error))
        this.tasks.delete(message.id)
        return
      case 'flushed':
      case 'compacted':
      case 'archive-days':
      case 'archived':
      case 'newest-rows':
      case 'usage':
      case 'warmed-up':
        this.tasks.get(message.id)?.resolve(message)
        this.tasks.delete(message.id)
    }
  }
}

/** That the system has no thread to give is thrown here; all else that keeps one from its work comes as an event. */
function begun(environment: Pick<Environment, 'startThread'>, data: WorkerData): EngineWorker {
  try {
    return environment.startThread(data)
  } catch (error) {
    throw endOf(error as Error, 1).error
  }
}

function endOf(failure: Error | undefined, code: number): ThreadEnd {
  const { code: kind = '', message = '' } = (failure ?? {}) as NodeJS.ErrnoException
  if (kind === 'ERR_WORKER_OUT_OF_MEMORY') {
    const text = 'the engine thread ran out of memory; read a shorter time range, fewer series or fewer columns'
    return { error: new SvcError('OVERLOADED', text, { cause: failure }), passing: false }
  }
  const initFailed = kind === 'ERR_WORKER_INIT_FAILED'
  // Where it was a file beside a module, or a handle of the thread's loop, Node.js has the system's error in the text only.
  if (/^E[MN]FILE$/.test(kind) || /\bE[MN]FILE\b|: too many open files/.test(message)) return { error: tooManyFiles(failure), passing: true }
  if (initFailed) {
    const text = `cannot start an engine thread: ${message}; retry in a moment, or raise what the process may have of threads and memory`
    return { error: new SvcError('OVERLOADED', text, { cause: failure, headers: { 'retry-after': '5' } }), passing: true }
  }
  const why = failure === undefined ? '' : `: ${message}`
  return { error: new SvcError('DATABASE_ERROR', `the engine thread ended with code ${code}${why}`, { cause: failure }), passing: false }
}

function toWire(error: unknown): WireError {
  const { code, message } = classify(error)
  return { code, message }
}

function fromWire(error: WireError): SvcError {
  return new SvcError(error.code as ErrorCode, error.message, {
    ...(error.detail === undefined ? {} : { detail: error.detail }),
    ...(error.cause === undefined ? {} : { cause: new Error(error.cause) }),
  })
}
