/** Tokens that were verified a short while ago, by their SHA-256, so that a client's next call costs a hash. Failures are never kept. */
import { hash } from 'node:crypto'
import type { Identity } from 'svcdb'
import { FifoMap } from 'svcdb/lib/cache'

const MAX_ENTRIES = 10_000
/** A token whose key was withdrawn counts no longer than this and the key set do. */
const MAX_LIFETIME_MS = 60_000

interface Entry {
  identity: Identity
  /** Monotonic time. */
  until: number
}

interface TokenCacheOptions {
  clockSkewMs: number
  /** Wall clock, milliseconds. */
  now(): number
  monotonic(): number
}

export class TokenCache {
  private readonly options: TokenCacheOptions
  /** The least recently added or used come first. */
  private readonly entries = new FifoMap<string, Entry>()
  /** Counts how often everything was dropped: what was verified before must not come in after. */
  private epoch = 0

  constructor(options: TokenCacheOptions) {
    this.options = options
  }

  get size(): number {
    return this.entries.size
  }

  keyOf(token: string): string {
    return hash('sha256', token, 'base64')
  }

  get(key: string): Identity | undefined {
    const entry = this.entries.get(key)
    if (entry === undefined) return undefined
    this.entries.delete(key)
    const { now, monotonic, clockSkewMs } = this.options
    if (monotonic() >= entry.until || now() >= (entry.identity.expiresAt as number) + clockSkewMs) return undefined
    this.entries.set(key, entry)
    return entry.identity
  }

  /** Call it before verifying; what it returns keeps the outcome, unless the cache was dropped meanwhile. @param goodUntil monotonic time. */
  admission(key: string): (identity: Identity, goodUntil: number) => void {
    const { epoch } = this
    return (identity, goodUntil) => {
      const until = Math.min(this.options.monotonic() + MAX_LIFETIME_MS, goodUntil)
      if (epoch !== this.epoch || until <= this.options.monotonic()) return
      if (this.entries.size >= MAX_ENTRIES) this.entries.delete(this.entries.oldest() as string)
      this.entries.set(key, { identity, until })
    }
  }

  drop(): void {
    this.epoch++
    this.entries.clear()
  }
}
