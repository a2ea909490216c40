/** One process at a time drives a run. Each that takes the lease over raises its epoch, and an append with an epoch of before is refused. */
import type { StateReader, StateTransaction } from 'svcdb'

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
