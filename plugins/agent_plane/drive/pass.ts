/** One pass over a run: what the journal has is rebuilt, then its plan goes on, a boundary between steps at a time, until it ends or has to wait. */
import type { PolicyBundle, StateStore } from 'svcdb'
import { type AgentRef, type BudgetExceeded, type Json, joined, type Label, OWN, type Skill, type StepContext } from 'svcdb/agents'
import { SchemaReader } from 'svcdb/lib/schema'
import { traced } from 'svcdb/lib/trace'
import { pausing } from '../halts/store.ts'
import { awaitSealing } from '../log/log.ts'
import { isGovernedBy } from '../plan/governing.ts'
import { type FrozenNode, inputOf } from '../plan/plan.ts'
import { touch } from '../push/store.ts'
import { type Budgets, limitOf, stepExceeds, usedOf } from '../quota/budgets.ts'
import { giveSlotBack, handBack, NOTHING, settleAll, sum } from '../quota/store.ts'
import { canonical } from '../record/canonical.ts'
import { CANON, type JournalRecord, type NewRecord } from '../record/record.ts'
import { shortened } from '../record/text.ts'
import { tellParent } from '../store/children.ts'
import { endWaits, hasNews } from '../store/events.ts'
import { releaseLease } from '../store/leases.ts'
import { type Conclusion, cancellationOf, FINAL, markLanded, type Status, setStatus } from '../store/runs.ts'
import { withdrawTasks } from '../tasks/store.ts'
import { awaitEnds, recall, settleCommissions } from './commissions.ts'
import type { Phase, RunJournal } from './run-journal.ts'
import { OpenStep, type StepTools } from './step-context.ts'
import { gravest, type Stop } from './stop.ts'
import { verified } from './verify.ts'

interface PassTools extends Omit<StepTools, 'journal' | 'limits'> {
  state: StateStore
  skills: ReadonlyMap<string, Skill>
  limits: Budgets
  /** What a skill gets in place of the bare context. */
  govern?: Govern
  policyBundle?: PolicyBundle
  resumed?(run: string): void
}

export type Govern = (context: OpenStep, skill: Skill, journal: RunJournal) => StepContext

/** A stop that was asked for meanwhile is seen before a run rests so. */
const STOPPABLE: ReadonlySet<Status> = new Set<Status>(['failed', 'exhausted', 'withheld'])

const MAX_REASON = 4096

type StepEnd = { output: Json } | Stop

/** The pass ended because the store failed, or the lease was lost: its run is as it was left. */
export class BrokenPass extends Error {
  constructor(cause: unknown) {
    super('a pass over a run has ended before its time', { cause })
  }
}

export class Pass {
  /** Where the code of now does something else than the journal has. */
  readonly divergences: string[] = []
  private readonly journal: RunJournal
  private readonly epoch: number
  private readonly tools: PassTools
  private readonly input: Json
  private readonly outputs = new Map<string, Json>()
  /** Of all that those steps had read that are done. */
  private readonly labels = new Map<string, Label>()

  /** @param epoch of the lease; 0 for a strict one. */
  constructor(journal: RunJournal, epoch: number, tools: PassTools) {
    this.journal = journal
    this.epoch = epoch
    this.tools = tools
    this.input = journal.last('RunAdmitted')?.payload.input as Json
  }

  /** @returns what the run gave. */
  get output(): Json | undefined {
    const given = this.journal.plans.current.nodes
      .filter(({ terminal, id }) => terminal && this.outputs.has(id))
      .map(({ id }): [string, Json] => [id, this.outputs.get(id) as Json])
    return given.length === 1 ? given[0][1] : Object.fromEntries(given)
  }

  /** Runs what is finished against the journal, and what is begun as far as it goes. Nothing is written. */
  async replay(): Promise<void> {
    for (;;) {
      const ready = this.finished()
      if (ready.length === 0) break
      const stop = gravest((await Promise.all(ready.map((node) => this.runStep(node)))).filter(isStop))
      if (stop?.kind === 'broken') throw new BrokenPass(stop.error)
      if (stop !== undefined) {
        this.divergences.push(whyOf(stop))
        return
      }
    }
    for (const node of this.ready(this.journal.plans.all).filter(({ id }) => this.journal.steps.has(this.numberOf(id)))) {
      const end = await this.runStep(node)
      if (isStop(end) && end.kind === 'quarantined' && end.diverged) this.divergences.push(end.reason)
    }
  }

