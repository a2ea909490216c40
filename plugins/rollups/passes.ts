/**
 * Who is computed when. A look costs one question to the storage for each namespace with rollups, however many it has: when the live window has not reached the end of
 * the next bucket of any, there is nothing to do. What is due waits in the queue of its namespace; namespaces have their turns slice by slice, so none starves another.
 * Whoever has its turn takes those along that wait as well and need the same slice of the same source: it is read once for all of them.
 */
import { type AdmissionBounds, isWithinReach, type Svc } from 'svcdb'
import { classify } from 'svcdb/lib/errors'
import { bucketOf } from 'svcdb/lib/time-buckets'
import { averageLength, ceilBucket, FIRST_TIME, firstOf, floorBucket } from './boundaries.ts'
import type { RollupsConfig } from './config.ts'
import type { Follower } from './follower.ts'
import type { Materialiser, Outcome, Work } from './materialiser.ts'
import type { RollupMetrics } from './metrics.ts'
import { overlaps, type Range } from './ranges.ts'
import type { Registry } from './registry.ts'
import type { Rollup } from './rollup.ts'
import { within } from './together.ts'

/** A tier waits so long for the follower to see what the tier below has written, so that it is not computed twice. */
const SETTLE_MS = 2000
const FIRST_PAUSE_MS = 1000
const MAX_PAUSE_MS = 300_000
/** A run ends after so long, so that what has become due meanwhile is seen. */
const RUN_MS = 5000
const NS_PER_SEC = 1e9
/** Rollups that have their turn at once: what they hold until it ends is more work for each of them. */
const MAX_TOGETHER = 64

/** What is to be done next for a rollup. */
interface Task extends Work {
  repair: boolean
}

export interface PassesDependencies {
  svc: Svc
  config: RollupsConfig
  registry: Registry
  follower: Follower
  materialiser: Materialiser
  metrics: RollupMetrics
}

export class Passes {
  private readonly dependencies: PassesDependencies
  /** Rollups with something to do, by namespace, in the order of their turns. */
  private readonly queues = new Map<string, Set<Rollup>>()
  /** When the first rollup of a namespace is due: the end of its next bucket. */
  private readonly due = new Map<string, bigint | undefined>()
  /** Where the live window of each namespace began at the last look. */
  readonly closed = new Map<string, bigint>()
  private readonly busy = new Map<Rollup, Promise<void>>()
  private readonly resting = new Set<Rollup>()
  /** Slices under way, by namespace. */
  private readonly active = new Map<string, number>()

  constructor(dependencies: PassesDependencies) {
    this.dependencies = dependencies
  }

  /** There may be something to do for it. */
  wake(rollup: Rollup): void {
    const { namespace } = rollup.definition
    if (!isWithinReach(namespace, this.dependencies.svc.server.multi_tenancy)) return
    const queue = this.queues.get(namespace) ?? new Set()
    rollup.waitingSince ??= this.dependencies.svc.clock.monotonic()
    this.queues.set(namespace, queue.add(rollup))
    this.due.delete(namespace)
  }

  /** Looks what is due, and does it. */
  async run(signal: AbortSignal): Promise<void> {
    await this.look()
    const { clock } = this.dependencies.svc
    const until = clock.monotonic() + RUN_MS
    const work = async (): Promise<void> => {
      // Who is taken from the queue has its turn: time is looked at before.
      while (!signal.aborted && clock.monotonic() < until) {
        const rollup = this.next()
        if (rollup === undefined) return
        const { namespace } = rollup.definition
        this.active.set(namespace, (this.active.get(namespace) ?? 0) + 1)
        await this.turn([rollup, ...this.beside(rollup)], signal).finally(() => this.active.set(namespace, (this.active.get(namespace) ?? 1) - 1))
      }
    }
    await Promise.all(Array.from({ length: this.dependencies.config.workers }, work))
  }

