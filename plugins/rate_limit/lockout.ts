/** Addresses whose credentials are refused again and again are shut out for a while. Times are milliseconds of a clock that never goes back. */
import { FifoMap } from 'svcdb/lib/cache'
import { BoundedTable } from './bounded-table.ts'

/** In which failures add up. */
const WINDOW_MS = 3_600_000

export interface LockoutOptions {
  maxFailures: number
  lockoutMs: number
  /** Of failing callers, and of bans. */
  maxTracked: number
}

export interface Ban {
  caller: string
  failures: number
  /** Of the clock. */
  until: number
}

export class Lockout {
  private readonly options: LockoutOptions
  /** When each failed: at most `maxFailures` times. */
  private readonly failures: BoundedTable<number[]>
  /** In the order in which they end. Never evicted: with many addresses one could otherwise lift one's own. */
  private readonly bans = new FifoMap<string, Ban>()

  constructor(options: LockoutOptions) {
    this.options = options
    this.failures = new BoundedTable(options.maxTracked)
  }

  get failing(): number {
    return this.failures.size
  }

  banned(now: number): number {
    this.expire(now)
    return this.bans.size
  }

  /** The ban that holds. */
  find(caller: string, now: number): Ban | undefined {
    if (this.bans.size === 0) return undefined
    const ban = this.bans.get(caller)
    return ban !== undefined && ban.until > now ? ban : undefined
  }

  /** @returns the ban that this failure brings; `full` = it would, but there is no room for one more. */
  failed(caller: string, now: number): Ban | 'full' | undefined {
    // Many may have been under way when the ban came.
    if (this.find(caller, now) !== undefined) return undefined
    const { maxFailures, lockoutMs, maxTracked } = this.options
    const times = (this.failures.get(caller) ?? []).filter((time) => time > now - WINDOW_MS)
    times.push(now)
    if (times.length >= maxFailures) {
      if (this.banned(now) >= maxTracked) {
        this.failures.set(caller, times.slice(-maxFailures))
        return 'full'
      }
      this.failures.delete(caller)
      const ban = { caller, failures: times.length, until: now + lockoutMs }
      this.bans.delete(caller)
      this.bans.set(caller, ban)
      return ban
    }
    this.failures.set(caller, times)
    return undefined
  }

  succeeded(caller: string): void {
    this.failures.delete(caller)
  }

  lift(caller: string): boolean {
    this.failures.delete(caller)
    return this.bans.delete(caller)
  }

  /** Those that hold, the first to end first. */
  list(now: number, offset: number, limit: number): Ban[] {
    this.expire(now)
    return [...this.bans.values()].slice(offset, offset + limit)
  }

  /** In parts. */
  *sweep(now: number): Generator<void> {
    this.expire(now)
    yield* this.failures.sweep((times) => times[times.length - 1] <= now - WINDOW_MS)
  }

  private expire(now: number): void {
    for (let caller = this.bans.oldest(); caller !== undefined; caller = this.bans.oldest()) {
      if ((this.bans.get(caller) as Ban).until > now) return
      this.bans.delete(caller)
    }
  }
}
