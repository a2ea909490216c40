/**
 * Memory of an instance that jobs keep: sorted rows until they are read, one statement after the other. DuckDB has one limit for all statements and fails whichever asks
 * for more, so that a namespace with many would leave none to the others. So its jobs wait for one another before their first statement: from half of the limit on, and
 * from an eighth on those beyond JOBS, for a while, as the memory of a job comes and goes with its statements.
 *
 * Invariant: a job that has had a statement does not wait. Others may wait for it, also elsewhere: for rows that it has gathered (svcdb/lib/columns).
 */
const JOBS = 3
/** The namespace of a server that keeps none apart, and of what no client has asked for: nobody else is there who could be left without. */
const ALONE = ''

export class StatementRoom {
  private readonly limit: number
  private readonly used: () => Promise<number>
  /** Those that have had a statement, by namespace, known by their signals. */
  private readonly jobs = new Map<string, Set<AbortSignal>>()
  private readonly namespaces = new WeakMap<AbortSignal, string>()
  /** Resolved when the next job of a namespace ends. */
  private readonly ends = new Map<string, PromiseWithResolvers<void>>()

  /** @param limit bytes. @param used bytes that the instance has taken. */
  constructor(limit: number, used: () => Promise<number>) {
    this.limit = limit
    this.used = used
  }

  /** @returns what the job has to wait for, if anything, before it asks again, and whether memory is low already; does not reject. */
  async shortage(namespace: string, job: AbortSignal): Promise<{ ended: Promise<void>; isLow: boolean } | undefined> {
    const jobs = this.jobs.get(namespace)
    if (jobs === undefined || jobs.has(job)) return undefined
    // One that ends while the memory is asked for counts.
    const end = this.ends.get(namespace) ?? Promise.withResolvers<void>()
    this.ends.set(namespace, end)
    const used = await this.used()
    const isLow = used * 2 > this.limit
    return isLow || (jobs.size >= JOBS && used * 8 > this.limit) ? { ended: end.promise, isLow } : undefined
  }

  /** The job has a statement. */
  begin(namespace: string, job: AbortSignal): void {
    if (namespace === ALONE) return
    this.namespaces.set(job, namespace)
    this.jobs.set(namespace, (this.jobs.get(namespace) ?? new Set()).add(job))
  }

  /** The job has no statement any more. Safe twice, and for one that had none. */
  end(job: AbortSignal): void {
    const namespace = this.namespaces.get(job)
    const jobs = namespace === undefined ? undefined : this.jobs.get(namespace)
    if (namespace === undefined || jobs?.delete(job) !== true) return
    if (jobs.size === 0) this.jobs.delete(namespace)
    this.ends.get(namespace)?.resolve()
    this.ends.delete(namespace)
  }
}
