/** Cases, that outlive the runs in them, and what has to be done in them by when. */
import type { CorrelationKey, Json } from './index.ts'

/** `escalated`: an obligation was breached. `closed`: its keys are free for another case. */
export type CaseStatus = 'open' | 'awaiting_external' | 'awaiting_human' | 'escalated' | 'closed'

/** `met`, `breached` and `cancelled` are final. */
export type DeadlineState = 'pending' | 'warned' | 'met' | 'breached' | 'cancelled'

/** What a calendar makes an instant of, such as `{"unit": "hours", "n": 4}`. */
export interface DeadlineSpec {
  unit: string
  [parameter: string]: Json
}

/** Says what a description of a deadline comes to. */
export interface Calendar {
  /** snake_case. */
  name: string
  /** 64 hexadecimal digits, of its rules: others have another one. Journalled with each deadline. */
  digest: string
  /** The same each time for a digest. Times are milliseconds since the Unix epoch. @throws Error for what it does not know. */
  resolve(from: number, spec: DeadlineSpec): number
}

/** An obligation of a case. */
export interface RegisteredDeadline {
  name: string
  /** Milliseconds since the Unix epoch. Computed once. */
  resolvedAt: number
  calendarDigest: string
}

/** The case that a run is in: one that is there, or the open one that has one of these keys, or else a new one with all of them. */
export type CaseChoice = { id: string } | { kind: string; correlation: CorrelationKey[] }

/**
 * What a step may ask of the case that its run is in; in a run without one all but `caseId` and `correlation` fail. What is written is written together with
 * its record. None of it is undone when the run fails: the case belongs to other runs as well.
 */
export interface CaseContext {
  /** undefined = the run is in no case. */
  readonly caseId: string | undefined
  /** The keys of the case as they were when the run was admitted. */
  readonly correlation: readonly CorrelationKey[]
  caseState(): Promise<{ state: Json; version: number }>
  /**
   * @param version that the state was read at. @returns the new one. @throws EffectError when the case was written since: read it and decide again; and for a
   * state of more than 256 KiB.
   */
  putCaseState(version: number, state: Json): Promise<number>
  /** @throws EffectError for `closed`, while an obligation is open. */
  setCaseStatus(status: CaseStatus): Promise<void>
  /**
   * Registers an obligation; one of the same name is the answer, as it is.
   * @param name a-z, 0-9, `_`, `.` and `-`. @param more `calendar`: its name, default `wall_clock`, which knows minutes, hours and days as `n`. `warnBeforeMs`:
   * so long before it is due it is warned of. @throws EffectError on a closed case, and when the calendar does not know the description.
   */
  deadline(name: string, spec: DeadlineSpec, more?: { calendar?: string; warnBeforeMs?: number }): Promise<RegisteredDeadline>
  /** @throws EffectError when there is none of the name, or it is over. */
  meetDeadline(name: string): Promise<void>
  cancelDeadline(name: string): Promise<void>
}
