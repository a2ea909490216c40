/** A run, and a record of it, as operators see them. Pure. */
import type { Json, Operator, RecordView, RunView, SuspendReason } from 'svcdb/agents'
import type { RunJournal } from '../drive/run-journal.ts'
import { instant } from '../record/names.ts'
import type { JournalRecord } from '../record/record.ts'
import { type Cancellation, FINAL, type Status } from '../store/runs.ts'
import type { Wait } from '../store/waits.ts'

interface RunFacts {
  run: string
  status: Status
  sealed: boolean
  journal: RunJournal
  /** A stop that was asked for. */
  cancellation: Cancellation | undefined
}

export function runView({ run, status, sealed, journal, cancellation }: RunFacts): RunView {
  const lifecycle = journal.last('RunAdmitted', 'RunSuspended', 'RunConcluded', 'QuarantineDecided')
  const concluded = lifecycle?.kind === 'RunConcluded' && status === lifecycle.payload.outcome ? lifecycle.payload : undefined
  const matter = journal.records.findLast((record) => record.case !== undefined)?.case
  const undecided = journal.undecided()
  const decider = deciderOf(journal)
  return {
    run,
    status,
    sealed,
    records: journal.records.length,
    ...(matter === undefined ? {} : { case: matter }),
    ...(concluded?.reason === undefined ? {} : { reason: concluded.reason as string }),
    ...(status === 'suspended' && lifecycle?.kind === 'RunSuspended' ? { waiting_for: sentence(lifecycle.payload.reason as SuspendReason) } : {}),
    ...(decider === undefined ? {} : { decided_by: decider }),
    ...(cancellation === undefined || FINAL.has(status) ? {} : { cancellation_requested_by: cancellation.by }),
    ...(concluded?.exhaustion === undefined ? {} : { exhaustion: concluded.exhaustion as Record<string, Json> }),
    ...(undecided.length === 0 ? {} : { undecided }),
  }
}

/** Who cancelled or abandoned it. */
function deciderOf(journal: RunJournal): Operator | undefined {
  const decided = journal.records.findLast(({ kind, payload }) => kind === 'RunCancelled' || (kind === 'QuarantineDecided' && payload.decision === 'abandon'))
  return (decided?.payload.actor ?? decided?.payload.decider) as Operator | undefined
}

/** What a suspended run waits for, for people. */
export function sentence(waiting: SuspendReason): string {
  if (waiting.reason === 'awaiting_time') return `sleeping until ${waiting.until}`
  const keys = (waiting.correlation ?? []).map(({ namespace, value }) => `${namespace}=${value}`).join(', ')
  return `awaiting ${waiting.kind}${keys === '' ? '' : ` for ${keys}`} until ${waiting.until}`
}

export function suspendReason({ until, event }: Wait): SuspendReason {
  return event === undefined ? { reason: 'awaiting_time', until: instant(until) } : { reason: 'awaiting_event', ...event, until: instant(until) }
}

export function recordView({ seq, run, case: matter, step, phase, effectKey, kind, payload }: JournalRecord): RecordView {
  return {
    seq,
    run,
    case: matter ?? null,
    step: step === undefined ? null : `s${step}`,
    phase: phase ?? 'forward',
    effect_key: effectKey ?? null,
    kind,
    record: { ...payload, kind } as Json,
  }
}
