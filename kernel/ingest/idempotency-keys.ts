/** Idempotency keys seen within a window: bounded, oldest first out. */
export class IdempotencyKeys {
  private readonly windowMs: number
  private readonly capacity: number
  private readonly now: () => number
  /** Key to the time it was claimed; a Map keeps the order of claims, so the oldest come first. */
  private readonly seen = new Map<string, number>()

  /** @param now milliseconds that never go back. */
  constructor(windowMs: number, capacity: number, now: () => number) {
    this.windowMs = windowMs
    this.capacity = capacity
    this.now = now
  }

  get size(): number {
    return this.seen.size
  }

  /** False when the key was claimed within the window and not released since. */
  claim(key: string): boolean {
    const now = this.now()
    this.expire(now)
    if (this.seen.has(key)) return false
    if (this.seen.size >= this.capacity) this.evict(Math.ceil(this.capacity / 4))
    this.seen.set(key, now)
    return true
  }

  release(key: string): void {
    this.seen.delete(key)
  }

  /** Frees all keys that begin so. */
  forget(prefix: string): void {
    for (const key of this.seen.keys()) if (key.startsWith(prefix)) this.seen.delete(key)
  }

  private expire(now: number): void {
    for (const [key, at] of this.seen) {
      if (now - at < this.windowMs) return
      this.seen.delete(key)
    }
  }

  private evict(count: number): void {
    for (const key of this.seen.keys()) {
      if (count-- === 0) return
      this.seen.delete(key)
    }
  }
}
