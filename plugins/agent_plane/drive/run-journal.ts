/** The journal of one run while it is driven: what it says, indexed, and the way to append to it. One append after the other. */
import type { StateReader, StateStore, StateTransaction } from 'svcdb'
import type { CorrelationKey, Operator, Spend, Undecided } from 'svcdb/agents'
import { inTurns, type Work } from 'svcdb/lib/event-loop'
import { PlanHistory } from '../plan/history.ts'
import { canonical } from '../record/canonical.ts'
import { DoneRecord, lazily, StartedRecord } from '../record/lazy.ts'
import { isRunId, timeOfRun } from '../record/names.ts'
import { BrokenChain, type JournalRecord, type NewRecord, type Sealed, UnfitRecord, verifying } from '../record/record.ts'
import { RUN_CONCLUDED, RUN_OVER } from '../store/children.ts'
import { type Appended, type Head, headOf, recordsOf, requireOwned, sealed, store } from '../store/journal.ts'

export type Phase = 'forward' | 'compensating'

/** One attempt of an effect, with what became of it. */
export interface Attempt {
  started: JournalRecord
  /** EffectDone, EffectFailed. */
  ended?: JournalRecord
  reconciled?: JournalRecord
  /** Another attempt follows. */
  superseded: boolean
}

/** What the journal has of a step in one phase. */
interface Place {
  /** Attempts, in order. */
  tried: Attempt[]
  /** First attempts: effects, in the order in which they were begun. */
  begun: Attempt[]
  notes: JournalRecord[]
  /** GroupOpened, GroupSettled and Released, by kind. */
  marks: Map<string, JournalRecord[]>
}

interface StepState {
  skill: string
  outcome?: string
  /** Seq of StepFinished. */
  finished: number
  compensated: boolean
}

/** What a run waits for is no effect on anything outside. */
export const AWAIT_EVENT = 'svc.await_event'
export const SLEEP = 'svc.sleep'
/** What a person is asked. */
export const TASK = 'svc.task'
export const OPEN_TASK = 'svc.open_task'
/** Another run is begun. */
export const COMMISSION = 'agent.commission'
/** How such a run came to nothing: what it did was undone. */
const UNDONE: ReadonlySet<string> = new Set(['failed', 'cancelled'])

/** Records of a step that are no effects. */
const MARKS: ReadonlySet<string> = new Set(['GroupOpened', 'GroupSettled', 'Released'])

/** What it takes to append. */
interface Owned {
  state: StateStore
  /** Of the lease. */
  epoch: number
  /** Resolves when the code that is running has nothing more to do at once. */
  soon(): Promise<void>
}

export class RunJournal {
  readonly run: string
  readonly records: JournalRecord[] = []
  readonly steps = new Map<number, StepState>()
  /** Its plans, the one in force among them. */
  readonly plans = new PlanHistory(this.records)
  private readonly attempts: Attempt[] = []
  /** Those of them that somebody has looked for, and all before. */
  private readonly byKey = new Map<string, Attempt>()
  /** By step and phase. */
  private readonly places = new Map<number, Place>()
  private readonly budgets = new Map<number, JournalRecord>()
  /** The last one of each kind. */
  private readonly newest = new Map<string, JournalRecord>()
  private readonly owned: Owned | undefined
  /** Where what is durable ends. */
  private stored: Head
  /** Where the journal ends. */
  private end: Head
  /** What is between the two. */
  private kept: Appended | undefined
  private failure: { error: unknown } | undefined
  private queue: Promise<unknown> = Promise.resolve()
  /** How runs that this one has commissioned have ended, as far as it has read. */
  private readonly ends = new Map<string, { status: string; phase: Phase }>()
  /** Attempts begun, of all steps. */
  effects = 0
  /** Of all records, those that are kept and not durable yet among them. */
  bytes = 0
  /** What the run has used up so far. */
  readonly used = { tokens: 0, minor_units: 0, egress: 0, denials: 0, plans: 0 }

