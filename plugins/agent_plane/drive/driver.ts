/**
 * Admits runs, drives them and does to them what operators say: all that changes a run, with clock, chance, store and skills as it is given them. What is done
 * to one run is one transaction, or a pass under a lease.
 */
import type { PolicyBundle, StateTransaction, Tracing } from 'svcdb'
import type {
  AgentPlane,
  Calendar,
  CaseChoice,
  HaltLiftView,
  HaltRow,
  Json,
  Label,
  Operator,
  PlanePolicy,
  PlanNode,
  PushConfig,
  ReplayReport,
  RunRequest,
  RunStanding,
  Skill,
  SuspendReason,
} from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { attachRun, checkCase, knownCase, openCase, openCaseOf } from '../cases/case-store.ts'
import { haltOf, isScope, place as placeHalt, remove as removeHalt } from '../halts/store.ts'
import { awaitSealing, sealRuns, unsealed } from '../log/log.ts'
import { sentence } from '../operate/run-view.ts'
import { type Governing, governingOf } from '../plan/governing.ts'
import { type FrozenPlan, freeze } from '../plan/plan.ts'
import { checkPush } from '../push/config.ts'
import { register, touch } from '../push/store.ts'
import { actingFor, actingOfRequest, checkChain, checkTime, governedBy, permitAdmission, sameAsked } from '../quota/admission.ts'
import { type Budgets, least, recordedExhaustion } from '../quota/budgets.ts'
import { checkAdmission } from '../quota/gate.ts'
import { periodOf } from '../quota/period.ts'
import { handBack, hasSlot, keepActing, type QuotaLimits, reservationOf, settle, settleAll, sum, takeSlot, UNBOUNDED, whole } from '../quota/store.ts'
import { canonical } from '../record/canonical.ts'
import { isRunId, newCaseId, newRunId } from '../record/names.ts'
import { BrokenChain, CANON, type NewRecord } from '../record/record.ts'
import { checkReason, requireWhole } from '../record/text.ts'
import { type Parent, setParent, tellParent } from '../store/children.ts'
import { type Delivery, endWaits, ordered, retireAll } from '../store/events.ts'
import { append, headOf } from '../store/journal.ts'
import { isDriven, type LeaseWatch, leaseOf, releaseLease, takeLease } from '../store/leases.ts'
import { cancellationOf, claimKey, FINAL, requestCancel, runOfKey, type Status, setStatus, statusOf } from '../store/runs.ts'
import { type SweptEntry, writeSealedRun } from '../store/sealed-run.ts'
import { withdrawTasks } from '../tasks/store.ts'
import { spendOf } from './attempt.ts'
import { checkedEvent, deliver, type EventRules } from './delivery.ts'
import { dueRuns } from './due.ts'
import { HeldLease, type LeaseTools } from './held-lease.ts'
import { BrokenPass, checked, type Govern, Pass } from './pass.ts'
import { RunJournal } from './run-journal.ts'
import { sweep } from './sweep.ts'

const MAX_INPUT_BYTES = 1 << 19
const MAX_KEY_BYTES = 512
const MAX_ACTOR = 256
const SCOPES = 'a scope is tenant, agent:<name>, revision:<digest> or subject:<principal>'

export interface DriverTools extends EventRules, LeaseTools {
  /** Makes a trace of each pass; without it there is none. */
  operation?: Tracing['operation']
  skills: ReadonlyMap<string, Skill>
  /** By name. */
  calendars: ReadonlyMap<string, Calendar>
  /** false: what is to go on is left for a process that drives. */
  drives?: boolean
  /** Tells this process from others. */
  holder: string
  /** Where other processes share the state. */
  watch?: LeaseWatch
  limits: Budgets
  /** Of the tenant; absent = no bounds. */
  quota?: QuotaLimits
  /** Asked whether a run may be admitted, and an effect performed; absent = all may. */
  policy?: PlanePolicy | undefined
  /** What answers by it: a run goes on under the one that it was admitted under. */
  policyBundle?: PolicyBundle
  /** What a skill gets in place of the bare context. */
  govern?: Govern
  /** Says whether there may be a receiver at a URL; absent = nothing here sends. @throws SvcError BAD_REQUEST. */
  checkReceiver?(url: string): Promise<void>
  /** Told of every run. */
  destinations?: readonly PushConfig[]
  /** Registrations of a run, beside them. */
  maxPushes?: number
  governing?: Governing
  /** What its manifest allows; the least of it and of `limits` holds. */
  limitsOf?(capability: string): Partial<DriverTools['limits']>
  /** A run goes on, as one is over that it has commissioned, or as the one is undone that has commissioned it. */
  resumed?(run: string): void
  /** The process is to end: passes begin no effect any more. */
  stopping?(): boolean
  random(): number
  sleep(ms: number): Promise<void>
  /** Resolves when the code that is running has nothing more to do at once. */
  soon(): Promise<void>
  /** Calls again and again until the function it returns is called. */
  every(ms: number, act: () => void): () => void
  /** @param ms that the attempt took, with both its records. */
  performed(result: 'done' | 'failed' | 'in_doubt', ms: number): void
}

