/** What operators see of the runs of a tenant, and do to them. */
import type { StateReader } from 'svcdb'
import type { Operator, Page, RecordView, RunOperations, RunView, WaitingRun } from 'svcdb/agents'
import { inTurns, type Work } from 'svcdb/lib/event-loop'
import { RunJournal } from '../drive/run-journal.ts'
import { isSealed } from '../log/log.ts'
import { instant, isRunId } from '../record/names.ts'
import { BrokenChain, decode, type Sealed } from '../record/record.ts'
import { headOf, recordsWithin } from '../store/journal.ts'
import { CONCLUSIONS, cancellationOf, runsOf, type Status } from '../store/runs.ts'
import { suspendedBy } from '../store/waits.ts'
import { recordView, runView, suspendReason } from './run-view.ts'

/** What acts on runs: a plane, or what has its store. */
interface RunSteering extends Pick<RunOperations, 'cancel' | 'decide' | 'reconcile'> {
  /** @throws SvcError NOT_FOUND. */
  status(run: string): Promise<string>
}

export class OperatedRuns implements RunOperations {
  private readonly service: RunSteering
  /** From the ready phase on. */
  private readonly state: () => StateReader
  private readonly maxHistoryBytes: number

  /** @param maxHistoryBytes of the records of one page of a history. */
  constructor(service: RunSteering, state: () => StateReader, maxHistoryBytes: number) {
    this.service = service
    this.state = state
    this.maxHistoryBytes = maxHistoryBytes
  }

  async list(outcome: string, limit: number): Promise<Page<string>> {
    if (!CONCLUSIONS.has(outcome)) return { rows: [], truncated: false }
    return cut(await runsOf(this.state(), outcome as Status, limit + 1), limit)
  }

  async waiting(limit: number): Promise<Page<WaitingRun>> {
    const waits = await suspendedBy(this.state(), Number.MAX_SAFE_INTEGER, limit + 1)
    return cut(
      waits.map((wait) => ({ run: wait.run, waiting_for: suspendReason(wait), until: instant(wait.until) })),
      limit,
    )
  }

  async view(run: string): Promise<RunView> {
    const state = this.state()
    const status = (await this.service.status(run)) as Status
    try {
      return runView({
        run,
        status,
        sealed: await isSealed(state, run),
        journal: await RunJournal.read(state, run),
        cancellation: await cancellationOf(state, run),
      })
    } catch (error) {
      if (!(error instanceof BrokenChain)) throw error
      return { run, status, sealed: await isSealed(state, run), records: (await headOf(state, run)).seq, reason: error.message }
    }
  }

  async history(run: string, from: number, limit: number): Promise<Page<RecordView>> {
    if (!isRunId(run)) return { rows: [], truncated: false }
    const { found, more } = await recordsWithin(this.state(), run, from, limit + 1, this.maxHistoryBytes)
    const { rows, truncated } = cut(found, limit)
    return { rows: await inTurns(viewing(rows)), truncated: truncated || more }
  }

  cancel(run: string, by: Operator, reason: string): ReturnType<RunOperations['cancel']> {
    return this.service.cancel(run, by, reason)
  }

  decide(run: string, decision: 'reopen' | 'abandon', by: Operator, reason: string): Promise<string> {
    return this.service.decide(run, decision, by, reason)
  }

  reconcile(...said: Parameters<RunOperations['reconcile']>): Promise<void> {
    return this.service.reconcile(...said)
  }
}

function* viewing(sealed: readonly Sealed[]): Work<RecordView[]> {
  const views: RecordView[] = []
  for (const { raw } of sealed) {
    views.push(recordView(decode(raw)))
    yield
  }
  return views
}

/** @param rows up to one more than the limit. */
export function cut<T>(rows: T[], limit: number): Page<T> {
  return { rows: rows.slice(0, limit), truncated: rows.length > limit }
}
