/**
 * What a step asks of the plane, answered from the journal as far as that goes, and then done. Whatever stops a step leaves its code waiting for ever: no
 * `catch` of its own can take a stop for an answer.
 */
import type { StateTransaction } from 'svcdb'
import type {
  AgentEvent,
  BudgetExceeded,
  EffectCall,
  EffectDescription,
  EventWait,
  Json,
  Label,
  Sink,
  Spend,
  StepContext,
  TaskDecision,
  TaskRequest,
} from 'svcdb/agents'
import { EffectError, OWN, TASK_DECIDED, taskKey } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { Meter, type MeterTools, type Release } from '../quota/meter.ts'
import { NOTHING } from '../quota/store.ts'
import { canonical } from '../record/canonical.ts'
import type { JournalRecord, NewRecord } from '../record/record.ts'
import { beginWait, endWait, ordered } from '../store/events.ts'
import { type Wait, waitOf } from '../store/waits.ts'
import { checkedRequest, taskIdOf } from '../tasks/request.ts'
import { openTask } from '../tasks/store.ts'
import { arrivedAt } from './arrivals.ts'
import { AskingOrder } from './asking-order.ts'
import { addTo, DECLARED, delayOf, type MeteredCall, outcomeOf } from './attempt.ts'
import { permanently } from './case-context.ts'
import type { StoreEffect } from './case-effects.ts'
import { isUndoing } from './groups.ts'
import type { KeptTools } from './kept-context.ts'
import { ABORTED, MarkedStep } from './marked-context.ts'
import { type Attempt, AWAIT_EVENT, OPEN_TASK, type Phase, SLEEP, TASK } from './run-journal.ts'
import { type Asked, askedOf, askedOfSink, checkContent, checkEffect, checkWait, descriptorOf, plain, provenanceOf } from './step-records.ts'
import { stopOf } from './stop.ts'
import { openingOf } from './task-opening.ts'

/** Attempts of which nobody knows the end, because the process died: after so many a person has to look. */
const MAX_INTERRUPTIONS = 10
const MAX_RETRY_AFTER_MS = 60_000
/** A task ends by what it says itself, so the wait for it has no end of its own: 9999-12-31T23:59:59Z. */
const FOREVER = 253_402_300_799_000
const TASK_NAMESPACE = taskKey('').namespace
const INTERRUPTED = 'the process ended before it was known'

export interface StepTools extends KeptTools, MeterTools {
  /** Strict = nothing is done and nothing written. */
  mode: 'live' | 'strict'
  /** Of a live one: resolves when this process surely drives the run. @throws Fenced. */
  held?(): Promise<void> | undefined
  random(): number
  sleep(ms: number): Promise<void>
  /** The process is to end: nothing outside is begun any more. */
  stopping?(): boolean
  /** Told how each attempt ended. @param ms that it took, with both its records. */
  performed(result: 'done' | 'failed' | 'in_doubt', ms: number): void
}

/** How often an effect has failed before, in the process or in an earlier one. */
interface Tries {
  failures: number
  /** Attempts that a process has not survived. */
  interruptions: number
  backoffMs: number
}

interface Failure {
  error: string
  disposition: 'did_not_happen' | 'in_doubt' | 'landed'
  permanent?: boolean
}

interface Waited {
  asked: Asked
  /** Gives undefined where there is no such instant: then it fails. */
  until(tx: StateTransaction): number | undefined | Promise<number | undefined>
  event?: Wait['event']
  any?: boolean
}

export class OpenStep extends MarkedStep implements StepContext {
  private readonly meter: Meter
  protected readonly tools: StepTools
  private ordinal = 0
  private readonly order = new AskingOrder()
  /** What other sides have asked to wait, by effect key. */
  private readonly retryAfter = new Map<string, number>()

  /** @param label of its input. @param aborts the groups that it has left open are undone, and nothing else is done. */
  constructor(tools: StepTools, number: number, phase: Phase, label: Label, aborts = false) {
    super(tools.journal.run, number, phase, label, aborts)
    this.tools = tools
    this.meter = new Meter(tools, this.records.place, () => phase === 'compensating' || aborts || isUndoing())
  }