export interface Admitted {
  run: string
  existing: boolean
  /** Of the lease with which it was admitted. */
  epoch?: number
}

export class Driver {
  private readonly tools: DriverTools & { quota: QuotaLimits }

  constructor(tools: DriverTools) {
    this.tools = { quota: UNBOUNDED, ...tools }
  }

  /** @param parent the run that commissions it. @throws SvcError BAD_REQUEST: there is no trace of it; Fenced. */
  async admit(given: RunRequest, parent?: Parent): Promise<Admitted> {
    return this.tools.state.transaction(await this.prepared(given, parent))
  }

  /** @returns what admits it, in a transaction. */
  private async prepared(given: RunRequest, parent?: Parent): Promise<(tx: StateTransaction) => Promise<Admitted>> {
    const { plan, label, input } = this.admissible(given)
    const agent = governedBy(governingOf(plan.nodes, this.tools.governing), given.agent, label)
    const request = agent === undefined ? given : { ...given, agent }
    const { idempotencyKey, actor, case: asked } = request
    const { now, holder, leaseMs, maxPushes } = this.tools
    const run = this.newRun()
    const acting = actingOfRequest(request)
    for (const config of request.push ?? []) await this.checkPush(config)
    await permitAdmission(this.tools.policy, label, acting, plan)
    const records: NewRecord[] = [
      {
        kind: 'RunAdmitted',
        payload: {
          capability: label,
          input,
          input_label: request.label ?? ({ provenance: [`actor:${actor}`], trust: 'untrusted', sensitivity: 'internal' } satisfies Label),
          canon: CANON,
          ...(request.agent === undefined ? {} : { governed_by: request.agent }),
          ...(this.tools.policyBundle === undefined ? {} : { policy_bundle: this.tools.policyBundle }),
          admitted_by: actor,
          ...(idempotencyKey === undefined ? {} : { idempotency_key: idempotencyKey }),
        },
      },
      { kind: 'PlanFrozen', payload: { steps: plan.nodes.map(({ id }) => id), plan } },
      ...(request.chain === undefined ? [] : [{ kind: 'IdentityBound', payload: { chain: request.chain } }]),
    ]
    return async (tx) => {
      const known = idempotencyKey === undefined ? undefined : await runOfKey(tx, idempotencyKey)
      if (known !== undefined) return { run: await sameAsked(tx, known, label, input), existing: true }
      checkTime(request, now())
      await checkAdmission(tx, acting, this.tools.quota, now(), parent?.run)
      takeSlot(tx, run, now())
      keepActing(tx, run, acting)
      for (const config of [...(request.push ?? []), ...(this.tools.destinations ?? [])]) await register(tx, run, config, now(), maxPushes)
      const epoch = (await takeLease(tx, run, holder, now(), leaseMs)) as number
      const matter = asked === undefined ? undefined : await this.bind(tx, asked, run)
      await append(tx, run, epoch, await headOf(tx, run), [...records, ...(matter?.records ?? [])], matter?.id)
      if (idempotencyKey !== undefined) claimKey(tx, idempotencyKey, run)
      if (parent !== undefined) await setParent(tx, run, parent)
      await setStatus(tx, run, 'running')
      return { run, existing: false, epoch }
    }
  }

