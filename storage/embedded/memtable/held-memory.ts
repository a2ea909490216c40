/**
 * Memory of memtables that are gone and that snapshots of jobs still have. It counts as the memtables' own: together they take no more than
 * `max_memtable_memory`. While jobs at work hold some, writes are answered later, up to twice as late, so that they get their time; those that hold
 * much of it all the same are ended, the ones first that wait for their callers, then those with the oldest snapshots, before writes are refused.
 */
import type { EngineMetrics } from '../metrics.ts'
import type { Readers } from '../threads/readers.ts'
import type { Lifetime } from '../threads/snapshot-pins.ts'
import type { SlabPool } from './slabs.ts'

/** Of all memory for memtables: the rest is for the one that is written and the one that is flushed. */
const HELD_SHARE = 1 / 2

export interface HeldMemoryOptions {
  readers: Pick<Readers, 'afterUnread' | 'cut' | 'workingBytes'>
  slabs: Pick<SlabPool, 'retiredBytes'>
  maxMemtableMemory: number
  /** Rows in bytes that a memtable holds when it is full. */
  memtableBytes: number
  metrics: Pick<EngineMetrics, 'jobsCut'>
}

export class HeldMemory {
  private readonly options: HeldMemoryOptions

  constructor(options: HeldMemoryOptions) {
    this.options = options
  }

  get bytes(): number {
    return this.options.slabs.retiredBytes
  }

  /** By how much of the time that it has taken a write is answered later: 0 to 1. */
  get slowdown(): number {
    if (this.bytes === 0) return 0
    return Math.min(1, this.options.readers.workingBytes / (this.options.maxMemtableMemory * HELD_SHARE))
  }

  /** Memory of a memtable that is gone. @param unread called when no snapshot has it. */
  retire(lifetime: Lifetime, bytes: number, unread: () => void): void {
    const { readers, maxMemtableMemory } = this.options
    readers.afterUnread('memory', lifetime, bytes, unread)
    this.cut(Math.floor(maxMemtableMemory * HELD_SHARE))
  }

  /** Writes are refused while memtables have `memory` bytes: makes room for another one. */
  need(memory: number): void {
    const { maxMemtableMemory, memtableBytes } = this.options
    this.cut(Math.max(0, maxMemtableMemory - memory - memtableBytes))
  }

  private cut(limit: number): void {
    const { readers, metrics } = this.options
    if (this.bytes <= limit) return
    const cut = readers.cut(limit)
    if (cut > 0) metrics.jobsCut.inc(cut)
  }
}