  /** That the run is in. */
  readonly case: string | undefined
  /** Of its case, as they were when it was admitted. */
  correlation: readonly CorrelationKey[] = []

  private constructor(run: string, head: Head, owned: Owned | undefined) {
    this.run = run
    this.stored = head
    this.end = head
    this.case = head.case
    this.owned = owned
  }

  /** What a run has spent, as far as its journal says so: one that is damaged says nothing. */
  static async spentBy(state: StateReader, run: string): Promise<Required<Spend>> {
    try {
      return (await RunJournal.read(state, run)).used
    } catch (error) {
      if (error instanceof BrokenChain) return { tokens: 0, minor_units: 0 }
      throw error
    }
  }

  /** For reading, unless it is owned. In turns of the event loop, however long it is. @throws BrokenChain. */
  static async read(state: StateReader, run: string, owned?: Owned): Promise<RunJournal> {
    const head = await headOf(state, run)
    const sealed = (await recordsOf(state, run)).slice(0, head.seq)
    return inTurns(RunJournal.reading(run, head, sealed, owned))
  }

  private static *reading(run: string, head: Head, sealed: readonly Sealed[], owned: Owned | undefined): Work<RunJournal> {
    const journal = new RunJournal(run, head, owned)
    journal.grow(sealed)
    for (const record of yield* verifying(run, sealed, head, lazily)) {
      journal.take(record)
      yield
    }
    return journal
  }

  /** @throws BrokenChain. */
  static own(run: string, owned: Owned): Promise<RunJournal> {
    return RunJournal.read(owned.state, run, owned)
  }

  /**
   * Durable when it resolves, and all that was kept before. @param decide gives what is appended, in the transaction, and may write beside it. @throws UnfitRecord:
   * nothing of it was kept; Fenced, and what the store throws: then nobody knows what was kept, and the journal is not to be used any more.
   */
  append(decide: readonly NewRecord[] | ((tx: StateTransaction) => Promise<NewRecord[]>)): Promise<void> {
    return this.next(async ({ state, epoch }) => {
      const { kept } = this
      const known = typeof decide === 'function' ? undefined : sealed(this.run, epoch, this.end, decide)
      const added = await state.transaction(async (tx) => {
        await requireOwned(tx, this.run, epoch, this.stored)
        if (kept !== undefined) store(tx, this.run, kept)
        const last = known ?? sealed(this.run, epoch, this.end, await (decide as (tx: StateTransaction) => Promise<NewRecord[]>)(tx))
        store(tx, this.run, last)
        return last
      })
      this.kept = undefined
      this.stored = added.head
      this.end = added.head
      this.grow(added.sealed)
      for (const record of added.records) this.take(record)
    })
  }

  /**
   * In the journal when it resolves, for whoever has it open; durable before the next append is, and soon by itself. For what nobody outside has heard of: a
   * process that dies before has not got so far. @throws as `append`, when one before has failed.
   */
  keep(records: readonly NewRecord[]): Promise<void> {
    return this.next(async ({ epoch, soon }) => {
      const added = sealed(this.run, epoch, this.end, records)
      const isFirst = this.kept === undefined
      this.kept =
        this.kept === undefined
          ? added
          : { records: [...this.kept.records, ...added.records], sealed: [...this.kept.sealed, ...added.sealed], head: added.head }
      this.end = added.head
      this.grow(added.sealed)
      for (const record of added.records) this.take(record)
      // A failure is for the next one who appends.
      if (isFirst)
        soon()
          .then(() => (this.kept === undefined ? undefined : this.append([])))
          .catch(() => {})
    })
  }

  /** One after the other. A failure of the store is the end of all. */
  private next<T>(act: (owned: Owned) => Promise<T>): Promise<T> {
    const done = this.queue.then(async () => {
      if (this.owned === undefined) throw new Error(`cannot append to "${this.run}": it is open for reading`)
      if (this.failure !== undefined) throw this.failure.error
      try {
        return await act(this.owned)
      } catch (error) {
        if (!(error instanceof UnfitRecord)) this.failure = { error }
        throw error
      }
    })
    this.queue = done.catch(() => {})
    return done
  }

