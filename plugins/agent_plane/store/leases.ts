/** One process at a time drives a run. Each that takes the lease over raises its epoch, and an append with an epoch of before is refused. */
import type { StateReader, StateTransaction } from 'svcdb'
import { FifoMap } from 'svcdb/lib/cache'

export interface LeaseRow {
  epoch: number
  /** Absent = given back. */
  holder?: string
  /** Milliseconds since the Unix epoch. */
  until: number
}

/** Somebody else drives the run now. */
export class Fenced extends Error {
  constructor(run: string, epoch: number) {
    super(`cannot go on with "${run}" in epoch ${epoch}: another process has taken it over`)
  }
}

const leaseKey = (run: string): string => `lease/${run}`

export function leaseOf(state: StateReader, run: string): Promise<LeaseRow | undefined> {
  return state.get<LeaseRow>(leaseKey(run))
}

/** A lease that is said to end later than so many times its length from now was taken by a clock that was wrong. */
const TOO_LONG = 4

/** Whether a process drives the run, as far as the clock can tell. */
export function isHeld(lease: LeaseRow | undefined, now: number, ttlMs: number): boolean {
  return lease?.holder !== undefined && lease.until > now && lease.until <= now + ttlMs * TOO_LONG
}

/** Rows that are remembered; of those beside them it is known later that they have stood still. */
const MAX_WATCHED = 100_000

/**
 * Leases as this process sees them. The clocks of two machines are never the same, so a lease of another one is over when it has stood still here for its time,
 * and not when it says so. Who holds it renews it three times in that time.
 */
export class LeaseWatch {
  private readonly seen = new FifoMap<string, { epoch: number; until: number; at: number }>()
  private readonly leaseMs: number
  private readonly monotonic: () => number

  constructor(leaseMs: number, monotonic: () => number) {
    this.leaseMs = leaseMs
    this.monotonic = monotonic
  }

  /** To be asked at each look. */
  hasStoodStill(run: string, { epoch, until }: LeaseRow): boolean {
    const before = this.seen.get(run)
    const at = this.monotonic()
    if (before?.epoch === epoch && before.until === until) return at - before.at > this.leaseMs
    this.seen.delete(run)
    if (this.seen.size >= MAX_WATCHED) this.seen.delete(this.seen.oldest() as string)
    this.seen.set(run, { epoch, until, at })
    return false
  }
}

/** Whether a process drives the run. @param watch where others share the state. */
export function isDriven(
  run: string,
  lease: LeaseRow | undefined,
  { now, leaseMs, watch }: { now: number; leaseMs: number; watch: LeaseWatch | undefined },
): boolean {
  // Asked before it is due, too, so that it is known then.
  const mayLive = lease?.holder !== undefined && watch?.hasStoodStill(run, lease) === false
  return mayLive || isHeld(lease, now, leaseMs)
}

/** @returns the new epoch; undefined while another process has it. */
export async function takeLease(tx: StateTransaction, run: string, holder: string, now: number, ttlMs: number): Promise<number | undefined> {
  const lease = await leaseOf(tx, run)
  if (isHeld(lease, now, ttlMs)) return undefined
  const epoch = (lease?.epoch ?? 0) + 1
  tx.put(leaseKey(run), { epoch, holder, until: now + ttlMs } satisfies LeaseRow)
  return epoch
}

/** @returns whether it is still the holder's. */
export async function renewLease(tx: StateTransaction, run: string, epoch: number, now: number, ttlMs: number): Promise<boolean> {
  const lease = await leaseOf(tx, run)
  if (lease?.epoch !== epoch || lease.holder === undefined) return false
  tx.put(leaseKey(run), { ...lease, until: now + ttlMs } satisfies LeaseRow)
  return true
}

export async function releaseLease(tx: StateTransaction, run: string, epoch: number): Promise<void> {
  const lease = await leaseOf(tx, run)
  if (lease?.epoch === epoch) tx.put(leaseKey(run), { epoch, until: 0 } satisfies LeaseRow)
}
