/** What operators see of the cases, obligations and holds of a tenant and of its drill, and do to them. */
import type { StateStore } from 'svcdb'
import type {
  CaseAnswer,
  CaseOperations,
  CaseStatus,
  CaseView,
  DeadlineView,
  DrillOperations,
  DrillView,
  HoldOperations,
  HoldReleaseView,
  HoldView,
  Operator,
  Page,
  RecordView,
} from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { type CaseRow, casesOf, knownCase, runsAbout, runsOfCase } from '../cases/case-store.ts'
import { drill, lastVerdict, type Verdict } from '../cases/drill.ts'
import { placeHold, releasedHolds, releaseHold, standingHolds } from '../cases/holds.ts'
import { acknowledge, type DeadlineRow, deadlinesOf, unacknowledged } from '../cases/obligations.ts'
import type { Driver } from '../drive/driver.ts'
import type { Sealer } from '../log/sealer.ts'
import { instant } from '../record/names.ts'
import { decode } from '../record/record.ts'
import { recordsWithin } from '../store/journal.ts'
import { recordView } from './run-view.ts'
import { cut } from './runs.ts'

const MAX_RUNS = 1000
const MAX_TEXT = 4096

interface CaseTools {
  /** Of the tenant; from the ready phase on, as is `driver`. */
  state(): StateStore
  driver(): Driver
  /** Milliseconds since the Unix epoch. */
  now(): number
  sealer: Sealer
  tenant: string
  /** Of the records of a history. */
  maxHistoryBytes: number
}

export class OperatedCases implements CaseOperations {
  private readonly tools: CaseTools

  constructor(tools: CaseTools) {
    this.tools = tools
  }

  async list(status: CaseStatus, limit: number): Promise<Page<CaseView>> {
    const { rows, truncated } = cut(await casesOf(this.tools.state(), status, limit + 1), limit)
    return { rows: await Promise.all(rows.map((row) => this.shown(row))), truncated }
  }

  async view(id: string, limit: number): Promise<CaseAnswer> {
    const state = this.tools.state()
    const row = await knownCase(state, id)
    const { rows: history, truncated } = await this.history(id, limit)
    return { case: await this.shown(row), deadlines: (await deadlinesOf(state, id)).map(deadlineView), history, history_truncated: truncated }
  }

  async breached(limit: number): Promise<Page<DeadlineView>> {
    const { rows, truncated } = cut(await unacknowledged(this.tools.state(), limit + 1), limit)
    return { rows: rows.map(deadlineView), truncated }
  }

  async acknowledge(id: string, obligation: string, by: Operator, note: string): ReturnType<CaseOperations['acknowledge']> {
    checkText(note, 'note')
    const { state, now } = this.tools
    const { by: acknowledged_by, recorded } = await state().transaction((tx) => acknowledge(tx, id, obligation, { by, note, at: now() }))
    return { acknowledged_by, obligation, recorded }
  }

  private async shown({ opened, ...row }: CaseRow): Promise<CaseView> {
    const { id, kind, status, correlation, state, version } = row
    return { id, kind, status, correlation, state, version, opened_at: instant(opened), runs: await runsOfCase(this.tools.state(), id, MAX_RUNS) }
  }

  private async history(id: string, limit: number): Promise<Page<RecordView>> {
    const state = this.tools.state()
    const { maxHistoryBytes } = this.tools
    const rows: RecordView[] = []
    let bytes = 0
    for (const run of await runsAbout(state, id, limit + 1)) {
      // The run of a sweep has records about many cases, those about this one anywhere among them.
      for (let from = 1, isMore = true; isMore; ) {
        const { found, more } = await recordsWithin(state, run, from, limit, maxHistoryBytes)
        for (const { raw } of found) {
          const record = raw.includes(id) ? decode(raw) : undefined
          if (record?.case !== id) continue
          bytes += raw.length
          if (rows.length === limit || (rows.length > 0 && bytes > maxHistoryBytes)) return { rows, truncated: true }
          rows.push(recordView(record))
        }
        isMore = more || found.length === limit
        from += found.length
      }
    }
    return { rows, truncated: false }
  }
}

