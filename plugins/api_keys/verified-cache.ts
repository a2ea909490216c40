/** Tokens that were verified, by digest, for a time. */
import { FifoMap } from 'svcdb/lib/cache'
import type { ApiKey } from './key.ts'

interface Entry {
  key: ApiKey
  /** Monotonic milliseconds. */
  until: number
}

export class VerifiedCache {
  private readonly entries = new FifoMap<string, Entry>()
  private readonly maxEntries: number
  private readonly ttlMs: number
  private readonly monotonic: () => number

  constructor(options: { maxEntries: number; ttlMs: number }, monotonic: () => number) {
    this.maxEntries = options.maxEntries
    this.ttlMs = options.ttlMs
    this.monotonic = monotonic
  }

  get size(): number {
    return this.entries.size
  }

  add(digest: string, key: ApiKey): void {
    this.entries.delete(digest)
    // Only what was verified comes in, so that nobody without keys can push others out.
    if (this.entries.size >= this.maxEntries) this.entries.delete(this.entries.oldest() as string)
    this.entries.set(digest, { key, until: this.monotonic() + this.ttlMs })
  }

  get(digest: string): ApiKey | undefined {
    const entry = this.entries.get(digest)
    return entry !== undefined && entry.until > this.monotonic() ? entry.key : undefined
  }

  /** The key that the token was once verified as, however long ago. */
  stale(digest: string): ApiKey | undefined {
    return this.entries.get(digest)?.key
  }

  evict(key: ApiKey): void {
    for (const [digest, entry] of this.entries) if (entry.key === key) this.entries.delete(digest)
  }
}
