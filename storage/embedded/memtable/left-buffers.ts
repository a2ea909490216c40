/**
 * Has all threads collect what they have of buffers that are not used again, each time it is worth a collection in all of them: a SharedArrayBuffer goes
 * when the last thread has collected it, and V8 does not count them as a reason to collect.
 */
import { collect } from 'svcdb/lib/heap'
import type { Publisher } from '../threads/publishing/publisher.ts'

/** A collection takes the main thread some tens of milliseconds: this share of what is kept is left only after memtables stood far above what is usual. */
const COLLECT_SHARE = 1 / 4
const LEAST_BYTES = 4 << 20

export class LeftBuffers {
  private bytes = 0
  private readonly publisher: Publisher
  private readonly worth: number

  /** @param keptBytes of free buffers. */
  constructor(publisher: Publisher, keptBytes: number) {
    this.worth = Math.max(LEAST_BYTES, keptBytes * COLLECT_SHARE)
    this.publisher = publisher
  }

  /** @param resting writes need less than there was: they are worth a collection by themselves. */
  readonly add = (bytes: number, resting = false): void => {
    this.bytes += bytes
    if (!resting && this.bytes < this.worth) return
    this.bytes = 0
    this.publisher.publish({ kind: 'buffers-left', resting })
    setImmediate(collect)
  }
}
