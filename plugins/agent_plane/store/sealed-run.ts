/** Runs without steps: what sweeps and operators did, as records of a run that nothing can change any more. */
import type { StateTransaction } from 'svcdb'
import { noteAbout } from '../cases/case-store.ts'
import { awaitSealing } from '../log/log.ts'
import type { NewRecord } from '../record/record.ts'
import { append, headOf } from './journal.ts'
import { releaseLease, takeLease } from './leases.ts'
import { type NoticeStatus, setStatus } from './runs.ts'

/** One thing that a sweep did, or could not do. */
export interface SweptEntry {
  /** Such as `<case>/<obligation>`, or the id of a run. */
  subject: string
  action: 'deadline_warned' | 'deadline_breached' | 'case_escalated' | 'task_expired' | 'task_escalated' | 'run_recovered' | 'not_applied'
  detail?: string
  case?: string
}

export function sweptRecord({ case: matter, ...payload }: SweptEntry): NewRecord {
  return { kind: 'Swept', payload, ...(matter === undefined ? {} : { case: matter }) }
}

/** @param run a new id. @param records one at least; those about a case are in its history. @param now milliseconds since the Unix epoch. */
export async function writeSealedRun(tx: StateTransaction, run: string, outcome: NoticeStatus, records: readonly NewRecord[], now: number): Promise<void> {
  const epoch = (await takeLease(tx, run, outcome, now, 1)) as number
  await append(tx, run, epoch, await headOf(tx, run), records)
  await releaseLease(tx, run, epoch)
  await setStatus(tx, run, outcome)
  awaitSealing(tx, run)
  for (const matter of new Set(records.map((record) => record.case))) if (matter !== undefined) noteAbout(tx, matter, run)
}