  /** @returns the status that the run got to. @throws BrokenPass. */
  async live(): Promise<Status> {
    try {
      return await this.goOn()
    } catch (error) {
      throw error instanceof BrokenPass ? error : new BrokenPass(error)
    }
  }

  private async goOn(): Promise<Status> {
    if (this.journal.last('RunAdmitted')?.payload.canon !== CANON)
      return this.conclude('quarantined', 'its records are in a form that this server does not know')
    const {
      governed_by: governed,
      policy_bundle: bundle,
      capability,
    } = (this.journal.last('RunAdmitted') as JournalRecord).payload as {
      governed_by?: AgentRef
      policy_bundle?: PolicyBundle
      capability: string
    }
    if (!isGovernedBy(governed, this.journal.plans.all, this.tools.governing))
      return this.conclude('quarantined', `the agent "${governed?.name ?? capability}" is declared otherwise than when the run was admitted`)
    // Which policies a run was admitted under that does not say so is not known.
    if (bundle !== undefined && bundle.rules !== this.tools.policyBundle?.rules)
      return this.conclude('quarantined', 'the policies about runs and effects are others than when the run was admitted')
    if (!this.journal.plans.isWhole) return this.conclude('quarantined', 'its plan is not the one that was frozen')
    for (;;) {
      const finished = this.finished()
      if (finished.length > 0) {
        const stop = gravest((await Promise.all(finished.map((node) => this.runStep(node)))).filter(isStop))
        if (stop !== undefined)
          return this.stopped(
            stop.kind === 'quarantined' || stop.kind === 'broken' || stop.kind === 'left' ? stop : { kind: 'quarantined', reason: whyOf(stop) },
          )
        continue
      }
      if (this.tools.stopping?.()) return this.leave()
      const plan = this.journal.plans.current
      const ready = this.ready(plan.nodes)
      const cancelled = await this.boundary()
      if (cancelled !== undefined) return this.unwind('cancelled', cancelled)
      if (this.journal.hasCompensated) return this.unwind('failed', this.journal.unwindsFor ?? 'a step has failed')
      if (ready.length === 0) return this.conclude('succeeded')
      const withheld = await this.withheld()
      if (withheld !== undefined) return withheld
      const { admitted, stop } = await this.admit(this.next(ready))
      const ends = await Promise.all(admitted.map((node) => this.runStep(node)))
      const worst = gravest([...ends.filter(isStop), ...(stop === undefined ? [] : [stop])])
      // What waits may not be in the plan any more.
      if (worst === undefined || (worst.kind === 'suspended' && this.journal.plans.current !== plan)) continue
      const status = worst.kind === 'suspended' ? await this.suspend() : await this.stopped(worst)
      if (status !== undefined) return status
    }
  }

  /** As it is, to whoever looks for runs that nobody drives. */
  private async leave(): Promise<Status> {
    await this.journal.append(async (tx) => {
      await handBack(tx, this.journal.run, this.epoch)
      return []
    })
    return 'running'
  }

  private ready(nodes: readonly FrozenNode[]): FrozenNode[] {
    return nodes.filter(({ id, depends_on }) => !this.outputs.has(id) && depends_on.every((name) => this.outputs.has(name)))
  }

  /** Those that have begun are gone on with before new ones are: something may have come for them. */
  private next(ready: readonly FrozenNode[]): FrozenNode[] {
    const hasBegun = ({ id }: FrozenNode) => this.journal.steps.has(this.numberOf(id))
    return [...ready.filter(hasBegun), ...ready.filter((node) => !hasBegun(node))].slice(0, this.tools.limits.maxParallelSteps)
  }

  /** Of all plans: what the journal says is done and is not rebuilt yet. */
  private finished(): FrozenNode[] {
    return this.ready(this.journal.plans.all).filter(({ id }) => this.journal.steps.get(this.numberOf(id))?.outcome === 'succeeded')
  }

  private numberOf(id: string): number {
    return this.journal.plans.numberOf(id)
  }

