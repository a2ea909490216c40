/** Entries on their way to the sink: what gathers while one write is under way goes out with the next. */
import type { Logger } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { AuditSink } from './audit-sink.ts'
import type { CatalogMetrics } from './metrics.ts'

interface Waiting {
  line: string
  namespace: string | undefined
  done(error?: Error): void
}

interface AuditLogOptions {
  failClosed: boolean
  /** Entries that are not written yet. */
  maxWaiting: number
  log: Logger
  metrics: CatalogMetrics
}

export class AuditLog {
  private readonly options: AuditLogOptions
  private sink: AuditSink | undefined
  private queue: Waiting[] = []
  private waiting = 0
  /** Of each namespace. */
  private readonly waitingOf = new Map<string, number>()
  private writing: Promise<void> | undefined
  private failing = false

  constructor(options: AuditLogOptions) {
    this.options = options
  }

  start(sink: AuditSink): void {
    this.sink = sink
  }

  /** How many entries are not written yet. */
  get depth(): number {
    return this.waiting
  }

  /**
   * @param namespace of the tenant that it is of, where there are several: one leaves a quarter of the queue to the others.
   * @returns with fail_closed, a promise of the entry being written. @throws SvcError when it cannot be; without fail_closed the loss is only counted.
   */
  async record(entry: object, namespace?: string): Promise<void> {
    const { failClosed } = this.options
    const written = this.append(`${JSON.stringify(entry)}\n`, namespace)
    if (failClosed) await written
    else written.catch(() => {})
  }

  /** Writes what waits, then closes the sink. Safe twice. */
  async stop(): Promise<void> {
    while (this.writing !== undefined) await this.writing
    const { sink } = this
    this.sink = undefined
    await sink?.close()
  }

  private append(line: string, namespace: string | undefined): Promise<void> {
    const { maxWaiting, metrics } = this.options
    if (this.sink === undefined) {
      metrics.lost.inc({ reason: 'closed' })
      return Promise.reject(new SvcError('DATABASE_CLOSED', 'cannot write the audit log: it is not open; retry when /ready answers 200'))
    }
    const share = Math.ceil((maxWaiting * 3) / 4)
    const own = namespace === undefined ? 0 : (this.waitingOf.get(namespace) ?? 0)
    if (this.waiting >= maxWaiting || own >= share) {
      metrics.lost.inc({ reason: 'queue_full' })
      const what = own >= share ? `${own} entries of namespace "${namespace}", three quarters of all that may,` : `${this.waiting} entries`
      return Promise.reject(
        new SvcError('BACKPRESSURE', `cannot write the audit log: ${what} wait to be written; retry, or raise catalog_auth.audit_queue_entries`),
      )
    }
    this.waiting++
    this.count(namespace, 1)
    const written = new Promise<void>((resolve, reject) => {
      this.queue.push({ line, namespace, done: (error) => (error === undefined ? resolve() : reject(error)) })
    })
    this.writing ??= this.drain()
    return written
  }

  private count(namespace: string | undefined, by: 1 | -1): void {
    if (namespace === undefined) return
    const count = (this.waitingOf.get(namespace) ?? 0) + by
    if (count > 0) this.waitingOf.set(namespace, count)
    else this.waitingOf.delete(namespace)
  }

  private async drain(): Promise<void> {
    const { log, metrics } = this.options
    while (this.queue.length > 0) {
      const batch = this.queue
      this.queue = []
      let failure: Error | undefined
      try {
        await this.sink?.write(batch.map(({ line }) => line).join(''))
        if (this.failing) log.info('the audit log is written again')
        this.failing = false
      } catch (error) {
        // Once, not for every call that is refused.
        if (!this.failing) log.error({ err: error }, 'cannot write the audit log')
        this.failing = true
        metrics.lost.inc({ reason: 'write_failed' }, batch.length)
        failure = new SvcError('IO_ERROR', 'cannot write the audit log', { cause: error })
      }
      this.waiting -= batch.length
      for (const { namespace } of batch) this.count(namespace, -1)
      for (const { done } of batch) done(failure)
    }
    // At once with the look at the queue: an entry that is given from now on begins another round.
    this.writing = undefined
  }
}