  /** No more is done for the step. Resolves when what is under way has its end in the journal. */
  async close(): Promise<void> {
    this.ended = true
    while (this.underWay.size > 0) await Promise.allSettled([...this.underWay])
    this.isClosed = true
  }

  /** What the journal has and the step has not asked for. */
  get unasked(): string | undefined {
    const { journal } = this.tools
    if (this.ordinal < journal.begunIn(this.number, this.phase)) return `step ${this.step} has asked for fewer effects than the journal has`
    return this.unmade
  }

  now(): Promise<number> {
    return this.answered('svc.now', () => this.tools.now())
  }

  random(): Promise<number> {
    return this.answered('svc.random', () => this.tools.random())
  }

  effect<T extends Json>(effect: EffectDescription, perform: (call: EffectCall) => Promise<T>): Promise<T> {
    checkEffect(effect)
    const text = canonical(effect.args)
    const known = this.known(this.ordinal, descriptorOf(effect.kind, text))
    return known === undefined ? this.asking(askedOf(effect, this.ordinal, text), perform) : this.answer(effect.kind, known)
  }

  sink<T extends Json>(sink: Sink, perform: (call: EffectCall) => Promise<T>): Promise<T> {
    return this.asking(askedOfSink(sink, this.label, this.ordinal), perform)
  }

  private asking<T extends Json>(asked: Asked, perform: (call: EffectCall) => Promise<T>): Promise<T> {
    this.ordinal++
    return this.guarded(() => this.settle<T>(asked, perform))
  }

  /** The end of what the journal has as the step asks it, and that has gone well. */
  private known(ordinal: number, descriptor: string): JournalRecord | undefined {
    return this.ended ? undefined : this.tools.journal.doneAt(this.number, this.phase, ordinal, descriptor)
  }

  private answer<T>(kind: string, known: JournalRecord): Promise<T> {
    this.ordinal++
    return this.gave(kind, known)
  }

  /** What the journal does not have begins in its turn. */
  private turn({ ordinal }: Asked): Promise<() => void> {
    return ordinal < this.tools.journal.begunIn(this.number, this.phase) ? Promise.resolve(() => {}) : this.order.turn()
  }

  sleep(ms: number): Promise<void> {
    checkWait(ms)
    return this.guarded(async () => void (await this.wait({ asked: this.plain(SLEEP, { ms }), until: () => this.tools.now() + ms })))
  }

  sleepUntil(time: number): Promise<void> {
    checkWait(time)
    return this.guarded(async () => void (await this.wait({ asked: this.plain(SLEEP, { until: time }), until: () => time })))
  }

  awaitEvent(asked: EventWait): Promise<AgentEvent> {
    const { kind } = asked
    const any = asked.correlation === undefined && this.caseId !== undefined
    const event = { kind, correlation: ordered(asked.correlation ?? this.correlation) }
    const horizon = 'obligation' in asked ? { obligation: asked.obligation } : { within_ms: asked.withinMs }
    const until = 'obligation' in asked ? this.dueAt(asked.obligation) : () => this.tools.now() + asked.withinMs
    if (kind === TASK_DECIDED && (event.correlation.length !== 1 || event.correlation[0].namespace !== TASK_NAMESPACE))
      throw new Error('cannot wait for the decision of a task: name one task, by its taskKey')
    checkContent('the keys of a wait', canonical(event))
    if ('withinMs' in asked) checkWait(asked.withinMs)
    const plain = this.plain(AWAIT_EVENT, { ...event, ...(any ? { any } : {}), ...horizon })
    return this.guarded(async () => (await this.wait({ asked: plain, until, event, any })) as unknown as AgentEvent)
  }

  /** @param releases a value, when it is approved: the policies are asked before a person is. */
  task(request: TaskRequest, releases?: Release): Promise<TaskDecision> {
    const asked = { ...plain(TASK, checkedRequest(request), this.ordinal++), ...(releases === undefined ? {} : { releases }) }
    const event = { kind: TASK_DECIDED, correlation: [taskKey(taskIdOf(this.run, this.records.keyOf(asked, 1)))] }
    return this.guarded(async () => (await this.wait({ asked, until: () => FOREVER, event })) as unknown as TaskDecision)
  }

