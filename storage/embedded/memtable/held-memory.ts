/**
 * Memory of memtables that are gone and that snapshots of jobs still have. It counts as the memtables' own: together they take no more than
 * `max_memtable_memory`. While jobs at work hold some, writes are answered up to twice as late, so that they get their time; those that hold
 * much of it all the same are ended, the ones first that wait for their callers, then those with the oldest snapshots, before writes are refused.
 */
import type { Readers } from '../threads/publishing/readers.ts'
import type { Lifetime } from '../threads/snapshot-pins.ts'
import type { SlabPool } from './slabs.ts'

/** Of all memory for memtables, readers may hold so much for a while: less than what the one that is written and the one that is flushed leave. */
const HELD_SHARE = 3 / 4
/** With this share held, writes are slowed down most. */
const SLOW_SHARE = 1 / 2
/** Most that a write is slowed down, as a multiple of the time that it has taken: more leaves processors idle, for a question has one thread. */
const SLOWEST = 1
/** Room is made when this share is taken: before writes are refused. */
const FULL_SHARE = 7 / 8

interface HeldMemoryOptions {
  readers: Pick<Readers, 'afterUnread' | 'cut' | 'workingBytes'>
  slabs: Pick<SlabPool, 'retiredBytes'>
  maxMemtableMemory: number
  /** Rows in bytes that a memtable holds when it is full. */
  memtableBytes: number
}

export class HeldMemory {
  private readonly options: HeldMemoryOptions

  constructor(options: HeldMemoryOptions) {
    this.options = options
  }

  get bytes(): number {
    return this.options.slabs.retiredBytes
  }

  /** By how many times of what it has taken a write is answered later: 0 to 1. */
  get slowdown(): number {
    if (this.bytes === 0) return 0
    return SLOWEST * Math.min(1, this.options.readers.workingBytes / (this.options.maxMemtableMemory * SLOW_SHARE))
  }

  /** Memory of a memtable that is gone. @param unread called when no snapshot has it. */
  retire(lifetime: Lifetime, bytes: number, unread: () => void): void {
    const { readers, maxMemtableMemory } = this.options
    readers.afterUnread('memory', lifetime, bytes, unread)
    this.cut(Math.floor(maxMemtableMemory * HELD_SHARE))
  }

  /** Memtables have `memory` bytes: makes room for another one when little is left. */
  need(memory: number): void {
    const { maxMemtableMemory, memtableBytes } = this.options
    if (memory + this.bytes < maxMemtableMemory * FULL_SHARE) return
    this.cut(Math.max(0, maxMemtableMemory - memory - memtableBytes))
  }

  private cut(limit: number): void {
    if (this.bytes > limit) this.options.readers.cut(limit)
  }
}