  /** Finds or opens the case, and has the run in it. @throws SvcError NOT_FOUND, CONFLICT when it is closed. */
  private async bind(tx: StateTransaction, asked: CaseChoice, run: string): Promise<{ id: string; records: NewRecord[] }> {
    const { now, random } = this.tools
    const found = 'id' in asked ? asked.id : await openCaseOf(tx, asked.correlation)
    const row =
      'id' in asked || found !== undefined
        ? await knownCase(tx, found as string)
        : openCase(tx, newCaseId(now(), random), asked.kind, ordered(asked.correlation), now())
    if (row.status === 'closed') throw new SvcError('CONFLICT', `cannot begin a run in case "${row.id}": it is closed`)
    attachRun(tx, row.id, run)
    const payload = { case_kind: row.kind, opened: found === undefined, correlation: row.correlation }
    return { id: row.id, records: [{ kind: 'CaseBound', payload }] }
  }

  private admissible(request: RunRequest): { plan: FrozenPlan; label: string; input: Json } {
    const { capability, plan: nodes, topology, input, actor, idempotencyKey = '-', case: matter } = request
    const refuse = (why: string) => new SvcError('BAD_REQUEST', `cannot begin a run: ${why}`)
    if (actor.trim() === '' || actor.length > MAX_ACTOR) throw refuse(`the actor has 1 to ${MAX_ACTOR} characters`)
    if (idempotencyKey === '' || Buffer.byteLength(idempotencyKey) > MAX_KEY_BYTES) throw refuse(`an idempotency key has 1 to ${MAX_KEY_BYTES} bytes`)
    for (const [what, text] of Object.entries({ actor, capability: capability ?? '', 'idempotency key': idempotencyKey })) requireWhole(text, what)
    if (matter !== undefined && !('id' in matter)) checkCase(matter.kind, matter.correlation)
    if ((capability === undefined) === (nodes === undefined)) throw refuse('name a capability or a plan, and not both')
    const single: PlanNode[] = [{ id: 'only', capability: capability ?? '', terminal: true }]
    let text: string
    try {
      text = canonical(input)
    } catch (error) {
      throw refuse((error as Error).message)
    }
    if (Buffer.byteLength(text) > MAX_INPUT_BYTES) throw refuse(`its input has more than ${MAX_INPUT_BYTES} bytes`)
    const plan = freeze(nodes ?? single, topology)
    checkChain(request, plan)
    for (const node of plan.nodes) {
      const skill = this.tools.skills.get(node.capability)
      if (skill === undefined) {
        const hint = 'name the file of an agent that has it in agent_plane.agents, or select the plugin that brings it'
        throw refuse(`nothing here has the capability ${JSON.stringify(node.capability)}; ${hint}`)
      }
      if (node.args !== undefined) continue
      try {
        checked(skill.input, input)
      } catch (error) {
        throw refuse((error as Error).message)
      }
    }
    const label = capability ?? plan.nodes.find(({ terminal }) => terminal)?.capability ?? ''
    return { plan, label, input: JSON.parse(text) as Json }
  }

  /**
   * A pass over a run. @param epoch of a lease that this process has for it. @returns the status that it got to: `running` where another process drives it.
   * @throws SvcError NOT_FOUND, CONFLICT, and BrokenPass.
   */
  async drive(run: string, epoch?: number): Promise<Status> {
    const taken = epoch ?? (await this.take(run))
    if (typeof taken === 'string') return taken
    return this.under(run, taken)
  }

  private async under(run: string, epoch: number): Promise<Status> {
    const { state } = this.tools
    const lease = await HeldLease.of(run, epoch, this.tools).catch((error: unknown) => Promise.reject(new BrokenPass(error)))
    const end = this.tools.every(this.tools.leaseMs / 3, () => void lease.renew().catch(() => {}))
    try {
      const journal = await RunJournal.own(run, { state, epoch, soon: this.tools.soon })
      const pass = () => new Pass(journal, epoch, { ...this.tools, limits: this.limitsOf(journal), held: () => lease.required(), mode: 'live' }).live()
      return await (this.tools.operation === undefined ? pass() : this.tools.operation('agent run', pass, { attributes: { 'svc.run': run } }))
    } catch (error) {
      if (error instanceof BrokenChain) return await this.setAside(run, epoch)
      throw error instanceof BrokenPass ? error : new BrokenPass(error)
    } finally {
      end()
    }
  }

  private limitsOf(journal: RunJournal): DriverTools['limits'] {
    const { limits, limitsOf, governing } = this.tools
    const governed = journal.plans.all.find(({ capability }) => governing?.(capability) !== undefined)?.capability
    return least(limits, limitsOf?.(governed ?? (journal.last('RunAdmitted')?.payload.capability as string)) ?? {})
  }