  /** Between steps, and nowhere else, a stop that was asked for is seen. @returns its reason. */
  private async boundary(): Promise<string | undefined> {
    const known = this.journal.last('RunCancelled')
    if (known !== undefined) return known.payload.reason as string
    const standing = await cancellationOf(this.tools.state, this.journal.run)
    if (standing === undefined) return undefined
    await this.journal.append([{ kind: 'RunCancelled', payload: { actor: standing.by, reason: standing.reason } }])
    return standing.reason
  }

  /** A halt of somebody for whom the run acts pauses it; when that is lifted, and the run is resumed, it goes on. */
  private async withheld(): Promise<Status | undefined> {
    const { journal, tools } = this
    const halt = await pausing(tools.state, journal.subjects)
    const last = journal.last('AuthorityWithheld', 'AuthorityRestored')
    const known = last?.kind === 'AuthorityWithheld' ? (last.payload.subject as string) : undefined
    if (halt === undefined) {
      if (known !== undefined) await journal.append([{ kind: 'AuthorityRestored', payload: { subject: known } }])
      return undefined
    }
    const subject = halt.scope.slice('subject:'.length)
    if (known !== undefined && known !== subject) await journal.append([{ kind: 'AuthorityRestored', payload: { subject: known } }])
    const records: NewRecord[] = known === subject ? [] : [{ kind: 'AuthorityWithheld', payload: { subject, reason: halt.reason, by: halt.by } }]
    return this.conclude('withheld', `${halt.scope} is halted: ${halt.reason}`, undefined, records)
  }

  /** Which steps a ceiling refuses follows from the plan: they are asked for in its order. */
  private async admit(ready: readonly FrozenNode[]): Promise<{ admitted: FrozenNode[]; stop?: Stop }> {
    const { limits, now } = this.tools
    const admitted: FrozenNode[] = []
    for (const node of ready) {
      const step = this.numberOf(node.id)
      if (this.journal.steps.get(step) === undefined) {
        const last = this.journal.budgetOf(step)
        const refused = last?.kind === 'BudgetRefused' ? (last.payload.limit as string) : undefined
        const exceeded = stepExceeds(limits, this.journal, now())
        const records: NewRecord[] = []
        if (exceeded !== undefined && refused !== limitOf(exceeded))
          records.push({
            kind: 'BudgetRefused',
            step,
            payload: { limit: limitOf(exceeded), used: exceeded.limit === 'steps' ? String(this.journal.steps.size) : usedOf(exceeded) },
          })
        if (exceeded === undefined && refused !== undefined) records.push({ kind: 'BudgetReadmitted', step, payload: { limit: refused } })
        if (exceeded === undefined) records.push({ kind: 'StepStarted', step, payload: { skill: node.capability } })
        if (records.length > 0) await this.journal.keep(records)
        if (exceeded !== undefined) return { admitted, stop: { kind: 'exhausted', exhaustion: exceeded } }
      }
      admitted.push(node)
    }
    return { admitted }
  }

  private async runStep(node: FrozenNode): Promise<StepEnd> {
    const { journal, tools } = this
    const step = this.numberOf(node.id)
    const state = journal.steps.get(step)
    const skill = tools.skills.get(node.capability)
    if (skill === undefined) return { kind: 'quarantined', reason: `nothing here has the capability "${node.capability}"` }
    const end = await this.perform(node, 'forward', (context) => this.invoke(context, node, skill))
    const isKnown = state?.outcome === 'succeeded'
    if (isKnown && isStop(end) && end.kind === 'failed')
      return { kind: 'quarantined', reason: `step s${step} succeeded, and now fails: ${end.reason}`, diverged: true }
    if (tools.mode === 'live' && !isKnown) {
      const outcome = isStop(end) ? (end.kind === 'failed' ? 'failed' : undefined) : 'succeeded'
      const again = outcome === 'failed' && state?.outcome === 'failed' && state.finished > (journal.last('RunConcluded')?.seq ?? 0)
      if (outcome !== undefined && !again) await journal.keep([{ kind: 'StepFinished', step, payload: { outcome } }])
    }
    if (!isStop(end)) this.outputs.set(node.id, end.output)
    return end
  }

  private async invoke(context: OpenStep, node: FrozenNode, skill: Skill): Promise<Json> {
    const given = this.governed(context, skill)
    const look = async (input: Json) => {
      const output = await skill.invoke(given, checked(skill.input, input) as never)
      return JSON.parse(canonical(checked(skill.output, output, 'what it gave'))) as Json
    }
    const input = inputOf(node, this.input, this.outputs)
    const output = node.verifies ? await verified(node, input, look, (request) => context.task(request)) : await look(input)
    this.labels.set(node.id, context.label)
    return output
  }