  openTask(request: TaskRequest): Promise<string> {
    const checked = checkedRequest(request)
    const { tools, label } = this
    const act = async (tx: StateTransaction, effect: string) => ({ output: (await openTask(tx, openingOf(tools, effect, checked, label))).id })
    return this.stored({ kind: OPEN_TASK, args: checked as unknown as Json, metered: true, act }) as Promise<string>
  }

  private plain(kind: string, args: unknown): Asked {
    return plain(kind, args, this.ordinal++)
  }

  /** Done in the transaction that journals it: it has happened with its records or not at all. */
  protected stored({ kind, args, act, metered, replans }: StoreEffect): Promise<Json> {
    const asked = this.plain(kind, args)
    return this.guarded(async () => {
      const key = this.records.keyOf(asked, 1)
      const next = await this.turn(asked)
      if (await this.isNew(asked, key)) {
        if (metered === true || replans === true) await this.require(replans === true ? this.meter.replansExceeded() : this.meter.exceeded(asked))
        const readmitted = this.meter.records(undefined)
        const started = this.records.started(asked, key, 1, 0)
        await this.append(async (tx) => {
          try {
            const { output, records = [] } = await act(tx, key)
            return [...readmitted, started, ...records.map((record) => ({ ...this.records.place, ...record })), this.records.done(key, output, DECLARED)]
          } catch (error) {
            // What is the store's own fault is no answer.
            if (!(error instanceof SvcError) || error.kind.http >= 500) throw error
            return [...readmitted, started, this.records.failedForGood(key, error.message)]
          }
        })
      }
      next()
      const { ended } = this.tools.journal.attempt(key) as Attempt
      if (ended === undefined) return undefined as unknown as Json
      return this.told(ended.seq, () => {
        if (kind === 'svc.case_state') this.hasRead(ended, 'case:state')
        if (ended.kind === 'EffectFailed') throw permanently(ended.payload.error as string)
        return ended.payload.output as Json
      })
    })
  }

  private answered(kind: string, value: () => number): Promise<number> {
    const asked = this.plain(kind, null)
    const known = this.known(asked.ordinal, asked.descriptor)
    if (known !== undefined) return this.told(known.seq, () => known.payload.output as number)
    return this.guarded(async () => {
      const key = this.records.keyOf(asked, 1)
      const next = await this.turn(asked)
      if (await this.isNew(asked, key)) {
        await this.append([...this.meter.records(undefined), this.records.started(asked, key, 1, 0), this.records.done(key, value(), OWN)])
      }
      next()
      const ended = this.tools.journal.attempt(key)?.ended as JournalRecord
      return this.told(ended.seq, () => {
        if (ended.kind === 'EffectFailed') throw permanently(ended.payload.error as string)
        return ended.payload.output as number
      })
    })
  }

  /** Whether the journal has nothing of it, and it may be done. Where it has something else, or nothing may be done, it does not resolve. */
  private async isNew(asked: Asked, key: string): Promise<boolean> {
    const { journal, mode } = this.tools
    if (journal.attempt(key) !== undefined) return false
    if (asked.ordinal < journal.begunIn(this.number, this.phase))
      return this.diverge(`effect ${asked.ordinal + 1}, "${asked.kind}", is another one than in the journal`)
    if (mode === 'strict') return this.stop({ kind: 'suspended' })
    if (!(await this.isRefused())) return this.require(this.meter.isFull()).then(() => true)
    await this.append([this.records.started(asked, key, 1, 0), this.records.failedForGood(key, ABORTED)])
    return false
  }