  /** A journal that cannot be read is not written to either. */
  private async setAside(run: string, epoch: number): Promise<Status> {
    await this.tools.state.transaction(async (tx) => {
      await setStatus(tx, run, 'quarantined')
      await handBack(tx, run, epoch)
    })
    return 'quarantined'
  }

  private async take(run: string): Promise<number | Status> {
    const { state, holder, leaseMs, now, watch } = this.tools
    return state.transaction(async (tx): Promise<number | Status> => {
      const status = await this.known(tx, run)
      if (FINAL.has(status)) return status
      if (status === 'quarantined')
        throw new SvcError('CONFLICT', `cannot go on with "${run}": it is quarantined; reconcile what is in doubt, then reopen or abandon it`)
      const at = now()
      if (isDriven(run, await leaseOf(tx, run), { now: at, leaseMs, watch })) return 'running'
      const epoch = (await takeLease(tx, run, holder, at, leaseMs)) as number
      // What a process that has died has left behind still has its slot.
      if (!(await hasSlot(tx, run))) await append(tx, run, epoch, await headOf(tx, run), [this.passStarted()])
      takeSlot(tx, run, now())
      await setStatus(tx, run, 'running')
      return epoch
    })
  }

  /** That a run takes a slot again which it had given back, until this pass ends. */
  private passStarted(): NewRecord {
    const { quota, now } = this.tools
    return { kind: 'QuotaPassStarted', payload: { period: periodOf(now(), quota.period), release_slot: true } }
  }

  private async known(tx: Pick<StateTransaction, 'get' | 'list'>, run: string): Promise<Status> {
    const status = isRunId(run) ? await statusOf(tx, run) : undefined
    if (status === undefined)
      throw new SvcError('NOT_FOUND', `cannot find run ${JSON.stringify(run.slice(0, 64))}: there is none; check the id, and whose tenant it is`)
    return status
  }

  /** As `drive`, and refuses what must not go forward. */
  async resume(run: string): Promise<Status> {
    const { state } = this.tools
    if ((await this.known(state, run)) === 'failed' && (await cancellationOf(state, run)) === undefined && (await RunJournal.read(state, run)).hasCompensated)
      throw new SvcError('CONFLICT', `cannot go on with "${run}": some of it was undone; begin another run`)
    return this.drive(run)
  }

  /** @param epoch of a lease that nobody here uses: the run is left to whoever looks for runs that are due. */
  handBack(run: string, epoch: number): Promise<void> {
    return this.tools.state.transaction((tx) => handBack(tx, run, epoch))
  }

  status(run: string): Promise<Status> {
    return this.known(this.tools.state, run)
  }

  async standing(run: string): Promise<RunStanding> {
    const { state } = this.tools
    const status = await this.known(state, run)
    const cancellation = await cancellationOf(state, run)
    let journal: RunJournal
    try {
      journal = await RunJournal.read(state, run)
    } catch (error) {
      if (!(error instanceof BrokenChain)) throw error
      return { run, status, concluded: FINAL.has(status), records: (await headOf(state, run)).seq, undecided: [], reason: error.message }
    }
    const lifecycle = journal.last('RunAdmitted', 'RunSuspended', 'RunConcluded', 'QuarantineDecided')
    const isWaiting = status === 'suspended' && lifecycle?.kind === 'RunSuspended'
    return {
      run,
      status,
      concluded: FINAL.has(status),
      records: journal.records.length,
      undecided: journal.undecided(),
      ...(isWaiting ? { waiting_for: sentence(lifecycle.payload.reason as SuspendReason) } : {}),
      ...(lifecycle?.kind === 'RunConcluded' && lifecycle.payload.reason !== undefined ? { reason: lifecycle.payload.reason as string } : {}),
      ...(cancellation === undefined ? {} : { cancellation_requested_by: cancellation.by }),
    }
  }

  async replay(run: string): Promise<ReplayReport> {
    const status = await this.known(this.tools.state, run)
    const journal = await RunJournal.read(this.tools.state, run)
    if (journal.last('RunAdmitted') === undefined) return { status, divergences: [] }
    const pass = new Pass(journal, 0, { ...this.tools, mode: 'strict', limits: { maxSteps: 0, maxEffects: 0 } })
    await pass.replay()
    const exhaustion = status === 'exhausted' ? recordedExhaustion(journal) : undefined
    return {
      status,
      divergences: pass.divergences,
      ...(exhaustion === undefined ? {} : { exhaustion }),
      ...(status === 'succeeded' && pass.divergences.length === 0 ? { output: pass.output as Json } : {}),
    }
  }