  private grow(more: readonly Sealed[]): void {
    for (const { raw } of more) this.bytes += raw.length
  }

  private take(record: JournalRecord): void {
    this.records.push(record)
    const { kind } = record
    this.newest.set(kind, record)
    if (record instanceof StartedRecord) return this.begin(record, record.step, 'forward', 1)
    if (kind === 'EffectDone') return this.endWith(record)
    const { step = 0, phase = 'forward', effectKey = '', seq, payload } = record
    this.count(record)
    const state = this.steps.get(step)
    if (kind === 'CaseBound') this.correlation = (payload.correlation ?? []) as CorrelationKey[]
    else if (kind === 'StepStarted') this.steps.set(step, { skill: payload.skill as string, finished: 0, compensated: false })
    else if (kind === 'Note') this.placeOf(step, phase).notes.push(record)
    else if (MARKS.has(kind)) push(this.placeOf(step, phase).marks, kind, record)
    else if (kind === 'BudgetRefused' || kind === 'BudgetReadmitted') this.budgets.set(step, record)
    else if (kind === 'StepFinished' && state !== undefined) {
      state.outcome = payload.outcome as string
      state.finished = seq
    } else if (kind === 'StepCompensated' && state !== undefined) state.compensated = true
    else if (kind === 'EffectStarted') this.begin(record, step, phase, payload.attempt as number)
    else {
      const attempt = this.attempt(effectKey)
      if (attempt !== undefined && kind === 'EffectFailed') attempt.ended = record
      if (attempt !== undefined && kind === 'EffectReconciled') attempt.reconciled = record
    }
  }

  private takeEnd(started: JournalRecord, { payload }: JournalRecord): void {
    if (kindOf(started) !== AWAIT_EVENT) return
    const { kind, payload: said } = payload.output as { kind: string; payload: unknown }
    if (kind !== RUN_CONCLUDED && kind !== RUN_OVER) return
    const { run, status } = said as { run: string; status: string }
    this.ends.set(run, { status, phase: started.phase ?? 'forward' })
  }

  /** Runs that a step has commissioned, in order, and had not read the end of before it was undone. @param step default: of all. */
  unended(step?: number): string[] {
    return this.attempts.flatMap((attempt) => {
      const run = attempt.started.phase === 'compensating' ? undefined : commissioned(attempt)
      const isOf = run !== undefined && (step === undefined || attempt.started.step === step)
      return isOf && this.ends.get(run)?.phase !== 'forward' ? [run] : []
    })
  }

  private begin(record: JournalRecord, step: number, phase: Phase, count: number): void {
    const attempt: Attempt = { started: record, superseded: false }
    const place = this.placeOf(step, phase)
    if (count === 1) place.begun.push(attempt)
    else supersede(place, record)
    place.tried.push(attempt)
    this.attempts.push(attempt)
    if (!isWait(record)) this.effects++
  }

  private endWith(record: JournalRecord): void {
    const attempt = this.attempt(record.effectKey as string)
    if (attempt !== undefined) {
      attempt.ended = record
      this.takeEnd(attempt.started, record)
    }
    if (!(record instanceof DoneRecord)) this.count(record)
  }

  private placeOf(step: number, phase: Phase): Place {
    const key = phase === 'forward' ? step * 2 : step * 2 + 1
    let place = this.places.get(key)
    if (place === undefined) {
      place = { tried: [], begun: [], notes: [], marks: new Map() }
      this.places.set(key, place)
    }
    return place
  }

  private count({ kind, payload }: JournalRecord): void {
    const { used } = this
    const spend = payload.spend as Spend | undefined
    used.tokens += spend?.tokens ?? 0
    used.minor_units += spend?.minor_units ?? 0
    used.egress += (payload.outbound_bytes as number | undefined) ?? 0
    if (kind === 'PolicyDenied') used.denials++
    if (kind === 'PlanFrozen') used.plans++
  }

