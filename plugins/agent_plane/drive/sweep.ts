/** What a sweep does by itself, in one transaction: what it changed is in it as one sealed run. A tick that changed nothing leaves none. */
import type { StateTransaction } from 'svcdb'
import { sweepDeadlines } from '../cases/obligations.ts'
import { isHeld, leaseOf } from '../store/leases.ts'
import { type SweptEntry, sweptRecord, writeSealedRun } from '../store/sealed-run.ts'
import { sweepTasks } from '../tasks/store.ts'

/** At most so many of each kind in a tick. */
const BATCH = 512

/** @param now milliseconds since the Unix epoch. @returns what it did, and one entry that says so when there is more than the limit. */
type SweepPart = (tx: StateTransaction, now: number, limit: number) => Promise<SweptEntry[]>

/** In this order. */
const PARTS: readonly SweepPart[] = [sweepDeadlines, sweepTasks]

interface Sweep {
  /** Id of the run that says what was done. */
  run: string
  now: number
  leaseMs: number
  /** Runs that are about to be taken up: those of processes that ended are noted. */
  due: readonly string[]
}

export async function sweep(tx: StateTransaction, { run, now, leaseMs, due }: Sweep): Promise<SweptEntry[]> {
  const swept: SweptEntry[] = []
  for (const part of PARTS) swept.push(...(await part(tx, now, BATCH)))
  for (const subject of due) {
    const lease = await leaseOf(tx, subject)
    if (lease?.holder !== undefined && !isHeld(lease, now, leaseMs))
      swept.push({ subject, action: 'run_recovered', detail: `the lease of epoch ${lease.epoch} has lapsed` })
  }
  if (swept.length > 0) await writeSealedRun(tx, run, 'swept', swept.map(sweptRecord), now)
  return swept
}