  /** Has the rollup to itself. */
  async alone<T>(rollup: Rollup, body: () => Promise<T>): Promise<T> {
    while (this.busy.has(rollup)) await this.busy.get(rollup)
    const release = this.hold(rollup)
    try {
      return await body()
    } finally {
      release()
    }
  }

  /** Nobody else has it until it is released. Nobody has it now. */
  private hold(rollup: Rollup): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.busy.set(rollup, promise)
    return () => {
      this.busy.delete(rollup)
      resolve()
    }
  }

  isParked({ failure }: Rollup): boolean {
    return failure !== undefined && failure.count >= this.dependencies.config.park_after_failures
  }

  /** How far its watermark could be further on, by the times of its source: all below it done, up to where the live window began at the last look. */
  lagSecs(rollup: Rollup): number {
    const { until } = rollup
    const end = until === undefined ? undefined : this.closedEnd(rollup)
    return end === undefined || until === undefined || end <= until ? 0 : Number(end - until) / NS_PER_SEC
  }

  /** Where its last closed bucket ends. */
  private closedEnd({ definition: { namespace, source }, buckets }: Rollup): bigint | undefined {
    const below = this.dependencies.registry.writerOf(namespace, source)
    const closed = below === undefined ? this.closed.get(namespace) : this.closedEnd(below)
    return closed === undefined ? undefined : floorBucket(closed, buckets)
  }

  /** For how long the rollup that has waited longest has been in a queue. */
  get oldestWaitSecs(): number {
    let first: number | undefined
    for (const queue of this.queues.values())
      for (const { waitingSince, deleted } of queue)
        if (!deleted && waitingSince !== undefined && (first === undefined || waitingSince < first)) first = waitingSince
    return first === undefined ? 0 : (this.dependencies.svc.clock.monotonic() - first) / 1000
  }

  private async look(): Promise<void> {
    const { svc, registry } = this.dependencies
    const now = svc.clock.monotonic()
    for (const rollup of this.resting) {
      if (rollup.notBefore > now) continue
      this.resting.delete(rollup)
      if (!rollup.deleted) this.wake(rollup)
    }
    for (const namespace of registry.namespaces()) {
      const { liveFrom, keptFrom } = await svc.storage.admission(namespace, '')
      if (liveFrom !== undefined) this.closed.set(namespace, liveFrom)
      const closed = later(liveFrom, keptFrom)
      if (closed === undefined) continue
      const due = this.due.has(namespace) ? this.due.get(namespace) : this.firstDue(namespace)
      this.due.set(namespace, due)
      if (due === undefined || closed < due) continue
      for (const rollup of registry.list(namespace)) if (rollup.until !== undefined && bucketOf(rollup.until, rollup.buckets)[1] <= closed) this.wake(rollup)
    }
  }

  private firstDue(namespace: string): bigint | undefined {
    const { registry } = this.dependencies
    let first: bigint | undefined
    for (const rollup of registry.list(namespace)) {
      if (rollup.until === undefined || this.resting.has(rollup) || registry.writerOf(namespace, rollup.definition.source) !== undefined) continue
      const [, end] = bucketOf(rollup.until, rollup.buckets)
      if (first === undefined || end < first) first = end
    }
    return first
  }

  /** The next in turn; it and its namespace go to the end. */
  private next(): Rollup | undefined {
    const { registry, config } = this.dependencies
    // Where there are several, one is left over whatever the slices of one namespace take.
    const most = registry.namespaces().length > 1 ? Math.max(1, config.workers - 1) : config.workers
    for (const [namespace, queue] of this.queues) {
      if ((this.active.get(namespace) ?? 0) >= most) continue
      for (const rollup of queue) {
        if (this.busy.has(rollup)) continue
        queue.delete(rollup)
        rollup.waitingSince = undefined
        if (rollup.deleted || this.resting.has(rollup)) continue
        this.queues.delete(namespace)
        if (queue.size > 0) this.queues.set(namespace, queue)
        return rollup
      }
      if (queue.size === 0) this.queues.delete(namespace)
    }
    return undefined
  }

  /** Takes others out of the queue that wait and aggregate the same source, in the order of their turns. */
  private beside({ definition: { namespace, source } }: Rollup): Rollup[] {
    const queue = this.queues.get(namespace)
    const found: Rollup[] = []
    if (queue === undefined || this.dependencies.registry.of(namespace, source).length === 1) return found
    for (const rollup of queue) {
      if (rollup.definition.source !== source || this.busy.has(rollup) || this.resting.has(rollup) || rollup.deleted) continue
      if (found.push(rollup) === MAX_TOGETHER - 1) break
    }
    for (const rollup of found) queue.delete(rollup)
    return found
  }

  /** They have lost nothing by being looked at. */
  private backToFront(rollups: readonly Rollup[]): void {
    if (rollups.length === 0) return
    for (const rollup of rollups) rollup.waitingSince ??= this.dependencies.svc.clock.monotonic()
    const { namespace } = rollups[0].definition
    this.queues.set(namespace, new Set([...rollups, ...(this.queues.get(namespace) ?? [])]))
  }

  /** @param rollups of one source; the first has its turn, the others come along as far as they can. */
  private async turn(rollups: readonly Rollup[], signal: AbortSignal): Promise<void> {
    const held = new Map(rollups.map((rollup) => [rollup, this.hold(rollup)]))
    const release = (rollup: Rollup): void => {
      held.get(rollup)?.()
      held.delete(rollup)
    }
    try {
      const tasks: Task[] = []
      const bounds = await this.dependencies.svc.storage.admission(rollups[0].definition.namespace, rollups[0].definition.source)
      const apart: Rollup[] = []
      let window: Range | undefined
      for (const rollup of rollups) {
        const task = this.task(rollup, bounds)
        if (task === undefined) this.due.delete(rollup.definition.namespace)
        else if (tasks.length > 0 && !isTogether(tasks[0], window, task)) apart.push(rollup)
        else {
          if (tasks.length === 0) window = this.windowOf(task)
          tasks.push(task)
          continue
        }
        release(rollup)
      }
      this.backToFront(apart)
      if (tasks.length === 0) return
      // Before the snapshot is taken.
      for (const { rollup, start, end } of tasks) {
        rollup.waitingSince = undefined
        rollup.begin([start ?? FIRST_TIME, end])
      }
      const outcomes = await this.dependencies.materialiser.compute(tasks, signal)
      for (const [i, task] of tasks.entries()) await this.settle(task, outcomes[i], signal)
      this.backToFront(tasks.flatMap(({ rollup }, i) => (outcomes[i].state === 'apart' ? [rollup] : [])))
      await this.dependencies.registry.save(undefined)
    } catch (error) {
      // They have left the queue, and nobody else knows what they wait for.
      this.backToFront([...held.keys()])
      throw error
    } finally {
      for (const rollup of [...held.keys()]) release(rollup)
    }
  }

  /** What the first of a turn has room for, about; undefined where only the source knows. */
  private windowOf({ rollup: { buckets, slice }, start, end }: Task): Range | undefined {
    if (start === undefined) return undefined
    const room = start + averageLength(buckets) * BigInt(Math.min(slice, this.dependencies.config.max_buckets_per_slice))
    return [start, room < end ? room : end]
  }

  /** Brings what was computed into the target, and moves the watermark or shortens the list. */
  private async settle({ rollup, start, end, repair }: Task, outcome: Outcome, signal: AbortSignal): Promise<void> {
    const { registry, materialiser, metrics } = this.dependencies
    try {
      if (outcome.state === 'failed') throw outcome.error
      if (outcome.state === 'apart') return rollup.failed()
      if (outcome.state === 'empty') {
        // Kept with whatever is kept next: nothing was written, and finding it out again is cheap.
        rollup.empty(end)
        this.due.delete(rollup.definition.namespace)
      } else {
        await materialiser.bring(rollup, outcome, signal)
        rollup.done([start ?? outcome.start, outcome.end], !repair, repair ? firstOf(outcome.rows.times) : undefined)
        rollup.doneAt = this.dependencies.svc.clock.monotonic()
        if (repair && outcome.end >= end) metrics.recomputed.inc()
        if (repair || outcome.end < end) this.wake(rollup)
        else this.due.delete(rollup.definition.namespace)
      }
      for (const tier of registry.above(rollup)) this.wake(tier)
    } catch (error) {
      this.failed(rollup, error, signal)
    }
  }

  private failed(rollup: Rollup, error: unknown, signal: AbortSignal): void {
    const { svc, metrics, config } = this.dependencies
    rollup.failed()
    if (signal.aborted || rollup.deleted) return
    const { message, code } = classify(error)
    // Ingest comes first: the storage has no room for work beside it at the moment.
    if (code === 'BACKPRESSURE') {
      rollup.notBefore = svc.clock.monotonic() + FIRST_PAUSE_MS
      this.resting.add(rollup)
      return
    }
    const count = (rollup.failure?.count ?? 0) + 1
    if (rollup.failure?.error !== message)
      svc.log.error({ err: error as Error, rollup: rollup.definition.name, namespace: rollup.definition.namespace }, 'a rollup failed; it is tried again')
    rollup.failure = { error: message, time: svc.clock.now(), count }
    const pause = this.isParked(rollup) ? config.parked_retry_secs * 1000 : Math.min(FIRST_PAUSE_MS * 2 ** (count - 1), MAX_PAUSE_MS)
    rollup.notBefore = svc.clock.monotonic() + pause
    this.resting.add(rollup)
    metrics.failures.inc()
    this.due.delete(rollup.definition.namespace)
  }

  /** What is to be done for it now: its first repair, or all buckets that have closed. */
  private task(rollup: Rollup, bounds: AdmissionBounds): Task | undefined {
    const { svc, registry, follower } = this.dependencies
    const { namespace, source } = rollup.definition
    const below = registry.writerOf(namespace, source)
    if (rollup.deleted) return undefined
    if (rollup.unclipped) rollup.clip(later(rollup.exact ? undefined : bounds.keptFrom, rollup.lost))
    const repair = rollup.nextRepair
    // The tier below comes first, and wakes this one.
    if (repair !== undefined)
      return below !== undefined && overlaps(below.dirty, repair) ? undefined : { rollup, start: repair[0], end: repair[1], repair: true }
    const closed = below === undefined ? later(bounds.liveFrom, bounds.keptFrom) : below.until
    if (closed === undefined) return undefined
    if (below !== undefined && follower.behind > 0 && svc.clock.monotonic() - below.doneAt < SETTLE_MS) {
      rollup.notBefore = svc.clock.monotonic()
      this.resting.add(rollup)
      return undefined
    }
    if (rollup.lost !== undefined && rollup.until !== undefined && rollup.until < rollup.lost)
      rollup.done([rollup.until, ceilBucket(rollup.lost, rollup.buckets)], true)
    const start = rollup.until ?? (rollup.lost === undefined ? undefined : ceilBucket(rollup.lost, rollup.buckets))
    const end = floorBucket(closed, rollup.buckets)
    if (start === undefined ? end <= FIRST_TIME : end <= start) return undefined
    if (below !== undefined && overlaps(below.dirty, [start ?? FIRST_TIME, end])) return undefined
    return { rollup, start, end, repair: false }
  }
}

/** @param window of the first; undefined while it is not known where the source begins. */
function isTogether(first: Task, window: Range | undefined, { rollup: { buckets }, start, end }: Task): boolean {
  if (window === undefined || start === undefined) return window === undefined && start === undefined && first.start === undefined
  return within(window, { buckets, start, end }) !== undefined
}

export function later(a: bigint | undefined, b: bigint | undefined): bigint | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a
}
