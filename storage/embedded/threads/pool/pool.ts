/**
 * Engine threads, started when first needed: one for maintenance (flush, compaction), some for queries, one for jobs that nobody waits for, so that these and
 * queries share processors and not turns of one thread. A thread that dies fails what it was doing and is replaced with the next request, the maintenance
 * thread only so often (pressure.ts), unless the process had nothing left to start it with. One for queries or the background that takes no messages any more is
 * given up, and replaced likewise.
 */
import type { JobOptions, PartialResult, RunningJob } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import { namespaceGone } from '../../../common/job.ts'
import { NamespaceCounts } from '../../../common/namespace-counts.ts'
import type { Timer } from '../../../common/timers.ts'
import type { ArchivedObjects } from '../../archive/archived-objects.ts'
import type { EngineMetrics } from '../../metrics.ts'
import type { ColdThread } from '../../warm-up/schedule.ts'
import type { WarmedUp, WarmUpSlice } from '../../warm-up/thread-warm-up.ts'
import type { ArchiveTask, FromWorker, NewestRowsTask, ThreadRole, ToWorker } from '../messages.ts'
import type { Readers } from '../publishing/readers.ts'
import type { SegmentMeta } from '../segment-entry.ts'
import type { ThreadUsage } from '../usage.ts'
import { EngineThread, LOOK_MS, type ThreadOptions } from './engine-thread.ts'
import { JobTrace } from './job-trace.ts'
import type { PartialDraft, ResultCache } from './result-cache.ts'
import { SharedAnswers } from './shared-answers.ts'
import { ThreadJob } from './thread-job.ts'

interface PoolOptions extends ThreadOptions {
  queryThreads: number
  /** Jobs that run at once; others wait. */
  maxJobs: number
  /** The maintenance thread has ended by itself. @returns whether the next request may start it again. */
  maintenanceDied(cause: string): boolean
  readers: Readers
  results: ResultCache
  archived: ThreadOptions['archived'] & Pick<ArchivedObjects, 'jobEnded'>
  metrics: ThreadOptions['metrics'] &
    Pick<EngineMetrics, 'sharedAnswers' | 'resultCacheHits' | 'partialResults' | 'resultCacheMisses' | 'jobsCut' | 'jobsBegunAgain'>
}

const TRACED = { traced: true }
const READ = { read: true }

interface QueuedJob {
  namespace: string
  start(): void
  fail(error: SvcError): void
}

export class WorkerPool {
  private readonly options: PoolOptions
  private queries: EngineThread[] = []
  private readonly leaving = new Set<EngineThread>()
  private maintenance: EngineThread | undefined
  private background: EngineThread | undefined
  /** Set when the maintenance thread is not started any more. */
  private givenUp: SvcError | undefined
  /** Called when a query thread has been started for a query. */
  threadStarted: () => void = () => {}
  private nextTask = 1
  private looks: Timer | undefined
  private closed = false
  /** Jobs on threads, and those that wait to be, in the order they came. */
  private readonly active = new NamespaceCounts()
  private readonly queued = new Map<number, QueuedJob>()
  private readonly answers: SharedAnswers

  constructor(options: PoolOptions) {
    this.options = options
    this.answers = new SharedAnswers(() => options.metrics.sharedAnswers.inc())
  }

  run<R>(module: URL, args: unknown, options: JobOptions = {}): RunningJob<R> {
    if (this.closed) throw shutDown()
    const { readers, archived, results, metrics } = this.options
    const { namespace = '', background = false, shared = false, cacheable = false, partialKey } = options
    let id = readers.begin()
    let thread: EngineThread | undefined
    let slot: number | undefined
    const job = new ThreadJob<R>(
      options,
      {
        cancel: () => {
          if (job.answer?.left() !== true) cancel()
        },
        stop: () => thread?.post({ kind: 'cancel', id }),
        again: () => {
          archived.jobEnded(id)
          readers.end(id)
          this.active.add(namespace, -1)
          id = readers.begin()
          try {
            if (this.closed) throw shutDown()
            start()
          } catch (error) {
            thread = undefined
            job.fail(classify(error))
          }
        },
        taken: (bytes) => thread?.post({ kind: 'taken', id, bytes }),
        ended: () => {
          if (thread !== undefined) this.active.add(namespace, -1)
          // The thread may never have had it: arguments that cannot be cloned.
          thread?.jobs.delete(id)
          archived.jobEnded(id)
          readers.end(id)
          this.startNext()
        },
      },
      this.options.environment.timers,
      JobTrace.begin(module),
    )
    const cancel = (): void => {
      if (thread !== undefined) return thread.post({ kind: 'cancel', id })
      this.queued.delete(id)
      const answer = job.joined
      job.fail(new SvcError('BAD_REQUEST', 'the query was cancelled'))
      answer?.abandon()
    }
    const start = (): void => {
      thread = background ? this.backgroundThread() : this.queryThread()
      this.active.add(namespace, 1)
      thread.jobs.set(id, job as ThreadJob)
      this.looks ??= this.options.environment.timers.setInterval(() => this.look(), LOOK_MS).unref()
      slot = readers.start(id, { end: () => this.makeRoom(job as ThreadJob), stalled: () => job.stalled })
      if (cacheable && partialKey !== undefined) job.partial = results.partial(namespace, `${module.href} partial ${partialKey}`)
      if (job.partial?.bytes !== undefined) metrics.partialResults.inc()
      this.options.publisher.flush()
      job.trace?.started()
      thread.post({
        kind: 'job',
        id,
        namespace,
        module: module.href,
        args,
        slot,
        ...(job.trace === undefined ? {} : TRACED),
        ...(job.draft === undefined && job.partial === undefined ? {} : READ),
        ...(job.partial === undefined ? {} : { partial: partialOf(job.partial) }),
      })
    }
    const begin = (): void => {
      if (!this.hasRoom(namespace)) return void this.queued.set(id, { namespace, start, fail: (error) => job.fail(error) })
      try {
        start()
      } catch (error) {
        job.fail(classify(error))
      }
    }
    if (!shared) {
      begin()
      return job
    }
    const key = `${module.href} ${namespace} ${JSON.stringify(args)}`
    if (cacheable) {
      const cached = results.find(namespace, key)
      if (cached !== undefined) {
        metrics.resultCacheHits.inc()
        job.doneAs(cached)
        return job
      }
      metrics.resultCacheMisses.inc()
      job.draft = results.draft(namespace, key)
    }
    const begun = (): boolean => slot !== undefined && (readers.pins.begun(slot) || job.partial?.overtaken === true)
    this.answers.ask(key, job as ThreadJob, { begin, begun, cancel })
    return job
  }

