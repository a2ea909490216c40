/** What was decided, by key; the least recently used goes first. */
import { FifoMap } from 'svcdb/lib/cache'
import type { Outcome } from './engine.ts'

/** Longer keys, such as those of credentials with hundreds of roles, are not kept: entries are bounded in number and so in bytes. */
const MAX_KEY_LENGTH = 1024

export class DecisionCache {
  private readonly entries = new FifoMap<string, Outcome>()
  private readonly limit: number

  constructor(limit: number) {
    this.limit = limit
  }

  get size(): number {
    return this.entries.size
  }

  get(key: string): Outcome | undefined {
    const found = this.entries.get(key)
    if (found !== undefined) {
      this.entries.delete(key)
      this.entries.set(key, found)
    }
    return found
  }

  set(key: string, outcome: Outcome): void {
    if (this.limit === 0 || key.length > MAX_KEY_LENGTH) return
    if (this.entries.size >= this.limit) this.entries.delete(this.entries.oldest() as string)
    this.entries.set(key, outcome)
  }
}
