/** What operators see of cases, obligations, holds and the drill, and do to them. Times are RFC 3339 in UTC; those of holds are seconds since the Unix epoch. */
import type { CaseStatus, CorrelationKey, DeadlineState, Json, Operator } from '../index.ts'
import type { Page, RecordView } from './runs.ts'

export interface CaseView {
  id: string
  kind: string
  status: CaseStatus
  correlation: CorrelationKey[]
  state: Json
  version: number
  opened_at: string
  /** In the order in which they were begun, the first thousand. */
  runs: string[]
}

export interface DeadlineView {
  case: string
  name: string
  resolved_at: string
  calendar_digest: string
  warn_at: string | null
  state: DeadlineState
  /** Absent = nobody has accounted for it. */
  acknowledged?: { by: Operator; note: string; at: string }
}

export interface CaseAnswer {
  case: CaseView
  /** Soonest first. */
  deadlines: DeadlineView[]
  /** Records about the case, those of sweeps included, by runs in the order in which they were begun. */
  history: RecordView[]
  history_truncated: boolean
}

export interface CaseOperations {
  /** Newest first. */
  list(status: CaseStatus, limit: number): Promise<Page<CaseView>>
  /** @param limit of the history. @throws SvcError NOT_FOUND. */
  view(id: string, limit: number): Promise<CaseAnswer>
  /** Breaches that nobody has accounted for, the longest overdue first. */
  breached(limit: number): Promise<Page<DeadlineView>>
  /** The first note stays. @throws SvcError NOT_FOUND, CONFLICT when it is not breached. */
  acknowledge(id: string, obligation: string, by: Operator, note: string): Promise<{ acknowledged_by: Operator; obligation: string; recorded: boolean }>
}

export interface HoldInForce {
  placed_at: number
  reason: string
  by: string
  basis: string
}

export interface HoldView extends HoldInForce {
  case: string
}

export interface HoldReleaseView {
  case: string
  by: string
  basis: string
  released_at: number
  placed_by: string
  placed_basis: string
  placed_at: number
  /** The run that says so. */
  record: string
}

export interface HoldOperations {
  /** Oldest first. */
  standing(limit: number): Promise<Page<HoldView>>
  /** Newest first. */
  released(limit: number): Promise<Page<HoldReleaseView>>
  /** The first one stays. @throws SvcError NOT_FOUND. */
  place(id: string, by: Operator, reason: string): Promise<{ case: string; placed: boolean; in_force: HoldInForce | null }>
  /** @throws SvcError NOT_FOUND. */
  release(id: string, by: Operator): Promise<{ case: string; lifted: boolean; by: string; basis: string; record: string | null; removed: boolean }>
}

export interface DrillView {
  /** false = never, and nothing else is there. */
  drilled: boolean
  at?: string
  cases?: number
  findings?: number
  log_size?: number
  not_checked?: number
  origin?: string
  sound?: boolean
}

export interface DrillOperations {
  last(): Promise<DrillView>
  /** Walks all cases and the log now, and keeps the verdict. */
  run(): Promise<DrillView & { first: string[] }>
}