  private governed(context: OpenStep, skill: Skill): StepContext {
    return this.tools.govern?.(context, skill, this.journal) ?? context
  }

  /** Of what a step is given. */
  private labelOf({ args }: FrozenNode): Label {
    const input = this.journal.last('RunAdmitted')?.payload.input_label as Label
    if (args === undefined) return input
    const read = Object.values(args).map((source) => (source.from === 'const' ? OWN : source.from === 'node' ? this.labels.get(source.node) : input))
    return joined(...read.filter((label) => label !== undefined))
  }

  /** Until it is done or stopped, and all that it began has its end. @param aborts until the groups that it has left open are undone. */
  private async perform(node: FrozenNode, phase: Phase, act: (context: OpenStep) => Promise<Json>, aborts = false): Promise<StepEnd> {
    const { journal, tools } = this
    const context = new OpenStep({ ...tools, journal }, this.numberOf(node.id), phase, this.labelOf(node), aborts)
    const attributes = { 'svc.step': node.id, 'svc.capability': node.capability, 'svc.phase': phase }
    const acted: Promise<StepEnd> = traced('step', () => act(context), { attributes }).then(
      (output) => ({ output }),
      (error: unknown) => ({ kind: 'failed', reason: error instanceof Error ? error.message : String(error) }),
    )
    // One branch of a step may fail while another still undoes its group.
    const end = await Promise.race([context.stopped, aborts ? acted.then((end) => context.settled().then(() => end)) : acted])
    await context.close()
    const { unasked } = context
    return unasked === undefined || isStop(end) ? end : { kind: 'quarantined', reason: unasked, diverged: true }
  }

  private async stopped(stop: Exclude<Stop, { kind: 'suspended' }>): Promise<Status> {
    if (stop.kind === 'broken') throw new BrokenPass(stop.error)
    if (stop.kind === 'left') return this.leave()
    if (stop.kind === 'quarantined') return this.conclude('quarantined', stop.reason)
    if (stop.kind === 'exhausted') return this.conclude('exhausted', 'a budget is used up', stop.exhaustion)
    return this.unwind('failed', stop.reason)
  }

  /** @param undoing nobody waits any more for what the steps themselves have waited for. @returns undefined when something has come meanwhile that the run waits for. */
  private async suspend(undoing = false): Promise<Status | undefined> {
    let waits = false
    const { run, plans } = this.journal
    // Of a step that is not in the plan any more: nobody goes on with it, and what has come for it would keep the run awake.
    const planned = new Set(plans.current.nodes.map(({ id }) => this.numberOf(id)))
    const isLeft = (key: string) => !planned.has(this.journal.attempt(key)?.started.step ?? 0)
    await this.journal.append(async (tx) => {
      await endWaits(tx, run, this.tools.now(), undoing ? this.isForward : isLeft)
      waits = !(await hasNews(tx, run, this.tools.now())) && ((await cancellationOf(tx, run)) === undefined || this.journal.last('RunCancelled') !== undefined)
      if (!waits) return []
      await setStatus(tx, run, 'suspended')
      giveSlotBack(tx, run)
      await touch(tx, run, this.tools.now())
      await releaseLease(tx, run, this.epoch)
      return []
    })
    return waits ? 'suspended' : undefined
  }

