/**
 * Whether background work lets writes go on. A write is refused at once and with the cause, instead of being taken into memory that nothing empties:
 * - the maintenance thread has died too often, or the catalog cannot be written: OVERLOADED, only a restart recovers (`fault`);
 * - the memtables, with the records that wait for the log, are at their limit: STORAGE_FULL when flushing fails for want of space, else BACKPRESSURE;
 * - merging is behind: STORAGE_FULL or BACKPRESSURE likewise. Segments that cannot be merged for another reason do not count: refusing writes would
 *   not repair them.
 * A namespace is refused before the others: rows of one take at most three times the memory that is left, and where segments of its tables wait for a merge
 * only its own writes do.
 */
import { classify, SvcError } from 'svcdb/lib/errors'
import { leavesTooLittle } from '../../common/fair-share.ts'
import { backlog, type CompactionLimits } from '../compaction/plan.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'

export interface MemoryUse {
  /** Bytes of the memtables and of what is on its way there. */
  memory: number
  /** Bytes that jobs hold of memtables that are gone. */
  held: number
  /** Of the memory, what rows of the namespace that writes take. */
  own: number
}

interface Waiting {
  segments: number
  table: number
}

const NONE_WAIT: Waiting = { segments: 0, table: -1 }

export interface PressureLimits {
  maxMemtableMemory: number
  /** Segments of a table that may wait for a merge. */
  maxBacklog: number
  compaction: CompactionLimits
  /** Deaths of the maintenance thread within the window from which on it is not started again. */
  maxDeaths: number
  deathWindowMs: number
}

export class Pressure {
  private readonly limits: PressureLimits
  private readonly monotonic: () => number
  private readonly catalogFault: () => SvcError | undefined
  private readonly ownerOf: (table: number) => string | undefined
  private deaths: number[] = []
  private threadFault: SvcError | undefined
  private flushFailure: SvcError | undefined
  /** Tables whose last merge failed, and why. */
  private readonly mergeFailures = new Map<number, SvcError>()
  /** The table with most segments that wait for a merge. */
  private waiting: Waiting = NONE_WAIT
  /** The same for each namespace with too many; undefined: of tables that namespaces share. */
  private readonly behind = new Map<string | undefined, Waiting>()
  /** Of each table that has any. */
  private readonly waitingOf = new Map<number, number>()
  /** Those that were there at the start have been looked at. */
  private measured = false

  /** @param ownerOf the namespace of a table; undefined: several share it. */
  constructor(
    limits: PressureLimits,
    monotonic: () => number,
    catalogFault: () => SvcError | undefined,
    ownerOf: (table: number) => string | undefined = () => undefined,
  ) {
    this.limits = limits
    this.ownerOf = ownerOf
    this.monotonic = monotonic
    this.catalogFault = catalogFault
  }

  /** Why nothing is flushed any more, until a restart. */
  get fault(): SvcError | undefined {
    return this.threadFault ?? this.catalogFault()
  }

  /** The maintenance thread is there or will be started when needed. */
  get running(): boolean {
    return this.threadFault === undefined
  }

  get compactionBehind(): boolean {
    return this.waiting.segments >= this.limits.maxBacklog
  }

  /** Why a write is refused. @param namespace that writes; without a name it is the only one. */
  refusal({ memory, held, own }: MemoryUse, namespace = ''): SvcError | undefined {
    const { maxMemtableMemory } = this.limits
    const { fault } = this
    if (fault !== undefined) return fault
    const free = maxMemtableMemory - memory - held
    if (free <= 0) return this.tooMuch(`${memory + held} bytes of rows are in memory`, reasonOf(memory, held))
    if (leavesTooLittle(namespace, own, free))
      return this.tooMuch(
        `rows of namespace "${namespace}" take ${own} of ${memory + held} bytes in memory, and the rest is left to others`,
        reasonOf(memory, held),
      )
    return this.compactionBehind ? this.refusalOf(this.behind.get(undefined) ?? this.behind.get(namespace)) : undefined
  }

