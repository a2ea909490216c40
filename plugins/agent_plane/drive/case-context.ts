/** What a step asks of its case: each an effect that is answered from the journal, or in the transaction that journals it. */
import type { StateTransaction } from 'svcdb'
import {
  type Calendar,
  type CaseContext,
  type CaseStatus,
  type CorrelationKey,
  type DeadlineSpec,
  EffectError,
  type Json,
  type RegisteredDeadline,
} from 'svcdb/agents'
import { deadlineOf } from '../cases/obligations.ts'
import { canonical } from '../record/canonical.ts'
import { moveCase, readState, register, type StoreEffect, settleDeadline, writeState } from './case-effects.ts'
import type { RunJournal } from './run-journal.ts'

export interface CaseTools {
  journal: RunJournal
  now(): number
  /** By name. */
  calendars: ReadonlyMap<string, Calendar>
}

export abstract class CaseStep implements CaseContext {
  protected abstract readonly tools: CaseTools

  /** Done in the transaction that journals it: it has happened with its records or not at all. */
  protected abstract stored(effect: StoreEffect): Promise<Json>

  get caseId(): string | undefined {
    return this.tools.journal.case
  }

  get correlation(): readonly CorrelationKey[] {
    return this.tools.journal.correlation
  }

  async caseState(): Promise<{ state: Json; version: number }> {
    return (await this.stored(readState(this.inCase))) as { state: Json; version: number }
  }

  async putCaseState(version: number, state: Json): Promise<number> {
    return (await this.stored(writeState(this.inCase, version, JSON.parse(canonical(state)) as Json))) as number
  }

  async setCaseStatus(status: CaseStatus): Promise<void> {
    await this.stored(moveCase(this.inCase, status))
  }

  async deadline(name: string, spec: DeadlineSpec, more: { calendar?: string; warnBeforeMs?: number } = {}): Promise<RegisteredDeadline> {
    const { now, calendars } = this.tools
    const asked = { name, spec: JSON.parse(canonical(spec)) as DeadlineSpec, ...more, calendar: more.calendar ?? 'wall_clock' }
    return (await this.stored(register(this.inCase, asked, calendars, now))) as unknown as RegisteredDeadline
  }

  async meetDeadline(name: string): Promise<void> {
    await this.stored(settleDeadline(this.inCase, name, 'met'))
  }

  async cancelDeadline(name: string): Promise<void> {
    await this.stored(settleDeadline(this.inCase, name, 'cancelled'))
  }

  /** @returns what finds when an obligation is due. @throws EffectError in a run without a case. */
  protected dueAt(name: string): (tx: StateTransaction) => Promise<number | undefined> {
    const id = this.inCase
    return async (tx) => (await deadlineOf(tx, id, name))?.resolved
  }

  private get inCase(): string {
    const { caseId } = this
    if (caseId === undefined) throw permanently('this run is in no case: begin it with one')
    return caseId
  }
}

export function permanently(error: string): EffectError {
  return new EffectError(error, { disposition: 'did_not_happen', permanent: true })
}