  /** @param before records that belong to it. */
  private async conclude(outcome: Conclusion, why?: string, exhaustion?: BudgetExceeded, before: readonly NewRecord[] = []): Promise<Status> {
    const { run } = this.journal
    const reason = why === undefined ? undefined : shortened(why, MAX_REASON)
    let told: string[] = []
    let stop = false
    await this.journal.append(async (tx) => {
      stop = STOPPABLE.has(outcome) && this.journal.last('RunCancelled') === undefined && (await cancellationOf(tx, run)) !== undefined
      if (stop) return []
      // A run that may go on still waits for what it waited for.
      if (FINAL.has(outcome)) await endWaits(tx, run, this.tools.now())
      else if (this.journal.hasCompensated) await endWaits(tx, run, this.tools.now(), this.isForward)
      if (FINAL.has(outcome) || this.journal.hasCompensated) await withdrawTasks(tx, run)
      await setStatus(tx, run, outcome)
      if (FINAL.has(outcome)) awaitSealing(tx, run)
      if (outcome === 'failed' && this.hasStandingWork()) markLanded(tx, run)
      giveSlotBack(tx, run)
      await touch(tx, run, this.tools.now())
      const output = outcome === 'succeeded' ? { output: this.output ?? null } : {}
      told = await tellParent(tx, run, { status: outcome, ...output, ...(reason === undefined ? {} : { reason }) })
      await releaseLease(tx, run, this.epoch)
      const rest = FINAL.has(outcome) ? await settleAll(tx, run) : NOTHING
      const { tokens, minor_units } = sum(this.journal.used, rest)
      return [
        ...before,
        {
          kind: 'RunConcluded',
          payload: {
            outcome,
            ...(reason === undefined ? {} : { reason }),
            ...(exhaustion === undefined ? {} : { exhaustion }),
            ...(tokens > 0 || minor_units > 0 ? { live_spend: { tokens, minor_units } } : {}),
            chain_head: '',
          },
        },
      ]
    })
    if (stop) return this.unwind('cancelled', (await this.boundary()) as string)
    for (const one of told) this.tools.resumed?.(one)
    return outcome
  }

  /** Whether a wait is of what the steps themselves do, and not of undoing it. */
  private readonly isForward = (key: string): boolean => !this.journal.isOfUnwinding(key)

  /** Whether steps have changed something that was not undone. */
  private hasStandingWork(): boolean {
    return [...this.journal.steps].some(([step, { compensated }]) => !compensated && this.journal.hasLanded(step))
  }

  /** Undoes what was done, the newest first. What it has commissioned and goes on is stopped, and is waited for with its step. */
  private async unwind(outcome: 'cancelled' | 'failed', reason: string): Promise<Status> {
    const { journal } = this
    await settleCommissions(journal)
    if (outcome === 'cancelled') await this.recall(outcome, reason)
    const open = this.withOpenGroups()
    const isUndone = open.length > 0 || this.toUndo().length > 0
    // What undoing has begun is settled by itself, when that goes on.
    if (journal.undecided().some(({ effect }) => !journal.isOfUnwinding(effect)) && (outcome === 'cancelled' || isUndone))
      return this.conclude('quarantined', `${reason}; of an effect it is not known whether it has happened`)
    if (outcome === 'failed') {
      await this.recall(outcome, reason)
      // Undoing may take more than one pass: why it is done is said at its end.
      const undoes = open.length > 0 && !journal.hasCompensated
      if (undoes || (isUndone && journal.unwindsFor === undefined))
        await journal.keep([{ kind: 'Note', ...(undoes ? { phase: 'compensating' } : {}), payload: { text: shortened(reason, MAX_REASON) } }])
    }
    for (const { number, node, skill } of open) {
      const status = await this.abort(number, node, skill, outcome, reason)
      if (status !== undefined) return status
    }
    for (const { number, node, skill } of this.toUndo()) {
      const end = await this.perform(node, 'compensating', async (context) => {
        await awaitEnds(context, journal.unended(number))
        const undo = this.isStanding(number) ? skill?.compensate : undefined
        if (undo !== undefined)
          await undo(
            this.governed(context, skill as Skill),
            checked(skill?.input as object, inputOf(node, this.input, this.outputs)) as never,
            this.outputs.get(node.id) as never,
          )
        return null
      })
      if (isStop(end)) {
        if (end.kind === 'broken' || end.kind === 'left') return this.stopped(end)
        if (end.kind === 'suspended') return (await this.suspend(true)) ?? this.unwindOn(outcome, reason)
        if (end.kind === 'exhausted') return this.conclude('exhausted', 'a budget is used up', end.exhaustion)
        return this.conclude('quarantined', `${reason}; step s${number} could not be undone: ${whyOf(end)}`)
      }
      if ((skill === undefined || skill.compensation === 'undeclared') && journal.hasLanded(number))
        return this.conclude('quarantined', `${reason}; step s${number} has changed something, and nothing says how to undo it`)
      if (journal.steps.get(number)?.compensated !== true)
        await journal.keep([{ kind: 'StepCompensated', step: number, phase: 'compensating', payload: { compensation: node.capability, outcome: 'succeeded' } }])
    }
    return this.conclude(outcome, reason)
  }

