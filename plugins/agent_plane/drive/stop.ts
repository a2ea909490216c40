import type { BudgetExceeded } from 'svcdb/agents'
import { UnfitRecord } from '../record/record.ts'

/** What ends a step before it is done. The gravest of those of a pass decides. */
export type Stop =
  /** @property diverged the code does something else than the journal has. */
  | { kind: 'quarantined'; reason: string; diverged?: true }
  | { kind: 'failed'; reason: string }
  | { kind: 'exhausted'; exhaustion: BudgetExceeded }
  /** The process is to end: what comes next is begun by whoever goes on with the run. */
  | { kind: 'left' }
  | { kind: 'suspended' }
  /** The store failed, or somebody else drives the run: the pass is over, and nothing is said about the run. */
  | { kind: 'broken'; error: unknown }

/** Why nothing was appended. What does not fit into a record is the step's own fault: it would not the next time either. */
export function stopOf(error: unknown): Stop {
  return error instanceof UnfitRecord ? { kind: 'failed', reason: error.message } : { kind: 'broken', error }
}

const RANK: Record<Stop['kind'], number> = { broken: 6, quarantined: 5, failed: 4, exhausted: 3, left: 2, suspended: 1 }

export function gravest(stops: readonly Stop[]): Stop | undefined {
  return stops.reduce<Stop | undefined>((worst, stop) => (worst === undefined || RANK[stop.kind] > RANK[worst.kind] ? stop : worst), undefined)
}