  /** Milliseconds since the Unix epoch. */
  get admittedAt(): number {
    return timeOfRun(this.run)
  }

  /** Why a failed run is undone. */
  get unwindsFor(): string | undefined {
    return this.records.findLast(({ kind, step }) => kind === 'Note' && step === undefined)?.payload.text as string | undefined
  }

  /** Of the lease; 0 where it is open for reading. */
  get epoch(): number {
    return this.owned?.epoch ?? 0
  }

  /** For whom it acts. */
  get subjects(): string[] {
    const chain = (this.last('IdentityBound')?.payload.chain as { id: string }[] | undefined) ?? []
    const actor = this.last('RunAdmitted')?.payload.admitted_by as string | undefined
    return [...new Set([...chain.map(({ id }) => id), ...(actor === undefined ? [] : [actor])])]
  }

  attempt(effectKey: string): Attempt | undefined {
    const last = this.attempts.at(-1)
    if (last?.started.effectKey === effectKey) return last
    for (let at = this.byKey.size; at < this.attempts.length; at++) this.byKey.set(this.attempts[at].started.effectKey as string, this.attempts[at])
    return this.byKey.get(effectKey)
  }

  /** The last word about the budget of a step. */
  budgetOf(step: number): JournalRecord | undefined {
    return this.budgets.get(step)
  }

  /** How many effects a step has begun in a phase. */
  begunIn(step: number, phase: Phase): number {
    return this.placeOf(step, phase).begun.length
  }

  /**
   * The end of an effect that has gone well at its first attempt. @param ordinal of the effects of the step in the phase, from 0. @param descriptor canonical
   * text of its arguments and kind.
   */
  doneAt(step: number, phase: Phase, ordinal: number, descriptor: string): JournalRecord | undefined {
    const attempt = this.placeOf(step, phase).begun.at(ordinal)
    if (attempt?.ended?.kind !== 'EffectDone' || attempt.reconciled !== undefined) return undefined
    return describes(attempt.started, descriptor) ? attempt.ended : undefined
  }

  notesOf(step: number, phase: Phase): readonly JournalRecord[] {
    return this.placeOf(step, phase).notes
  }

  /** What a step has marked in a phase, in order. */
  marksOf(step: number, phase: Phase, kind: string): readonly JournalRecord[] {
    return this.placeOf(step, phase).marks.get(kind) ?? []
  }

  last(...kinds: string[]): JournalRecord | undefined {
    let last: JournalRecord | undefined
    for (const kind of kinds) {
      const one = this.newest.get(kind)
      if (one !== undefined && one.seq > (last?.seq ?? 0)) last = one
    }
    return last
  }

  /** Whether undoing has begun. */
  get hasCompensated(): boolean {
    return this.records.some(({ kind, phase }) => kind === 'StepCompensated' || phase === 'compensating')
  }

  /** Until when a wait was said to last, milliseconds since the Unix epoch. */
  waitsUntil(effectKey: string): number | undefined {
    const suspended = this.records.find(({ kind, effectKey: own }) => kind === 'RunSuspended' && own === effectKey)
    return suspended === undefined ? undefined : Date.parse((suspended.payload.reason as { until: string }).until)
  }

  /** Whether a group of a step has no end yet. */
  hasOpenGroup(step: number, phase: Phase): boolean {
    return this.marksOf(step, phase, 'GroupOpened').length > this.marksOf(step, phase, 'GroupSettled').length
  }

  /** Seq of the record since which the run is undone. */
  private get unwindsSince(): number {
    return this.records.find(({ kind, phase }) => kind === 'RunCancelled' || phase === 'compensating')?.seq ?? Number.POSITIVE_INFINITY
  }

  /** Whether an effect, or a wait, belongs to undoing: to a compensation, or to a group that is undone because its run is. */
  isOfUnwinding(effectKey: string): boolean {
    const started = this.attempt(effectKey)?.started
    return started?.phase === 'compensating' || (started?.seq ?? 0) > this.unwindsSince
  }

