/**
 * The key set of an issuer, kept for a time to live. A refresh is one fetch for all who wait, and replaces the set as a whole. While refreshing
 * fails, the old set serves on, tried again in the background, until it is a day old. Calls wait for a refresh for a bounded time from its beginning:
 * while an issuer hangs, nobody else waits for it.
 */
import type { KeySet } from './key-set.ts'
import { TokenRefused } from './refusal.ts'

/** Keys that are older verify nothing any more. */
const MAX_AGE_MS = 24 * 3_600_000
/** At least this long from one failed refresh to the next. */
const RETRY_MS = 10_000
/** A failure that is older says nothing about the issuer; calls wait for the next attempt then. */
const RECENT_MS = 60_000
/** Names of keys that are remembered as unknown; the oldest goes for the next. */
const MAX_UNKNOWN = 1024
/** Characters of a name that are remembered. */
const MAX_NAME = 256

interface IssuerKeysOptions {
  load(): Promise<KeySet>
  ttlMs: number
  /** How long a call waits for a refresh, from the refresh's beginning. */
  waitMs: number
  /** How long a key that the set does not have is not asked for again, and no refresh begins for another. */
  unknownMs: number
  /** Milliseconds that never go back. */
  monotonic(): number
  /** Awaited before another set takes over; when it throws, the refresh has failed. */
  rotating(from: KeySet, to: KeySet): Promise<void>
  /** A set took over, the same one or another. */
  refreshed(): void
  failed(error: Error): void
}

export class IssuerKeys {
  private readonly options: IssuerKeysOptions
  private set: KeySet | undefined
  private fetchedAt = 0
  private failedAt: number | undefined
  private soughtAt = Number.NEGATIVE_INFINITY
  private pending: Promise<void> | undefined
  private beganAt = 0
  /** Until when; the oldest first. */
  private readonly unknown = new Map<string, number>()

  constructor(options: IssuerKeysOptions) {
    this.options = options
  }

  get size(): number {
    return this.set?.keys.length ?? 0
  }

  get unknownNames(): number {
    return this.unknown.size
  }

  /** Since the set was fetched; 0 without one. */
  get ageMs(): number {
    return this.set === undefined ? 0 : this.options.monotonic() - this.fetchedAt
  }

  /** Monotonic time until which what the set verified may be taken as verified. */
  get goodUntil(): number {
    const fresh = this.fetchedAt + this.options.ttlMs
    const now = this.options.monotonic()
    return now < fresh ? fresh : Math.min(now + RETRY_MS, this.fetchedAt + MAX_AGE_MS)
  }

  /**
   * Whether what a key has verified still stands, which calls that go on and on ask without waiting: a set whose time is over is fetched again meanwhile.
   * @param print of the key, as `KeySet` has it.
   */
  holds(print: string): boolean {
    if (this.ageMs >= this.options.ttlMs) this.renewed()?.catch(() => {})
    return this.ageMs < MAX_AGE_MS && this.set?.prints.has(print) === true
  }

  /** The first fetch. @throws Error when it fails. */
  open(): Promise<void> {
    return this.refresh()
  }

  /** @throws TokenRefused when the set is too old. */
  async current(): Promise<KeySet> {
    if (this.set !== undefined && this.ageMs < this.options.ttlMs) return this.set
    const { sinceFailureMs } = this
    const refresh = this.renewed()
    refresh?.catch(() => {})
    // An issuer that is down must not hold up calls that the old keys can answer.
    if (sinceFailureMs >= RECENT_MS || this.ageMs >= MAX_AGE_MS) await this.bounded(refresh)
    if (this.set === undefined || this.ageMs >= MAX_AGE_MS) throw new TokenRefused('no_keys')
    return this.set
  }

  /** Of refreshes since the set's time was over: of one before that, for a key that was not there, nothing follows. */
  private get sinceFailureMs(): number {
    const { failedAt } = this
    return failedAt === undefined || failedAt < this.fetchedAt + this.options.ttlMs ? Number.POSITIVE_INFINITY : this.options.monotonic() - failedAt
  }

  /** The refresh of a set whose time is over; undefined soon after one that failed. */
  private renewed(): Promise<void> | undefined {
    return this.pending ?? (this.sinceFailureMs >= RETRY_MS ? this.refresh() : undefined)
  }

  /** The set after a refresh for a key that it does not have, if one is due. @param kid the key's name, if it is known. */
  async sought(kid = ''): Promise<KeySet | undefined> {
    const { monotonic, unknownMs } = this.options
    const now = monotonic()
    const name = kid.slice(0, MAX_NAME)
    if (now < (this.unknown.get(name) ?? Number.NEGATIVE_INFINITY)) return this.set
    if (this.pending === undefined && now - this.soughtAt >= unknownMs) {
      this.soughtAt = now
      this.refresh().catch(() => {})
    }
    await this.bounded(this.pending)
    if (this.set?.named(kid) === undefined) this.remember(name, now + unknownMs)
    return this.set
  }

  private remember(name: string, until: number): void {
    this.unknown.delete(name)
    if (this.unknown.size >= MAX_UNKNOWN) this.unknown.delete(this.unknown.keys().next().value as string)
    this.unknown.set(name, until)
  }

  /** Waits for a refresh as long as calls may, whether it succeeds or not. */
  private async bounded(refresh: Promise<void> | undefined): Promise<void> {
    const { waitMs, monotonic } = this.options
    const left = this.beganAt + waitMs - monotonic()
    if (refresh === undefined || left <= 0) return
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, left)
    })
    await Promise.race([refresh.catch(() => {}), late])
    clearTimeout(timer)
  }

  private refresh(): Promise<void> {
    if (this.pending !== undefined) return this.pending
    this.beganAt = this.options.monotonic()
    this.pending = this.replace().finally(() => {
      this.pending = undefined
    })
    return this.pending
  }

  private async replace(): Promise<void> {
    const { load, rotating, refreshed, failed, monotonic } = this.options
    // The set is as old as the question: what the issuer changed while it answered is not in it.
    const askedAt = monotonic()
    try {
      const next = await load()
      if (this.set !== undefined && !sameKeys(this.set, next)) await rotating(this.set, next)
      this.set = next
      this.fetchedAt = askedAt
      this.failedAt = undefined
    } catch (error) {
      this.failedAt = monotonic()
      failed(error as Error)
      throw error
    }
    refreshed()
  }
}

function sameKeys(a: KeySet, b: KeySet): boolean {
  return a.prints.size === b.prints.size && [...a.prints.keys()].every((print) => b.prints.has(print))
}
