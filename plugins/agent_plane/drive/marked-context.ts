/** What a step puts into the journal beside its effects: notes, and groups; and how the groups that it has left open are undone. */
import type { EffectGroup, Json, Label } from 'svcdb/agents'
import { canonical } from '../record/canonical.ts'
import type { JournalRecord, NewRecord } from '../record/record.ts'
import { permanently } from './case-context.ts'
import { grouped, isUndoing } from './groups.ts'
import type { KeptTools } from './kept-context.ts'
import type { Phase, RunJournal } from './run-journal.ts'
import { checkContent, StepRecords } from './step-records.ts'
import { stopOf } from './stop.ts'
import { ToldStep } from './told-context.ts'

export const ABORTED = 'the run is undone, and the groups of this step with it'
/** What a step may ask for beside its undoing before it counts as one that does not stop. */
const MAX_REFUSALS = 100
/** How often, and how many times, is looked whether a step whose code has ended still undoes a group. */
const IDLE_MS = 10
const IDLE_LOOKS = 500

export abstract class MarkedStep extends ToldStep {
  readonly run: string
  readonly step: string
  protected readonly number: number
  protected readonly records: StepRecords
  protected readonly phase: Phase
  protected abstract override readonly tools: KeptTools & { mode: 'live' | 'strict'; journal: RunJournal }
  /** Where a budget lets the step go on. @returns what is to be written before. Where none does, it does not resolve. */
  protected abstract admitted(): Promise<NewRecord[]>
  /** What is being done. */
  protected readonly underWay = new Set<Promise<unknown>>()
  /** The pass has gone on without the step. */
  protected isClosed = false
  private noted = 0
  /** Records that the step has made, by kind, and by group where that has its own. */
  private readonly marked = new Map<string, number>()
  private readonly aborts: boolean
  private refusals = 0

  constructor(run: string, number: number, phase: Phase, label: Label, aborts: boolean) {
    super(label)
    this.run = run
    this.number = number
    this.step = `s${number}`
    this.records = new StepRecords(run, number, phase)
    this.phase = phase
    this.aborts = aborts
  }

  /** Puts a record of what governs the step beside its effects. @throws EffectError for a group that is not to be committed any more. */
  mark(kind: 'GroupOpened' | 'GroupSettled' | 'Released', payload: Record<string, Json>): Promise<void> {
    return this.guarded(async () => {
      const { group } = payload
      // Groups of several branches settle in whichever order: each has its own ends.
      const place = kind === 'GroupSettled' ? `${kind} ${group}` : kind
      const own = () => this.tools.journal.marksOf(this.number, this.phase, kind).filter((one) => kind !== 'GroupSettled' || one.payload.group === group)
      const index = this.marked.get(place) ?? 0
      const known = own().at(index)
      if (payload.outcome === 'committed' && (known === undefined ? this.aborts : known.payload.outcome !== 'committed')) throw permanently(ABORTED)
      this.marked.set(place, index + 1)
      if (known !== undefined && canonical(known.payload) !== canonical(payload)) return this.diverge(`a record "${kind}" is another one than in the journal`)
      if (known === undefined && (this.tools.mode === 'strict' || this.isOver)) return this.stop({ kind: 'suspended' })
      if (known === undefined) await this.append([...(kind === 'GroupOpened' ? await this.admitted() : []), { ...this.records.place, kind, payload }])
      await this.told((known ?? (own()[index] as JournalRecord)).seq, () => {})
    })
  }

  group<V>(name: string, resources: readonly string[], act: (group: EffectGroup) => Promise<V>): Promise<V> {
    return grouped(this, name, resources, act)
  }

  /** Has the run set aside for a person. Does not resolve. */
  setAside(reason: string): Promise<never> {
    return this.guarded(() => this.stop({ kind: 'quarantined', reason: `step ${this.step}: ${reason}` }))
  }

  note(text: string): Promise<void> {
    checkContent('a note', canonical(text))
    return this.guarded(async () => {
      const index = this.noted++
      const known = this.tools.journal.notesOf(this.number, this.phase)[index]
      if (known !== undefined && known.payload.text !== text) return this.diverge('a note is another one than in the journal')
      if (known === undefined && (this.tools.mode === 'strict' || this.isOver)) return this.stop({ kind: 'suspended' })
      if (known === undefined) await this.append([...(await this.admitted()), { ...this.records.place, kind: 'Note', payload: { text } }])
      await this.told(this.tools.journal.notesOf(this.number, this.phase)[index].seq, () => {})
    })
  }

  /** Resolves when none of its groups is open any more, or nothing happens that could settle them. */
  async settled(): Promise<void> {
    const { journal } = this.tools
    let idle = 0
    for (let seen = journal.records.length; journal.hasOpenGroup(this.number, this.phase) && !this.ended && idle < IDLE_LOOKS; seen = journal.records.length) {
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
      idle = this.underWay.size > 0 || journal.records.length > seen ? 0 : idle + 1
    }
  }

  /** Notes and marks that the journal has and the step has not made. */
  protected get unmade(): string | undefined {
    const { journal } = this.tools
    if (this.noted < journal.notesOf(this.number, this.phase).length) return `step ${this.step} has made fewer notes than the journal has`
    for (const kind of ['GroupOpened', 'GroupSettled', 'Released']) {
      const made = [...this.marked].reduce((sum, [place, count]) => sum + (place.startsWith(kind) ? count : 0), 0)
      if (made < journal.marksOf(this.number, this.phase, kind).length) return `step ${this.step} has fewer records "${kind}" than the journal`
    }
    return undefined
  }

  /** Whether all groups of the step are undone, and nothing is left to do for it. */
  private get isOver(): boolean {
    return this.aborts && !this.tools.journal.hasOpenGroup(this.number, this.phase)
  }

  /** What a step asks for while its groups are undone comes to nothing, unless that undoes them. When they are, it goes no further: then it does not resolve. */
  protected async isRefused(): Promise<boolean> {
    if (this.isOver) return this.stop({ kind: 'suspended' })
    if (!this.aborts || isUndoing()) return false
    if (++this.refusals > MAX_REFUSALS) return this.setAside(`it asked for ${MAX_REFUSALS} things after it was told that the run is undone`)
    return true
  }

  /** The step is not closed before it has its end. */
  protected whole<T>(doing: Promise<T>): Promise<T> {
    this.underWay.add(doing)
    return doing.finally(() => this.underWay.delete(doing))
  }

  /** What is decided in a transaction is durable when it resolves; other records are with what follows: nobody outside has heard of them. */
  protected async append(records: Parameters<RunJournal['append']>[0]): Promise<void> {
    // The run may rest by now, or the step be asked anew: what comes too late is not there, and is asked for again.
    if (this.isClosed) return new Promise(() => {})
    const { journal } = this.tools
    try {
      await this.whole(typeof records === 'function' ? journal.append(records) : journal.keep(records))
    } catch (error) {
      await this.stop(stopOf(error))
    }
  }
}