function deadlineView({ case: id, name, resolved, calendar_digest, warn, state, acknowledged }: DeadlineRow): DeadlineView {
  return {
    case: id,
    name,
    resolved_at: instant(resolved),
    calendar_digest,
    warn_at: warn === undefined ? null : instant(warn),
    state,
    ...(acknowledged === undefined ? {} : { acknowledged: { ...acknowledged, at: instant(acknowledged.at) } }),
  }
}

export class OperatedHolds implements HoldOperations {
  private readonly tools: CaseTools

  constructor(tools: CaseTools) {
    this.tools = tools
  }

  async standing(limit: number): Promise<Page<HoldView>> {
    const { rows, truncated } = cut(await standingHolds(this.tools.state(), limit + 1), limit)
    return { rows: rows.map(({ case: id, placed, reason, by }) => ({ case: id, placed_at: placed, reason, by: by.actor, basis: by.basis })), truncated }
  }

  async released(limit: number): Promise<Page<HoldReleaseView>> {
    const { rows, truncated } = cut(await releasedHolds(this.tools.state(), limit + 1), limit)
    const shown = rows.map(({ case: id, by, at, placedBy, placed, record }) => ({
      case: id,
      by: by.actor,
      basis: by.basis,
      released_at: at,
      placed_by: placedBy.actor,
      placed_basis: placedBy.basis,
      placed_at: placed,
      record,
    }))
    return { rows: shown, truncated }
  }

  async place(id: string, by: Operator, reason: string): ReturnType<HoldOperations['place']> {
    if (reason.trim() === '') throw new SvcError('BAD_REQUEST', 'cannot place a hold without a reason')
    checkText(reason, 'reason')
    const { state, now } = this.tools
    const asked = { case: id, placed: Math.floor(now() / 1000), reason, by }
    const { placed, inForce } = await state().transaction((tx) => placeHold(tx, asked))
    return { case: id, placed, in_force: { placed_at: inForce.placed, reason: inForce.reason, by: inForce.by.actor, basis: inForce.by.basis } }
  }

  async release(id: string, by: Operator): ReturnType<HoldOperations['release']> {
    const { state, now, driver, sealer } = this.tools
    const run = driver().newRun()
    const lifted = await state().transaction((tx) => releaseHold(tx, id, by, run, now()))
    if (lifted) sealer.poke()
    // The record and the end of the hold are one transaction: where there is the one, there is the other.
    return { case: id, lifted, by: by.actor, basis: by.basis, record: lifted ? run : null, removed: lifted }
  }
}

export class OperatedDrill implements DrillOperations {
  private readonly tools: CaseTools

  constructor(tools: CaseTools) {
    this.tools = tools
  }

  async last(): Promise<DrillView> {
    const verdict = await lastVerdict(this.tools.state())
    return verdict === undefined ? { drilled: false } : drillView(verdict)
  }

  async run(): Promise<DrillView & { first: string[] }> {
    const { state, now, tenant } = this.tools
    const verdict = await drill(state(), originOf(tenant), now(), () => new Promise((resolve) => setImmediate(resolve)))
    return { ...drillView(verdict), first: verdict.first }
  }
}

/** Names the log of a tenant. */
export function originOf(tenant: string): string {
  return `svc/agent_plane/${tenant}`
}

export function drillView({ at, cases, findings, notChecked, origin, logSize }: Verdict): DrillView {
  return { drilled: true, at: instant(at), cases, findings, log_size: logSize, not_checked: notChecked, origin, sound: findings === 0 }
}

function checkText(text: string, what: string): void {
  if (text.length > MAX_TEXT) throw new SvcError('BAD_REQUEST', `cannot take a ${what} of ${text.length} characters: ${MAX_TEXT} is the limit`)
}