  /** @returns also the runs that it begins. */
  async deliver(...[given, by]: Parameters<AgentPlane['deliver']>): Promise<Delivery & { begun: Admitted[] }> {
    const event = checkedEvent(given, MAX_INPUT_BYTES, this.tools.maxEventKeys)
    return deliver(event, { ...this.tools, prepared: (request) => this.prepared(actingFor(request, by)) })
  }

  async cancel(run: string, by: Operator, reason: string): Promise<{ requested_by: string; recorded: boolean }> {
    checkReason(reason)
    return this.tools.state.transaction(async (tx) => {
      const status = await this.known(tx, run)
      if (FINAL.has(status)) throw new SvcError('CONFLICT', `cannot cancel "${run}": it is ${status}`)
      if (status === 'quarantined') throw new SvcError('CONFLICT', `cannot cancel "${run}": it is quarantined; reopen or abandon it`)
      const { cancellation, recorded } = await requestCancel(tx, run, { by, reason })
      await setStatus(tx, run, 'running')
      return { requested_by: cancellation.by.actor, recorded }
    })
  }

  /** @returns the status that one pass got to. */
  async decide(run: string, decision: 'reopen' | 'abandon', by: Operator, reason: string): Promise<Status> {
    checkReason(reason)
    const { state, holder, leaseMs, now, drives = true } = this.tools
    let told: string[] = []
    const epoch = await state.transaction(async (tx) => {
      const status = await this.known(tx, run)
      if (status !== 'quarantined') throw new SvcError('CONFLICT', `cannot ${decision} "${run}": it is ${status}, and not quarantined`)
      const taken = (await takeLease(tx, run, holder, now(), leaseMs)) as number
      const records: NewRecord[] = [{ kind: 'QuarantineDecided', payload: { decider: by, reason, decision } }]
      if (decision === 'reopen') {
        if (drives) takeSlot(tx, run, now())
        if (drives) records.push(this.passStarted())
      } else {
        const rest = await settleAll(tx, run)
        const { tokens, minor_units } = sum(await RunJournal.spentBy(tx, run), rest)
        const cost = tokens > 0 || minor_units > 0 ? { live_spend: { tokens, minor_units } } : {}
        records.push({ kind: 'RunConcluded', payload: { outcome: 'abandoned', reason, ...cost, chain_head: '' } })
        await touch(tx, run, now())
      }
      await append(tx, run, taken, await headOf(tx, run), records)
      await setStatus(tx, run, decision === 'abandon' ? 'abandoned' : 'running')
      if (decision === 'abandon') {
        awaitSealing(tx, run)
        told = await tellParent(tx, run, { status: 'abandoned', reason })
        await endWaits(tx, run, now())
        await withdrawTasks(tx, run)
      }
      if (decision === 'abandon' || !drives) await releaseLease(tx, run, taken)
      return taken
    })
    for (const one of told) this.tools.resumed?.(one)
    if (decision === 'abandon') return 'abandoned'
    return drives ? this.under(run, epoch) : 'running'
  }

  async reconcile(run: string, effect: string, said: Parameters<AgentPlane['reconcile']>[2], by: Operator): Promise<void> {
    const { disposition, output, note } = said
    if ((disposition === 'landed') !== (output !== undefined))
      throw new SvcError('BAD_REQUEST', `cannot reconcile effect "${effect}": an output goes with "landed", and only with it`)
    requireWhole(note, 'note')
    const { state, holder, leaseMs, now } = this.tools
    await state.transaction(async (tx) => {
      const status = await this.known(tx, run)
      if (status !== 'quarantined') throw new SvcError('CONFLICT', `cannot reconcile an effect of "${run}": it is ${status}, and not quarantined`)
      const head = await headOf(tx, run)
      const journal = await RunJournal.read(tx, run)
      const doubt = journal.undecided().find((one) => one.effect === effect)
      if (doubt === undefined) throw new SvcError('CONFLICT', `cannot reconcile effect "${effect}": ${journal.standingOf(effect)}`)
      const epoch = (await takeLease(tx, run, holder, now(), leaseMs)) as number
      const told = disposition === 'landed' ? { output, declared: { trust: 'untrusted', sensitivity: 'internal' } } : {}
      const reserved = await reservationOf(tx, run, effect)
      const spend = whole(disposition === 'landed' ? reserved : undefined)
      if (reserved !== undefined) await settle(tx, run, effect, reserved.period, spend)
      const place = { step: doubt.step, ...(doubt.phase === 'forward' ? {} : { phase: doubt.phase }), effectKey: effect }
      await append(tx, run, epoch, head, [{ ...place, kind: 'EffectReconciled', payload: { disposition, note, asserted_by: by, ...told, ...spendOf(spend) } }])
      await releaseLease(tx, run, epoch)
    })
  }

