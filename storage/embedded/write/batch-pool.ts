/** Batches for decoders, used again. Knows which are in their hands: what a batch may name is not given back meanwhile. */
import type { SeriesResolver } from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'

/** Batches kept for reuse. */
const KEPT = 16

export class BatchPool {
  private readonly resolver: SeriesResolver
  private readonly free: WriteBatch[] = []
  private readonly monotonic: () => number
  /** When each batch was handed out. */
  private readonly times = new WeakMap<WriteBatch, number>()
  /** Those in decoders' hands, and which in the order of all each is: the oldest first. */
  private readonly out = new Map<WriteBatch, number>()
  private count = 0

  /** @param monotonic milliseconds of a clock that never goes back. */
  constructor(resolver: SeriesResolver, monotonic: () => number) {
    this.resolver = resolver
    this.monotonic = monotonic
  }

  take(namespace: string): WriteBatch {
    const batch = this.free.pop() ?? new WriteBatch(this.resolver)
    this.out.set(batch, this.count++)
    batch.namespace = namespace
    this.times.set(batch, this.monotonic())
    return batch
  }

  /** Milliseconds since the batch was handed out. */
  age(batch: WriteBatch): number {
    const now = this.monotonic()
    return now - (this.times.get(batch) ?? now)
  }

  /** A decoder has let go of its batch, which may still be on its way through the log. */
  returned(batch: WriteBatch): void {
    this.out.delete(batch)
  }

  /** Nobody uses the batch any more. */
  release(batch: WriteBatch): void {
    batch.reset()
    if (this.free.length < KEPT) this.free.push(batch)
  }

  /** No batch is in a decoder's hands. */
  get settled(): boolean {
    return this.out.size === 0
  }

  /** Those in decoders' hands. */
  get open(): Iterable<WriteBatch> {
    return this.out.keys()
  }

  /** How many were handed out so far. */
  get taken(): number {
    return this.count
  }

  /** Whether all of the first so many have come back. */
  hasReturned(count: number): boolean {
    for (const oldest of this.out.values()) return oldest >= count
    return true
  }
}
