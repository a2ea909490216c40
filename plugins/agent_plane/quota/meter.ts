/** What a step may use up: asked before each attempt of an effect, reserved with its announcement, settled with its end. */
import type { StateTransaction } from 'svcdb'
import type { BudgetExceeded, Label, PlanePolicy, Spend } from 'svcdb/agents'
import { spendOf } from '../drive/attempt.ts'
import type { RunJournal } from '../drive/run-journal.ts'
import { canonical } from '../record/canonical.ts'
import type { NewRecord } from '../record/record.ts'
import { shortened } from '../record/text.ts'
import { type Budgets, denials, effectExceeds, limitOf, recordExceeds, replanExceeds, usedOf } from './budgets.ts'
import { beginEffect } from './gate.ts'
import { periodOf } from './period.ts'
import { type PlaneAction, questionOf } from './policy.ts'
import { type QuotaLimits, reservationOf, settle, whole } from './store.ts'

/** Characters of arguments that policies see. */
const MAX_POLICY_ARGS = 8192
const MAX_ERROR = 4096
/** How the error begins of what the policies did not allow. */
const DENIED = 'the policies do not allow it: '
/** Likewise, of what may not go where it was to go. */
const WITHHELD = 'it does not go out: '

export interface MeterTools {
  journal: RunJournal
  now(): number
  /** Of a run. */
  limits: Budgets
  /** Of the tenant. */
  quota: QuotaLimits
  /** Asked before an effect; absent = all may be done. */
  policy?: PlanePolicy | undefined
}

/** An effect, as far as it is metered. */
export interface Metered {
  kind: string
  args: unknown
  mutates: boolean
  spends?: Spend
  outboundBytes?: number | undefined
  /** Of what goes out. */
  outboundLabel?: Label
  /** A value goes out with it, of this label; or a person is asked to release one. */
  releases?: Release
  /** Why it must not be done, whatever the policies say. */
  refusal?: string
  grant?: string
}

/** What the policies are asked about a value. */
export interface Release {
  /** Where it goes, or whose it is. */
  resource: string
  label: Label
}

export class Meter {
  private readonly tools: MeterTools
  private readonly step: number
  private readonly place: Pick<NewRecord, 'step' | 'phase'>
  private readonly undoes: () => boolean

  /** @param undoes whether what is asked for now undoes: then no budget of the run bounds it, as that may be used up. */
  constructor(tools: MeterTools, place: Pick<NewRecord, 'step' | 'phase'> & { step: number }, undoes: () => boolean) {
    this.tools = tools
    this.step = place.step
    this.place = place
    this.undoes = undoes
  }

  /** Which bound an attempt meets. */
  exceeded(asked: Metered): BudgetExceeded | undefined {
    if (this.undoes()) return undefined
    const { limits, journal, now } = this.tools
    return effectExceeds(limits, journal, asked, now())
  }

  /** Which bound anything meets that the journal does not have yet. */
  isFull(): BudgetExceeded | undefined {
    const { limits, journal, now } = this.tools
    return this.undoes() ? undefined : recordExceeds(limits, journal, now())
  }

  /** Which bound another plan meets. */
  replansExceeded(): BudgetExceeded | undefined {
    return replanExceeds(this.tools.limits, this.tools.journal)
  }

  /** Of what has failed with this error: whether the run has had too many refusals. */
  tooManyDenials(error: string): BudgetExceeded | undefined {
    // A step that is done is run again for what it gave.
    if (this.undoes() || this.tools.journal.steps.get(this.step)?.outcome === 'succeeded') return undefined
    return error.startsWith(DENIED) || error.startsWith(WITHHELD) ? denials(this.tools.limits, this.tools.journal) : undefined
  }

  /** That the step was refused is written once, and that it goes on after that. */
  records(exceeded: BudgetExceeded | undefined): NewRecord[] {
    const last = this.tools.journal.budgetOf(this.step)
    const record = (kind: string, payload: Record<string, unknown>): NewRecord => ({ ...this.place, kind, payload })
    const refused = last?.kind === 'BudgetRefused' ? (last.payload.limit as string) : undefined
    if (exceeded === undefined) return refused === undefined || this.undoes() ? [] : [record('BudgetReadmitted', { limit: refused })]
    return refused === limitOf(exceeded) ? [] : [record('BudgetRefused', { limit: limitOf(exceeded), used: usedOf(exceeded) })]
  }

