/** What an engine thread does for the database itself: flushes, merges, and what the archive and retention want of segments. */
import { SvcError } from 'svcdb/lib/errors'
import { archiveDay, daysBefore } from '../../archive/archive-writer.ts'
import { compactSegments } from '../../compaction/compactor.ts'
import { mergedKeys } from '../../encryption/encrypted-write.ts'
import { raiseToNewest } from '../../retention/newest-rows.ts'
import { flushMemtable, type SegmentTarget } from '../../segment/segment-writer.ts'
import type { SegmentVerifier } from '../../segment/verify.ts'
import type { FromWorker, ToWorker } from '../messages.ts'
import type { SegmentMeta } from '../segment-entry.ts'
import type { WorkerState } from '../state.ts'
import { wireError } from './job-runner.ts'

type Task<K extends ToWorker['kind']> = Extract<ToWorker, { kind: K }>

export class Maintenance {
  private readonly state: WorkerState
  private readonly target: SegmentTarget
  private readonly verifier: SegmentVerifier
  private readonly post: (message: FromWorker) => void
  /** Flushes run one after the other, and so do compactions; a flush does not wait for a compaction, or ingest would have to wait as well. */
  private readonly chains = { flush: Promise.resolve(), compact: Promise.resolve() }

  constructor(state: WorkerState, target: SegmentTarget, verifier: SegmentVerifier, post: (message: FromWorker) => void) {
    this.state = state
    this.target = target
    this.verifier = verifier
    this.post = post
  }

  flush({ id, memtable, firstSegment }: Task<'flush'>): void {
    this.run('flush', id, async () => {
      const segments = await flushMemtable(this.state, this.state.memtable(memtable), firstSegment, this.target)
      return { kind: 'flushed', id, segments }
    })
  }

  compact(task: Task<'compact'>): void {
    this.run('compact', task.id, async () => {
      const { state, target } = this
      const measurement = this.measurementOf(task.table)
      const inputs = await this.verifiedInputs(task)
      const keyOf = mergedKeys(inputs, state.tables.get(task.table), target.duck.encrypted.keys)
      const segment = await compactSegments(inputs, task, target, { measurement, removals: state, keyOf, measurements: state.measurements })
      return { kind: 'compacted', id: task.id, segment }
    })
  }

  listDays(task: Task<'archive-days'>): void {
    this.run('compact', task.id, async () => {
      const inputs = await this.verifiedInputs(task)
      const days = await daysBefore(inputs, BigInt(task.before), this.measurementOf(task.table), this.state, this.target)
      return { kind: 'archive-days', id: task.id, days }
    })
  }

  archive(task: Task<'archive'>): void {
    this.run('compact', task.id, async () => {
      const inputs = await this.verifiedInputs(task)
      const segment = await archiveDay(inputs, task, this.measurementOf(task.table), this.state, this.target)
      return { kind: 'archived', id: task.id, segment }
    })
  }

  raiseNewest(task: Task<'newest-rows'>): void {
    this.run('compact', task.id, async () => {
      const [segment] = this.inputs({ table: task.table, segments: [task.segment] })
      await raiseToNewest(segment, task, this.target)
      return { kind: 'newest-rows', id: task.id }
    })
  }

  /** Resolves when all that was begun is done. */
  async settled(): Promise<void> {
    await Promise.all(Object.values(this.chains))
  }

  private run(chain: keyof typeof this.chains, id: number, work: () => Promise<FromWorker>): void {
    this.chains[chain] = this.chains[chain].then(work).then(this.post, (error) => this.post({ kind: 'task-failed', id, error: wireError(error) }))
  }

  /** The measurement of a table; undefined when it is shared. */
  private measurementOf(table: number): number | undefined {
    const owner = this.state.tables.get(table)?.measurement ?? 0
    return owner < 0 ? undefined : owner
  }

  private async verifiedInputs(task: { table: number; segments: number[] }): Promise<SegmentMeta[]> {
    const inputs = this.inputs(task)
    await this.verifier.ensure(inputs)
    return inputs
  }

  private inputs({ table, segments }: { table: number; segments: number[] }): SegmentMeta[] {
    const known = new Map((this.state.segments.get(table) ?? []).map((segment) => [segment.id, segment]))
    return segments.map((id) => {
      const segment = known.get(id)
      if (segment === undefined) throw new SvcError('INTERNAL_ERROR', `cannot compact segment ${id} of table ${table}: it is not in the manifest`)
      return segment
    })
  }
}
