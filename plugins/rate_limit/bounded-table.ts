import { FifoMap } from 'svcdb/lib/cache'

const SWEEP_PART = 1000

/** A map of at most `max` entries: where a new one has no room, the one that was added first goes. */
export class BoundedTable<V> {
  private readonly entries = new FifoMap<string, V>()
  private readonly max: number

  constructor(max: number) {
    this.max = max
  }

  get size(): number {
    return this.entries.size
  }

  get(key: string): V | undefined {
    return this.entries.get(key)
  }

  set(key: string, value: V): void {
    if (this.entries.size >= this.max && !this.entries.has(key)) this.entries.delete(this.entries.oldest() as string)
    this.entries.set(key, value)
  }

  delete(key: string): boolean {
    return this.entries.delete(key)
  }

  /** In parts, between which others may have their turn. */
  *sweep(isIdle: (value: V) => boolean): Generator<void> {
    let seen = 0
    for (const [key, value] of this.entries) {
      if (isIdle(value)) this.entries.delete(key)
      if (++seen % SWEEP_PART === 0) yield
    }
  }
}