  /** Memory that the job's snapshot holds is needed. A client would only ask once more: the job does, where it can. */
  private makeRoom(job: ThreadJob): void {
    const { jobsBegunAgain, jobsCut } = this.options.metrics
    if (job.beginAgain()) return jobsBegunAgain.inc()
    jobsCut.inc()
    job.end(heldTooMuch())
  }

  /** A namespace leaves a quarter to the others. */
  private hasRoom(namespace: string): boolean {
    const { maxJobs } = this.options
    const share = Math.ceil((maxJobs * 3) / 4)
    return this.active.all < maxJobs && this.active.of(namespace) < share
  }

  /** Statements of SQL that have an engine process, and those that wait for one. */
  get processes(): { taken: number; waiting: number } {
    const { query, background } = this.options.processes
    return { taken: query.taken + background.taken, waiting: query.waitingCount + background.waitingCount }
  }

  /** Jobs that wait for others to end. */
  get queuedJobs(): number {
    return this.queued.size
  }

  /** Those that wait would read what another has by its name next, and so would those that begin again. */
  endJobs(namespace: string): void {
    for (const [id, { namespace: own, fail }] of this.queued) {
      if (own !== namespace) continue
      this.queued.delete(id)
      fail(namespaceGone(namespace))
    }
    for (const thread of [...this.queries, ...this.leaving, this.background])
      for (const job of thread?.jobs.values() ?? []) if (job.namespace === namespace) job.end(namespaceGone(namespace))
  }

  private startNext(): void {
    for (const [id, { namespace, start, fail }] of this.queued) {
      if (this.closed || this.active.all >= this.options.maxJobs) return
      if (!this.hasRoom(namespace)) continue
      this.queued.delete(id)
      try {
        start()
      } catch (error) {
        fail(classify(error))
      }
    }
  }

  async flush(memtable: number, firstSegment: number): Promise<SegmentMeta[]> {
    const answer = await this.task((id) => ({ kind: 'flush', id, memtable, firstSegment }))
    if (answer.kind !== 'flushed') throw new Error(`a flush was answered by "${answer.kind}"`)
    return answer.segments
  }

  async compact(request: Omit<Extract<ToWorker, { kind: 'compact' }>, 'kind' | 'id'>): Promise<SegmentMeta | null> {
    const answer = await this.task((id) => ({ kind: 'compact', id, ...request }))
    if (answer.kind !== 'compacted') throw new Error(`a compaction was answered by "${answer.kind}"`)
    return answer.segment
  }

  async archiveDays(request: Omit<Extract<ToWorker, { kind: 'archive-days' }>, 'kind' | 'id'>): Promise<bigint[]> {
    const answer = await this.task((id) => ({ kind: 'archive-days', id, ...request }))
    if (answer.kind !== 'archive-days') throw new Error(`a question for days was answered by "${answer.kind}"`)
    return answer.days.map(BigInt)
  }

  /** @returns null when no rows are left. */
  async archive(task: ArchiveTask): Promise<SegmentMeta | null> {
    const answer = await this.task((id) => ({ kind: 'archive', id, ...task }))
    if (answer.kind !== 'archived') throw new Error(`an archive task was answered by "${answer.kind}"`)
    return answer.segment
  }

  async newestRows(task: NewestRowsTask): Promise<void> {
    await this.task((id) => ({ kind: 'newest-rows', id, ...task }))
  }

