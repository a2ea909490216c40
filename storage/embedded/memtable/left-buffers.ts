/**
 * Has all threads collect what they have of buffers that are not used again, each time it is worth a collection in all of them: a SharedArrayBuffer goes
 * when the last thread has collected it, and V8 does not count them as a reason to collect.
 */
import { collect, collectAtRest } from 'svcdb/lib/heap'
import type { Publisher } from '../threads/publishing/publisher.ts'
import type { LeftFor } from './slabs.ts'

/** A collection takes the main thread some tens of milliseconds: this share of what is kept is left only after memtables stood far above what is usual. */
const COLLECT_SHARE = 1 / 4
const LEAST_BYTES = 4 << 20
/** Of an idle server, what writes have left besides goes as well, above all a young generation of 32 MiB; that takes the main thread two to three times as long. */
const AS_FAR_AS_IT_GOES_MS = 60_000

export class LeftBuffers {
  private bytes = 0
  private collectedAt = -Infinity
  private readonly publisher: Publisher
  private readonly worth: number

  /** @param keptBytes of free buffers. */
  constructor(publisher: Publisher, keptBytes: number) {
    this.worth = Math.max(LEAST_BYTES, keptBytes * COLLECT_SHARE)
    this.publisher = publisher
  }

  /** @param reason they are worth a collection by themselves. */
  readonly add = (bytes: number, reason?: LeftFor): void => {
    this.bytes += bytes
    if (reason === undefined && this.bytes < this.worth) return
    this.bytes = 0
    this.publisher.publish({ kind: 'buffers-left', resting: reason !== undefined })
    setImmediate(reason === 'idle' && this.isDue() ? collectAtRest : collect)
  }

  private isDue(): boolean {
    const now = performance.now()
    if (now - this.collectedAt < AS_FAR_AS_IT_GOES_MS) return false
    this.collectedAt = now
    return true
  }
}
