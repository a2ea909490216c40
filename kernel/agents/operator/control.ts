/** What operators see of all that stops, bounds or needs a person, and do about it. */
import type { AgentRef, HaltLiftView, HaltRow } from '../control.ts'
import type { Json, Operator } from '../index.ts'
import type { Page } from './runs.ts'

export interface HaltView extends HaltRow {
  /** What the scope covers, for people. */
  covers: string
}

export interface HaltPlaced {
  scope: string
  halted: true
  reason: string
  by: string
  basis: Operator['basis']
  /** How far it reaches, for people. */
  reach: string
}

export interface HaltLifted {
  scope: string
  /** Whether one stands now. */
  halted: boolean
  was_standing: boolean
  by: string
  basis: Operator['basis']
  /** The run that says so. */
  record: string | null
  removed: boolean
}

export interface HaltOperations {
  /** All, oldest first. */
  standing(): Promise<HaltView[]>
  /** Newest first. */
  lifted(limit: number): Promise<Page<HaltLiftView>>
  /** Over one that stands: its reason and instant. @throws SvcError BAD_REQUEST. */
  place(scope: string, reason: string, by: Operator): Promise<HaltPlaced>
  /** @throws SvcError BAD_REQUEST. */
  lift(scope: string, by: Operator): Promise<HaltLifted>
}

export interface ParkedPushView {
  /** As its receiver gave it, without credentials. */
  config: Json
  next_seq: number
  attempts: number
  last_error?: string
}

export interface PushOperations {
  parked(limit: number): Promise<Page<ParkedPushView>>
  /** @returns whether it was parked. */
  rearm(run: string, id: string): Promise<boolean>
}

export interface LiveRunView {
  run: string
  agent: AgentRef | null
  /** For whom it acts. */
  subject: string | null
  /** No process drives it: its lease has lapsed. */
  stranded: boolean
}

export interface LiveOperations {
  /** @param subject of those of the page, the ones that act for this principal. */
  list(limit: number, subject?: string): Promise<Page<LiveRunView>>
}

export interface ConditionView {
  condition: string
  found: number
  /** There may be more than were looked at. */
  at_least: boolean
  /** At most ten. */
  subjects: string[]
  /** The rest of those that were found. */
  unlisted: number
  remedy: string
}

export interface AttentionView {
  needs_attention: boolean
  conditions: ConditionView[]
  /** A sentence for each store that the plane has not. */
  not_checked: string[]
}

export interface AttentionOperations {
  view(): Promise<AttentionView>
}