  /** Attempt by attempt, until one has ended for good. Where that needs a person, or the step is stopped, it does not resolve. */
  private async settle<T extends Json>(asked: Asked, perform: (call: EffectCall) => Promise<T>): Promise<T> {
    const { journal, mode } = this.tools
    const idempotencyKey = this.records.idempotencyKey(asked)
    const tries: Tries = { failures: 0, interruptions: 0, backoffMs: 0 }
    const next = await this.turn(asked)
    for (let attempt = 1; ; ) {
      const key = this.records.keyOf(asked, attempt)
      const used: Required<Spend> = { tokens: 0, minor_units: 0 }
      const call: MeteredCall = { effectKey: key, idempotencyKey, attempt, used, spend: (more) => addTo(used, more) }
      await this.attempt(asked, call, tries.backoffMs, perform, next)
      next()
      const { ended, reconciled } = journal.attempt(key) as Attempt
      if (reconciled?.payload.disposition === 'landed') return this.gave<T>(asked.kind, reconciled)
      if (reconciled !== undefined) {
        tries.backoffMs = 0
        attempt++
        continue
      }
      if (ended === undefined) return this.doubt(asked)
      if (ended.kind === 'EffectDone') return this.gave<T>(asked.kind, ended)
      const { error, disposition } = failureOf(ended)
      if (mode === 'live') await this.require(this.meter.tooManyDenials(error))
      // What the probe says is then in the journal, of the same attempt.
      if (disposition === 'in_doubt' && asked.recovery === 'reconcile' && mode === 'live' && (await this.probed(asked, call))) continue
      await this.countFailure(asked, call, ended, tries)
      attempt++
    }
  }

  /** Has the journal say how an attempt went: makes it, where that was not done before. */
  private async attempt(asked: Asked, call: MeteredCall, backoffMs: number, perform: (call: EffectCall) => Promise<Json>, next: () => void): Promise<void> {
    const { journal, mode } = this.tools
    const { effectKey: key, attempt } = call
    const isNew = attempt === 1 ? await this.isNew(asked, key) : journal.attempt(key) === undefined
    const { ended, reconciled } = journal.attempt(key) ?? {}
    if (!isNew && (ended ?? reconciled) !== undefined) return
    if (mode === 'strict') return this.stop({ kind: 'suspended' })
    if (!isNew) return this.interrupted(asked, call)
    if (attempt > 1 && (await this.isRefused())) return this.append([this.records.started(asked, key, attempt, 0), this.records.failedForGood(key, ABORTED)])
    return this.perform(asked, call, backoffMs, perform, next)
  }

  /** Resolves when another attempt is to be made, after `tries.backoffMs`. @throws EffectError. */
  private async countFailure(asked: Asked, { effectKey, attempt }: EffectCall, ended: JournalRecord, tries: Tries): Promise<void> {
    const { journal } = this.tools
    const { error, disposition, permanent = false } = failureOf(ended)
    if (disposition === 'landed') return this.failed(asked, ended)
    if (disposition === 'in_doubt' && (asked.recovery === 'requires_operator' || asked.recovery === 'reconcile')) return this.doubt(asked)
    if (error === INTERRUPTED) tries.interruptions++
    else tries.failures++
    if (tries.interruptions >= MAX_INTERRUPTIONS) return this.doubt(asked)
    if (tries.failures >= asked.maxAttempts || (permanent && tries.failures > 0)) {
      // A run that has failed and is resumed tries its last effect afresh, when that did not happen.
      const concluded = journal.records.findLast(({ kind, payload }) => kind === 'RunConcluded' && payload.outcome === 'failed')?.seq ?? 0
      const afresh = disposition === 'did_not_happen' && ended.seq < concluded && asked.ordinal === journal.begunIn(this.number, this.phase) - 1
      if (afresh || journal.attempt(this.records.keyOf(asked, attempt + 1)) !== undefined) tries.failures = 0
      else return disposition === 'in_doubt' && asked.mutates ? this.doubt(asked) : this.failed(asked, ended)
    }
    tries.backoffMs = error === INTERRUPTED ? 0 : Math.max(delayOf(effectKey, tries.failures), this.retryAfter.get(effectKey) ?? 0)
  }

  private gave<T>(kind: string, ended: JournalRecord): Promise<T> {
    return this.told(ended.seq, () => {
      this.hasRead(ended, `effect:${kind}`)
      return ended.payload.output as T
    })
  }

  /** Its text is from outside as well. */
  private failed({ kind }: Asked, ended: JournalRecord): Promise<never> {
    return this.told(ended.seq, () => {
      this.hasRead(ended, `effect:${kind}`)
      const { error, disposition, permanent = false } = failureOf(ended)
      throw new EffectError(error, { disposition, permanent })
    })
  }