  /** Whether an effect was begun in a group of its step that was undone. */
  private isUndone({ step = 0, phase, seq }: JournalRecord): boolean {
    const marks = (kind: string) => this.marksOf(step, phase ?? 'forward', kind)
    const ends = [...marks('GroupSettled')]
    for (const opened of marks('GroupOpened').toReversed()) {
      const at = ends.findIndex((end) => end.seq > opened.seq && end.payload.group === opened.payload.group)
      const [end] = at < 0 ? [] : ends.splice(at, 1)
      if (end !== undefined && opened.seq < seq && seq < end.seq && end.payload.outcome === 'aborted') return true
    }
    return false
  }

  /** Whether a step has changed something, as far as the journal can say. */
  hasLanded(step: number): boolean {
    return this.attempts.some((attempt) => {
      const { started, ended, reconciled } = attempt
      const run = commissioned(attempt)
      if (run !== undefined && UNDONE.has(this.ends.get(run)?.status ?? '')) return false
      if (started.step !== step || started.phase === 'compensating' || started.payload.mutates !== true || this.isUndone(started)) return false
      if (reconciled !== undefined) return reconciled.payload.disposition === 'landed'
      return !(ended?.kind === 'EffectFailed' && ended.payload.disposition === 'did_not_happen')
    })
  }

  /** What is known of an effect that is not in doubt, for people. */
  standingOf(effectKey: string): string {
    const { ended, reconciled } = this.attempt(effectKey) ?? {}
    if (reconciled !== undefined) {
      const { disposition, asserted_by: by } = reconciled.payload as { disposition: string; asserted_by?: Operator }
      return `it is not in doubt: ${by === undefined ? 'its probe' : `"${by.actor}"`} has said that it ${disposition === 'landed' ? 'has landed' : 'did not happen'}`
    }
    if (ended === undefined) return `it is not in doubt: run "${this.run}" has none that waits for somebody to say what became of it`
    return `it is not in doubt: its end is in the journal as ${ended.kind}`
  }

  undecided(): Undecided[] {
    const open = this.attempts.filter(({ started, ended, reconciled, superseded }) => {
      const { mode } = started.payload.recovery as { mode: string }
      const counts = started.payload.mutates === true || mode === 'requires_operator' || mode === 'reconcile'
      const settled = reconciled !== undefined || superseded || (ended !== undefined && ended.payload.disposition !== 'in_doubt')
      return counts && !settled && !isWait(started)
    })
    return open.map(({ started, ended }) => ({
      effect: started.effectKey as string,
      step: started.step ?? 0,
      phase: started.phase ?? 'forward',
      kind: kindOf(started),
      doubt: ended === undefined ? 'announced' : 'inconclusive',
    }))
  }
}

function kindOf(started: JournalRecord): string {
  return started instanceof StartedRecord ? started.effectKind : (started.payload.descriptor as { kind: string }).kind
}

function isWait(started: JournalRecord): boolean {
  const kind = kindOf(started)
  return kind === AWAIT_EVENT || kind === SLEEP
}

/** The run that an effect has begun. */
function commissioned({ started, ended, reconciled }: Attempt): string | undefined {
  if (kindOf(started) !== COMMISSION) return undefined
  const run = ended?.kind === 'EffectDone' ? ended.payload.output : reconciled?.payload.output
  return typeof run === 'string' && isRunId(run) ? run : undefined
}

/** @param descriptor canonical text. */
function describes(started: JournalRecord, descriptor: string): boolean {
  return started instanceof StartedRecord ? started.isOf(descriptor) : canonical(started.payload.descriptor) === descriptor
}

/** Marks the last attempt before of the same kind and arguments. */
function supersede({ tried }: Place, { payload }: JournalRecord): void {
  const descriptor = canonical(payload.descriptor)
  const before = tried.findLast(({ started }) => describes(started, descriptor))
  if (before !== undefined) before.superseded = true
}

function push<T>(lists: Map<string, T[]>, key: string, value: T): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}