  private tooMuch(what: string, reason: string): SvcError {
    const limit = `[database] max_memtable_memory is ${this.limits.maxMemtableMemory}`
    if (this.flushFailure?.code === 'STORAGE_FULL')
      return new SvcError('STORAGE_FULL', `${what}, ${limit}, and there is no space to flush them; free space, writes resume without a restart`)
    const why = this.flushFailure === undefined ? reason : `the last flush failed (${this.flushFailure.code})`
    return new SvcError('BACKPRESSURE', `${what}, ${limit}: ${why}; retry in a second`)
  }

  private refusalOf(waiting: Waiting | undefined): SvcError | undefined {
    if (waiting === undefined) return undefined
    const { segments, table } = waiting
    if (this.mergeFailures.has(table))
      return new SvcError('STORAGE_FULL', `${segments} segments wait for a merge, and there is no space for one; free space, writes resume without a restart`)
    return new SvcError(
      'BACKPRESSURE',
      `${segments} segments of a table wait for a merge, [database] compaction_max_backlog is ${this.limits.maxBacklog}: merging is behind; retry in a second`,
    )
  }

  /** The maintenance thread has ended by itself. @returns whether it may be started again. */
  died(cause: string): boolean {
    const { maxDeaths, deathWindowMs } = this.limits
    const now = this.monotonic()
    this.deaths = [...this.deaths.filter((at) => now - at < deathWindowMs), now]
    if (this.deaths.length >= maxDeaths) {
      this.threadFault ??= new SvcError(
        'OVERLOADED',
        `writes are refused since the maintenance thread died ${this.deaths.length} times within ${deathWindowMs / 1000} s, the last time because: ${cause}; restart the server, it recovers everything that was acknowledged`,
      )
    }
    return this.threadFault === undefined
  }

  flushFailed(error: unknown): SvcError {
    this.flushFailure = classify(error)
    return this.flushFailure
  }

  flushed(): void {
    this.flushFailure = undefined
  }

  mergeFailed(table: number, error: unknown): SvcError {
    const failure = classify(error)
    this.mergeFailures.set(table, failure)
    return failure
  }

  merged(table: number): void {
    this.mergeFailures.delete(table)
  }

  /** Call when segments were added or replaced. @param changed tables of which, or of whose merges, there is anything new; there may be thousands of others. */
  measure(segments: ReadonlyMap<number, readonly SegmentMeta[]>, changed: Iterable<number> = segments.keys()): void {
    for (const table of this.measured ? changed : segments.keys()) this.measureTable(table, segments.get(table))
    this.measured = true
    for (;;) {
      const most = this.most()
      if (most.segments > 0) this.measureTable(most.table, segments.get(most.table))
      // Some of its segments cannot be read any more: another table may have more.
      if ((this.waitingOf.get(most.table) ?? 0) < most.segments) continue
      this.waiting = most
      break
    }
    this.behind.clear()
    if (this.compactionBehind) this.findBehind()
  }

  private findBehind(): void {
    for (const [table, segments] of this.waitingOf) {
      if (segments < this.limits.maxBacklog) continue
      const owner = this.ownerOf(table)
      if (segments > (this.behind.get(owner)?.segments ?? 0)) this.behind.set(owner, { segments, table })
    }
  }

  private measureTable(table: number, segments: readonly SegmentMeta[] | undefined): void {
    const failure = this.mergeFailures.get(table)
    const left = segments === undefined || (failure !== undefined && failure.code !== 'STORAGE_FULL')
    const waiting = left ? 0 : backlog(segments, this.limits.compaction)
    if (waiting > 0) this.waitingOf.set(table, waiting)
    else this.waitingOf.delete(table)
  }

  private most(): Waiting {
    let { segments, table } = NONE_WAIT
    for (const [other, waiting] of this.waitingOf) if (waiting > segments) [segments, table] = [waiting, other]
    return { segments, table }
  }
}

function reasonOf(memory: number, held: number): string {
  return held > memory ? `${held} bytes are held by queries under way` : 'flushing is behind, or the disk of the log slow'
}