  private doubt({ kind }: Asked): Promise<never> {
    return this.stop({ kind: 'quarantined', reason: `step ${this.step}: whether effect "${kind}" has happened is not known` })
  }

  /** Announced durably, done, and its end durable. */
  private async perform<T extends Json>(
    asked: Asked,
    call: MeteredCall,
    backoff: number,
    act: (call: EffectCall) => Promise<T>,
    next: () => void,
  ): Promise<void> {
    if (this.tools.stopping?.()) return this.stop({ kind: 'left' })
    await this.require(this.meter.exceeded(asked))
    const denied = await this.meter.denied(this.records.started(asked, call.effectKey, call.attempt, backoff), asked)
    if (denied !== undefined) return this.append(denied)
    if (backoff > 0) await this.tools.sleep(backoff)
    if (this.tools.stopping?.()) return this.stop({ kind: 'left' })
    if (this.ended) return new Promise(() => {})
    await this.whole(this.announced(asked, call, backoff, act, next))
    // The step was stopped meanwhile: its end is in the journal, and the step's code goes no further.
    if (this.ended) return new Promise(() => {})
  }

  private async announced<T extends Json>(
    asked: Asked,
    call: MeteredCall,
    backoff: number,
    act: (call: EffectCall) => Promise<T>,
    next: () => void,
  ): Promise<void> {
    const { journal, now } = this.tools
    const began = now()
    try {
      let exceeded: BudgetExceeded | undefined
      await journal.append(async (tx) => {
        const begun = await this.meter.begin(tx, this.records.started(asked, call.effectKey, call.attempt, backoff), asked)
        exceeded = begun.exceeded
        return begun.records
      })
      if (exceeded !== undefined) {
        this.stopWith({ kind: 'exhausted', exhaustion: exceeded })
        this.ended = true
        return
      }
      next()
      // The announcement may have taken long: whoever has taken the run over since has looked whether this was done.
      const renewed = this.tools.held?.()
      if (renewed !== undefined) await renewed
      const ended = await outcomeOf(asked, call, act)
      if (ended.retryAfterMs !== undefined) this.retryAfter.set(call.effectKey, Math.min(ended.retryAfterMs, MAX_RETRY_AFTER_MS))
      const isFree = call.used.tokens + call.used.minor_units === 0
      const end = (spend = {}) => [{ ...this.records.place, effectKey: call.effectKey, kind: ended.kind, payload: { ...ended.payload, ...spend } }]
      const cost = isFree && ended.payload.disposition === 'in_doubt' ? 'all' : call.used
      if (isFree && asked.spends === undefined) await journal.keep(end())
      else await journal.append(async (tx) => end(await this.meter.settle(tx, asked, call.effectKey, cost)))
      const result = ended.kind === 'EffectDone' ? 'done' : ended.payload.disposition === 'in_doubt' ? 'in_doubt' : 'failed'
      this.tools.performed(result, Math.max(0, now() - began))
    } catch (error) {
      this.stopWith(stopOf(error))
      this.ended = true
    }
  }

  protected async admitted(): Promise<NewRecord[]> {
    await this.require(this.meter.isFull())
    return this.meter.records(undefined)
  }

  private async require(exceeded: BudgetExceeded | undefined): Promise<void> {
    if (exceeded === undefined) return
    const records = this.meter.records(exceeded)
    if (records.length > 0) await this.append(records)
    await this.stop({ kind: 'exhausted', exhaustion: exceeded })
  }

  /** The process ended between the announcement and the end. */
  private async interrupted(asked: Asked, call: EffectCall): Promise<void> {
    if (asked.recovery === 'requires_operator') return
    if (asked.recovery === 'reconcile' && (await this.probed(asked, call))) return
    if (asked.recovery === 'reconcile') return
    await this.append(async (tx) => {
      const payload = { error: INTERRUPTED, disposition: 'in_doubt', ...(await this.meter.settle(tx, asked, call.effectKey, 'all')) }
      return [{ ...this.records.place, effectKey: call.effectKey, kind: 'EffectFailed', payload }]
    })
  }

