/** What operators see of runs, and do to them. */
import type { CorrelationKey, Json, Operator, Undecided } from '../index.ts'

export interface RunView {
  run: string
  /** `running`, `suspended`, or how it was concluded. */
  status: string
  /** Its last hash is in the transparency log. */
  sealed: boolean
  records: number
  case?: string
  reason?: string
  /** A sentence. */
  waiting_for?: string
  /** Who cancelled or abandoned it, or broke the glass. */
  decided_by?: Operator
  cancellation_requested_by?: Operator
  /** Which budget ran out: a BudgetExceeded of the operator API. */
  exhaustion?: Record<string, Json>
  /** Absent = none. */
  undecided?: Undecided[]
}

/** What a suspended run waits for. Times are RFC 3339. */
export type SuspendReason =
  | { reason: 'awaiting_event'; kind: string; correlation: CorrelationKey[]; until: string }
  | { reason: 'awaiting_time'; until: string }

export interface WaitingRun {
  run: string
  waiting_for: SuspendReason
  until: string
}

export interface RecordView {
  seq: number
  run: string
  case: string | null
  /** `s1` ... */
  step: string | null
  phase: string
  effect_key: string | null
  kind: string
  record: Json
}

/** At most as many as were asked for, and whether there are more. */
export interface Page<T> {
  rows: T[]
  truncated: boolean
}

export interface RunOperations {
  /** Runs by how they were concluded, newest first; none for a word that is no conclusion. */
  list(outcome: string, limit: number): Promise<Page<string>>
  /** Suspended runs, soonest due first. */
  waiting(limit: number): Promise<Page<WaitingRun>>
  /** @throws SvcError NOT_FOUND. */
  view(run: string): Promise<RunView>
  /** @param from the number of the first record. Empty for a run that there is none of. */
  history(run: string, from: number, limit: number): Promise<Page<RecordView>>
  /** Has it stop at its next step boundary, and undo. @throws SvcError NOT_FOUND, CONFLICT. */
  cancel(run: string, by: Operator, reason: string): Promise<{ requested_by: string; recorded: boolean }>
  /** One more pass, or the end, for a quarantined run. @returns the status that it got to. @throws SvcError NOT_FOUND, CONFLICT. */
  decide(run: string, decision: 'reopen' | 'abandon', by: Operator, reason: string): Promise<string>
  /** What became of an effect in doubt. @throws SvcError NOT_FOUND, CONFLICT, BAD_REQUEST. */
  reconcile(run: string, effect: string, said: { disposition: 'landed' | 'did_not_happen'; output?: Json; note: string }, by: Operator): Promise<void>
}