  /** Where query threads read archived segments from now on. A directory is allowed when a thread starts: those that run make way for others. */
  readArchive(directory: string): void {
    const { query, background } = this.options.config
    query.archiveDirectory = directory
    background.archiveDirectory = directory
    const threads = [...this.queries.splice(0), ...(this.background === undefined ? [] : [this.background])]
    this.background = undefined
    for (const thread of threads) {
      this.leaving.add(thread)
      this.options.readers.afterAll(() => void thread.close().then(() => this.leaving.delete(thread)))
    }
  }

  /** Of samples that the query threads keep, as of their last message. */
  get sampleBytes(): number {
    return [...this.queries, ...this.leaving].reduce((sum, thread) => sum + thread.sampleBytes, 0)
  }

  get sampleFileBytes(): number {
    return [...this.queries, ...this.leaving].reduce((sum, thread) => sum + thread.sampleFileBytes, 0)
  }

  /** Of each thread there is. */
  async usage(): Promise<ThreadUsage[]> {
    return Promise.all(this.threads.map((thread) => thread.usage(this.nextTask++)))
  }

  /** Threads that take no messages make way for others. */
  private look(): void {
    for (const thread of [...this.queries, ...this.leaving, this.background]) {
      if (thread === undefined || !thread.look()) continue
      this.queries = this.queries.filter((one) => one !== thread)
      if (this.background === thread) this.background = undefined
      this.leaving.add(thread)
      void thread.giveUp().then(() => this.leaving.delete(thread))
    }
  }

  async close(): Promise<void> {
    this.closed = true
    this.options.environment.timers.clearInterval(this.looks)
    const left = [...this.queued.values()]
    this.queued.clear()
    for (const { fail } of left) fail(shutDown())
    await Promise.all(this.threads.map((thread) => thread.close()))
  }

  private get threads(): EngineThread[] {
    return [...this.queries, ...this.leaving, this.maintenance, this.background].filter((thread) => thread !== undefined)
  }

  /** Jobs that run. */
  get activeJobs(): number {
    return this.active.all
  }

  /** A query thread that has not been warmed up; started, where none runs. */
  coldThread(): ColdThread | undefined {
    if (this.closed) return undefined
    const thread = this.queries.length === 0 ? this.startQueryThread() : this.queries.find(({ warm }) => !warm)
    if (thread === undefined) return undefined
    return {
      warmUp: (slice) => this.warmUp(thread, slice),
      endWarmUp: () => {
        thread.warm = true
        thread.post({ kind: 'warm-up-end' })
      },
    }
  }

  private async warmUp(thread: EngineThread, slice: WarmUpSlice): Promise<WarmedUp> {
    if (this.closed) throw shutDown()
    const answer = await thread.ask({ kind: 'warm-up', id: this.nextTask++, ...slice })
    if (answer.kind !== 'warmed-up') throw new Error(`a warm-up was answered by "${answer.kind}"`)
    return answer.outcome
  }

  private startQueryThread(): EngineThread {
    const thread = this.start('query', (gone) => {
      this.queries = this.queries.filter((t) => t !== gone)
    })
    this.queries.push(thread)
    return thread
  }

  private queryThread(): EngineThread {
    const idle = this.queries.find((thread) => thread.jobs.size === 0)
    if (idle !== undefined) return idle
    if (this.queries.length < this.options.queryThreads) {
      const thread = this.startQueryThread()
      this.threadStarted()
      return thread
    }
    return this.queries.reduce((idlest, thread) => (thread.jobs.size < idlest.jobs.size ? thread : idlest))
  }

  private backgroundThread(): EngineThread {
    this.background ??= this.start('background', (gone) => {
      if (this.background === gone) this.background = undefined
    })
    return this.background
  }

  private task(message: (id: number) => ToWorker & { id: number }): Promise<FromWorker> {
    if (this.closed) return Promise.reject(shutDown())
    if (this.givenUp !== undefined) return Promise.reject(this.givenUp)
    this.maintenance ??= this.start('maintenance', (_, { error, passing }) => {
      this.maintenance = undefined
      if (!this.closed && !passing && !this.options.maintenanceDied(error.message)) this.givenUp = error
    })
    this.options.publisher.flush()
    return this.maintenance.ask(message(this.nextTask++))
  }

  private start(role: ThreadRole, gone: ConstructorParameters<typeof EngineThread>[2]): EngineThread {
    return new EngineThread(role, this.options, gone)
  }
}

/** As it is told to the thread. */
function partialOf({ bytes, changed, maxBytes }: PartialDraft): Omit<PartialResult, 'keep'> {
  return { changed, maxBytes, ...(bytes === undefined ? {} : { bytes }) }
}

function shutDown(): SvcError {
  return new SvcError('DATABASE_CLOSED', 'the database is shutting down; retry after the restart')
}

function heldTooMuch(): SvcError {
  return new SvcError(
    'BACKPRESSURE',
    'cannot go on with the query: memory of rows that were written out since it began is needed for new ones; retry in a second, ask for less, or raise [database] max_memtable_memory',
  )
}
