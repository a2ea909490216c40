/** Batches for decoders, used again. Knows how many are in their hands: what a batch may name is not given back meanwhile. */
import type { SeriesResolver } from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'

/** Batches kept for reuse. */
const KEPT = 16

export class BatchPool {
  private readonly resolver: SeriesResolver
  private readonly free: WriteBatch[] = []
  private outstanding = 0

  constructor(resolver: SeriesResolver) {
    this.resolver = resolver
  }

  take(namespace: string): WriteBatch {
    this.outstanding++
    const batch = this.free.pop() ?? new WriteBatch(this.resolver)
    batch.namespace = namespace
    return batch
  }

  /** A decoder has let go of its batch, which may still be on its way through the log. */
  returned(): void {
    this.outstanding--
  }

  /** Nobody uses the batch any more. */
  release(batch: WriteBatch): void {
    batch.reset()
    if (this.free.length < KEPT) this.free.push(batch)
  }

  /** No batch is in a decoder's hands. */
  get settled(): boolean {
    return this.outstanding === 0
  }
}
