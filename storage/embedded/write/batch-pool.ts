/** Batches for decoders, used again. Knows how many are in their hands: what a batch may name is not given back meanwhile. */
import type { SeriesResolver } from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'

/** Batches kept for reuse. */
const KEPT = 16

export class BatchPool {
  private readonly resolver: SeriesResolver
  private readonly free: WriteBatch[] = []
  private readonly monotonic: () => number
  /** When each batch was handed out. */
  private readonly taken = new WeakMap<WriteBatch, number>()
  private outstanding = 0

  /** @param monotonic milliseconds of a clock that never goes back. */
  constructor(resolver: SeriesResolver, monotonic: () => number) {
    this.resolver = resolver
    this.monotonic = monotonic
  }

  take(namespace: string): WriteBatch {
    this.outstanding++
    const batch = this.free.pop() ?? new WriteBatch(this.resolver)
    batch.namespace = namespace
    this.taken.set(batch, this.monotonic())
    return batch
  }

  /** Milliseconds since the batch was handed out. */
  age(batch: WriteBatch): number {
    const now = this.monotonic()
    return now - (this.taken.get(batch) ?? now)
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