  /** With the announcement. @returns what is announced, or that it was refused and why. */
  async begin(tx: StateTransaction, started: NewRecord, { spends, grant }: Metered): Promise<{ records: NewRecord[]; exceeded: BudgetExceeded | undefined }> {
    const { journal, quota, limits, now } = this.tools
    const effectKey = started.effectKey as string
    const beginning = { run: journal.run, effectKey, ...(spends === undefined ? {} : { spends }), ...(grant === undefined ? {} : { grant }) }
    const exceeded = await beginEffect(tx, beginning, quota, limits, now())
    return { exceeded, records: [...this.records(exceeded), ...(exceeded === undefined ? [started] : [])] }
  }

  /** Asks the policies. @returns what is written when they say no, or it must not be done at all: an effect that was begun and did not happen. */
  async denied(started: NewRecord, asked: Metered): Promise<NewRecord[] | undefined> {
    const { kind, args, grant, mutates, refusal } = asked
    const resource = grant ?? kind
    if (refusal !== undefined) return this.refused(started, { action: 'data:release', resource, reason: refusal }, WITHHELD)
    const more = () => ({ mutates, args: canonical(args).slice(0, MAX_POLICY_ARGS) })
    return (await this.withheld(started, asked)) ?? (await this.asked(started, { action: 'effect:perform', resource, kind, more }, DENIED))
  }

  /** Likewise, of a value alone that is to be released. */
  async withheld(started: NewRecord, { kind, releases }: Metered): Promise<NewRecord[] | undefined> {
    if (releases === undefined) return undefined
    const { resource, label } = releases
    const more = () => ({ sensitivity: label.sensitivity, trust: label.trust, provenance: [...label.provenance] })
    return this.asked(started, { action: 'data:release', resource, kind, more }, WITHHELD)
  }

  private async asked(
    started: NewRecord,
    { action, resource, kind, more }: { action: PlaneAction; resource: string; kind: string; more(): Record<string, unknown> },
    prefix: string,
  ): Promise<NewRecord[] | undefined> {
    const { policy, journal } = this.tools
    if (policy === undefined) return undefined
    const { subjects, run } = journal
    const answer = await policy(questionOf(subjects[0] ?? '', action, resource, { run, kind, subjects, ...more() }))
    if (answer.outcome === 'permit') return undefined
    const reason = answer.outcome === 'deny' ? answer.reason : 'the policies could not be evaluated'
    return this.refused(started, { action, resource, reason }, prefix)
  }

  private refused(started: NewRecord, denied: { action: string; resource: string; reason: string }, prefix: string): NewRecord[] {
    const { outbound_bytes: _, ...payload } = started.payload
    const { effectKey } = started
    const error = shortened(`${prefix}${denied.reason}`, MAX_ERROR)
    return [
      ...this.records(undefined),
      { ...started, payload },
      { ...this.place, effectKey, kind: 'PolicyDenied', payload: denied } as NewRecord,
      { ...this.place, effectKey, kind: 'EffectFailed', payload: { error, disposition: 'did_not_happen', permanent: true } } as NewRecord,
    ]
  }

  /** Settles what an attempt has cost, with its end. @param cost `all` = what was reserved for it. @returns a member of the record. */
  async settle(tx: StateTransaction, { spends }: Metered, effectKey: string, cost: Required<Spend> | 'all'): Promise<{ spend?: Spend }> {
    if (spends === undefined && cost === 'all') return {}
    const { quota, now, journal } = this.tools
    const spend = whole(cost === 'all' ? await reservationOf(tx, journal.run, effectKey) : cost)
    await settle(tx, journal.run, effectKey, periodOf(now(), quota.period), spend)
    return spendOf(spend)
  }
}