  /** Undoes the groups that a step has left open: its code goes as far as the journal does, and what it asks for then throws. @returns a status that ends the pass. */
  private async abort(
    number: number,
    node: FrozenNode,
    skill: Skill | undefined,
    outcome: 'cancelled' | 'failed',
    reason: string,
  ): Promise<Status | undefined> {
    const refuse = (why: string) => this.conclude('quarantined', `${reason}; a group of step s${number} could not be undone: ${why}`)
    if (skill === undefined) return refuse(`nothing here has the capability "${node.capability}"`)
    const end = await this.perform(node, 'forward', (context) => this.invoke(context, node, skill), true)
    if (isStop(end) && (end.kind === 'broken' || end.kind === 'left')) return this.stopped(end)
    if (isStop(end) && end.kind === 'quarantined') return this.conclude('quarantined', `${reason}; ${end.reason}`)
    if (isStop(end) && end.kind === 'exhausted') return this.conclude('exhausted', 'a budget is used up', end.exhaustion)
    if (!this.journal.hasOpenGroup(number, 'forward')) return undefined
    if (!isStop(end) || end.kind !== 'suspended') return refuse('its code has ended before')
    return (await this.suspend(true)) ?? this.unwindOn(outcome, reason)
  }

  /** Steps that were stopped inside a group, newest first. */
  private withOpenGroups(): { number: number; node: FrozenNode; skill: Skill | undefined }[] {
    const { journal, tools } = this
    return [...journal.steps]
      .filter(([number, { outcome }]) => outcome !== 'succeeded' && journal.hasOpenGroup(number, 'forward'))
      .reverse()
      .map(([number, { skill }]) => ({ number, node: journal.plans.nodeOf(number) as FrozenNode, skill: tools.skills.get(skill) }))
  }

  /** Something has come while it was undone, which may be a stop. */
  private async unwindOn(outcome: 'cancelled' | 'failed', reason: string): Promise<Status> {
    const stopped = await this.boundary()
    return stopped === undefined ? this.unwind(outcome, reason) : this.unwind('cancelled', stopped)
  }

  private async recall(outcome: 'cancelled' | 'failed', reason: string): Promise<void> {
    for (const run of await recall(this.journal, outcome, reason)) this.tools.resumed?.(run)
  }

  /** Whether there is something of a step to undo. */
  private isStanding(number: number): boolean {
    return this.journal.steps.get(number)?.outcome === 'succeeded' || this.journal.hasLanded(number)
  }

  /** Steps that are done, and those that were stopped after they had changed something, newest first, up to a point of no return. */
  private toUndo(): { number: number; node: FrozenNode; skill: Skill | undefined }[] {
    const { journal, tools } = this
    const began = new Map(journal.records.filter(({ kind }) => kind === 'StepStarted').map(({ step, seq }) => [step, seq]))
    const newest = [...journal.steps].sort(([a, one], [b, other]) => Math.max(other.finished, began.get(b) ?? 0) - Math.max(one.finished, began.get(a) ?? 0))
    const found: { number: number; node: FrozenNode; skill: Skill | undefined }[] = []
    for (const [number, state] of newest) {
      const hasUnended = journal.unended(number).length > 0
      if (!this.isStanding(number) && !hasUnended) continue
      const skill = tools.skills.get(state.skill)
      if (skill?.compensation === 'pivot') break
      const isUndone = skill?.compensation === 'compensatable' || (skill?.compensation !== 'unnecessary' && journal.hasLanded(number))
      if (isUndone || hasUnended) found.push({ number, node: journal.plans.nodeOf(number) as FrozenNode, skill })
    }
    return found
  }
}

function isStop(end: StepEnd): end is Stop {
  return 'kind' in end
}

function whyOf(stop: Stop): string {
  return 'reason' in stop ? stop.reason : `it is ${stop.kind}, and was not before`
}

/** @throws Error naming what is wrong. */
export function checked(schema: object, value: unknown, what = 'its input'): Json {
  const { value: read, problems } = new SchemaReader(schema).read(structuredClone(value))
  if (problems.length > 0) throw new Error(`${what} is not as its skill says: ${problems[0].instancePath || 'it'} ${problems[0].message}`)
  return read as Json
}