  /** @returns whether the probe has settled it. */
  private async probed(asked: Asked, call: EffectCall): Promise<boolean> {
    // It may throw before it gives a promise.
    const answer = await (async () => asked.probe?.(call))().catch(() => 'inconclusive' as const)
    if (answer === undefined || answer === 'inconclusive') return false
    const said = answer.landed ? { disposition: 'landed', output: answer.output, declared: DECLARED } : { disposition: 'did_not_happen' }
    await this.append(async (tx) => {
      const payload = { ...said, detail: 'probe', ...(await this.meter.settle(tx, asked, call.effectKey, answer.landed ? 'all' : NOTHING)) }
      return [{ ...this.records.place, effectKey: call.effectKey, kind: 'EffectReconciled', payload }]
    })
    return true
  }

  private async wait(waited: Waited): Promise<Json> {
    const { asked, event } = waited
    const { journal, mode } = this.tools
    const opensTask = asked.kind === TASK
    const key = this.records.keyOf(asked, 1)
    const next = await this.turn(asked)
    const isNew = await this.isNew(asked, key)
    if (journal.attempt(key)?.ended === undefined) {
      if (mode === 'strict') return this.stop({ kind: 'suspended' })
      if (isNew && opensTask) await this.require(this.meter.exceeded(asked))
      const withheld = isNew ? await this.meter.withheld(this.records.started(asked, key, 1, 0), asked) : undefined
      const isRefused = !isNew && (await this.isRefused())
      await this.append(
        withheld ??
          (async (tx) => {
            if (opensTask) await openTask(tx, openingOf(this.tools, key, asked.args as TaskRequest, this.label))
            const begun = isNew ? [...this.meter.records(undefined), this.records.started(asked, key, 1, 0)] : []
            return [...begun, ...(await this.waiting(tx, waited, key, isRefused))]
          }),
      )
    }
    next()
    const { ended } = journal.attempt(key) as Attempt
    if (ended === undefined) {
      // What the step has asked for beside it begins as well: its waits by now, and not when this one is over.
      await this.order.all
      return this.stop({ kind: 'suspended' })
    }
    if (mode === 'live' && ended.kind === 'EffectFailed') await this.require(this.meter.tooManyDenials(ended.payload.error as string))
    return this.told(ended.seq, () => {
      if (ended.kind === 'EffectFailed') throw permanently(ended.payload.error as string)
      if (event !== undefined) this.hasRead(ended, ...provenanceOf(ended))
      return ended.payload.output as Json
    })
  }

  /** Begins a wait, goes on with it, or ends it. @param isRefused one that is under way and that nothing has ended is given up. @returns what there is to record of it. */
  private async waiting(tx: StateTransaction, { asked, until, event, any = false }: Waited, key: string, isRefused: boolean): Promise<NewRecord[]> {
    const { records } = this
    const said = this.tools.journal.waitsUntil(key) ?? (await until(tx))
    if (said === undefined) return [records.failedForGood(key, 'cannot wait until an obligation is due that the case does not have; register it before')]
    const end = Math.floor(said)
    const wait: Wait = { run: this.run, key, until: end, ...(event === undefined ? {} : { event }), ...(any ? { any } : {}) }
    const waiting = await waitOf(tx, this.run, key)
    const arrived = await arrivedAt(tx, wait)
    const isOver = arrived !== undefined || end <= this.tools.now()
    if (waiting !== undefined && (isOver || isRefused)) await endWait(tx, waiting)
    if (isOver) return [records.endOfWait(asked.kind, key, wait, arrived)]
    if (isRefused) return [records.failedForGood(key, ABORTED)]
    if (waiting !== undefined) return this.isTold(key) ? [] : [records.suspended(key, waiting)]
    const first = await beginWait(tx, wait)
    return [first === undefined ? records.suspended(key, wait) : records.endOfWait(asked.kind, key, wait, first)]
  }

  /** Whether the journal says that the run waits so, and not that it came to rest otherwise since. */
  private isTold(key: string): boolean {
    const { journal } = this.tools
    const waits = journal.records.findLast(({ kind, effectKey }) => kind === 'RunSuspended' && effectKey === key)?.seq ?? 0
    return waits > (journal.last('RunConcluded', 'QuarantineDecided')?.seq ?? 0)
  }
}

const failureOf = ({ payload }: JournalRecord): Failure => payload as unknown as Failure