  private async checkPush(config: PushConfig): Promise<void> {
    checkPush(config)
    if (this.tools.checkReceiver === undefined) throw new SvcError('BAD_REQUEST', 'cannot register a push: nothing here sends; select the plugin webhooks')
    await this.tools.checkReceiver(config.url)
  }

  /** Has somebody told what becomes of a run, from its beginning on. @throws SvcError BAD_REQUEST, NOT_FOUND. */
  async registerPush(run: string, config: PushConfig): Promise<void> {
    await this.checkPush(config)
    await this.tools.state.transaction(async (tx) => {
      await this.known(tx, run)
      await register(tx, run, config, this.tools.now(), this.tools.maxPushes)
    })
  }

  /** Stops all that a scope covers. @throws SvcError BAD_REQUEST for a scope that is none. */
  async halt(scope: string, reason: string, by: Operator): Promise<HaltRow> {
    if (!isScope(scope)) throw new SvcError('BAD_REQUEST', `cannot halt ${JSON.stringify(scope.slice(0, 300))}: ${SCOPES}`)
    checkReason(reason)
    return this.tools.state.transaction((tx) => placeHalt(tx, scope, reason, by, this.seconds()))
  }

  /** @returns what was lifted, with the run that says so; undefined = nothing stood. */
  async lift(scope: string, by: Operator): Promise<HaltLiftView | undefined> {
    if (!isScope(scope)) throw new SvcError('BAD_REQUEST', `cannot lift a halt of ${JSON.stringify(scope.slice(0, 300))}: ${SCOPES}`)
    const { state, now, random } = this.tools
    const record = newRunId(now(), random)
    return state.transaction(async (tx) => {
      const halt = await haltOf(tx, scope)
      if (halt === undefined) return undefined
      const { reason, by: thrown_by, basis: thrown_basis, thrown_at } = halt
      const lifted: HaltLiftView = { scope, by: by.actor, basis: by.basis, lifted_at: this.seconds(), reason, thrown_by, thrown_basis, thrown_at, record }
      const said = { scope, by, at: this.seconds(), reason, thrown_by: { actor: thrown_by, basis: thrown_basis }, thrown_at }
      await writeSealedRun(tx, record, 'halt-lifted', [{ kind: 'HaltLifted', payload: said }], now())
      removeHalt(tx, scope, lifted)
      return lifted
    })
  }

  private seconds(): number {
    return Math.floor(this.tools.now() / 1000)
  }

  /** Runs that nobody drives and that should go on. @param isTaken those that this process has taken up already. */
  due(limit: number, isTaken?: (run: string) => boolean): Promise<string[]> {
    const { state, now, leaseMs } = this.tools
    return dueRuns(state, (run, lease) => isDriven(run, lease, { now: now(), leaseMs, watch: this.tools.watch }), now(), limit, isTaken)
  }

  /** An id for a run that is about to be. */
  newRun(): string {
    return newRunId(this.tools.now(), this.tools.random)
  }

  /** What time has brought about beside waits. @param due runs that are about to be taken up. */
  sweep(due: readonly string[]): Promise<SweptEntry[]> {
    const { state, now, leaseMs } = this.tools
    const run = this.newRun()
    return state.transaction((tx) => sweep(tx, { run, now: now(), leaseMs, due }))
  }

  /** Enters runs that are concluded for good into the transparency log. @returns how many. */
  async seal(limit: number): Promise<number> {
    const { state } = this.tools
    const runs = await unsealed(state, limit)
    return runs.length === 0 ? 0 : state.transaction((tx) => sealRuns(tx, runs))
  }

  /** Events for which nobody has waited become dead letters. @returns how many. */
  retire(graceMs: number, limit: number): Promise<number> {
    return retireAll(this.tools.state, this.tools.now() - graceMs, limit)
  }
}
