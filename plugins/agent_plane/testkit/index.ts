/**
 * `svcdb/agents/testkit`: runs of agents in memory, under a clock that the test moves, in processes that die where it says. What is used is the driver of the plane
 * itself.
 */
import { createHash } from 'node:crypto'
import type { StateStore, StateTransaction } from 'svcdb'
import {
  type Agent,
  type AgentEvent,
  EffectError,
  type Json,
  type ModelProvider,
  type PlanNode,
  type RunRequest,
  type Skill,
  type ToolServices,
} from 'svcdb/agents'
import { loadEngine } from 'svcdb/testkit'
import { governor } from '../agents/govern.ts'
import { limitsOf } from '../agents/limits.ts'
import { AgentRegistry } from '../agents/registry.ts'
import { wallClock } from '../cases/calendar.ts'
import { Driver } from '../drive/driver.ts'
import { BrokenPass } from '../drive/pass.ts'
import { fakeModel } from '../models/fake.ts'
import { decode, type JournalRecord } from '../record/record.ts'
import { recordsOf } from '../store/journal.ts'
import { Desk } from '../tasks/desk.ts'

const EPOCH = 1_700_000_000_000
const LEASE_MS = 30_000
const MAX_PASSES = 1000
const MAX_RUNS = 100
const STEPS = 1000
const EFFECTS = 10_000

export interface RunnerOptions {
  agents?: readonly Agent[]
  /** Of no agent. */
  skills?: readonly Skill[]
  /** What tools have of the node; what is not given fails. */
  services?: Partial<ToolServices>
  /** Providers beside `fake`, by name. */
  models?: Readonly<Record<string, ModelProvider>>
  /** Milliseconds since the Unix epoch at which the clock begins. */
  now?: number
  /** The process dies with this record, counted over all runs from 1. */
  crash?: Crash
}

export interface Crash {
  record: number
  /** `before` it is kept, or `after`, and then whoever wrote it does not hear of it. */
  when: 'before' | 'after'
}

/** An effect of a run, all its attempts together. */
export interface EffectReport {
  kind: string
  args: Json
  mutates: boolean
  step: string
  phase: 'forward' | 'compensating'
  /** `open`: it was begun, and nothing is known of its end. */
  outcome: 'done' | 'failed' | 'in_doubt' | 'open'
  attempts: number
  output?: Json
  error?: string
}

export interface RunReport {
  run: string
  /** As `AgentPlane.standing` has it. */
  status: string
  reason?: string
  waiting_for?: string
  /** When it succeeded. */
  output?: Json
  effects: EffectReport[]
}

/** What a person says of a task. */
export interface Decided {
  approved: boolean
  reason?: string
  amendment?: Json
  /** Default: somebody whom nothing bars. */
  by?: string
}

class Died extends Error {}

/** One store, and processes over it, one after the other. */
export class AgentRunner {
  private readonly options: RunnerOptions
  private readonly disk: StateStore
  private readonly registry = new AgentRegistry()
  private driver: Driver
  private processes = 0
  private written = 0
  private dead = false
  /** Begun by the process that lives, and not driven yet. */
  private readonly commissioned: { run: string; epoch?: number }[] = []
  private draws = 0
  /** Milliseconds since the Unix epoch. */
  now: number
  /** How often a process has died. */
  deaths = 0

  private constructor(options: RunnerOptions, disk: StateStore) {
    this.options = options
    this.disk = disk
    this.now = options.now ?? EPOCH
    for (const agent of options.agents ?? []) this.registry.add(agent)
    for (const skill of options.skills ?? []) this.registry.skills.set(skill.capability, skill)
    this.driver = this.start()
  }

  static async create(options: RunnerOptions): Promise<AgentRunner> {
    const { createEngine } = await loadEngine('memory', '.')
    return new AgentRunner(options, createEngine({ config: {}, now: Date.now } as never).state('agent_plane'))
  }

  /** Records that all runs have together. */
  get records(): number {
    return this.written
  }

  /** Begins a run, and drives it until it waits or is over, over deaths of the process. @throws SvcError as `AgentPlane.run`. */
  async run(capability: string, input: Json, more: Partial<RunRequest> = {}): Promise<RunReport> {
    return this.begin({ capability, input, ...more })
  }

  /** As `run`, of a plan of several steps. */
  async plan(plan: PlanNode[], input: Json, more: Partial<RunRequest> = {}): Promise<RunReport> {
    return this.begin({ plan, input, ...more })
  }

  private async begin(asked: Partial<RunRequest> & Pick<RunRequest, 'input'>): Promise<RunReport> {
    // What was begun before its process died is begun again by its key.
    const request: RunRequest = { actor: 'tester', idempotencyKey: `test-${this.draws++}`, ...asked }
    const { run, epoch } = await this.surviving(() => this.driver.admit(request))
    return this.settle(run, epoch)
  }

  /** Moves the clock on, and drives what goes on by that. */
  async advance(ms: number): Promise<void> {
    this.now += ms
    await this.rest()
  }

  /** As `AgentPlane.deliver`; then what goes on by it is driven. */
  async deliver(event: Omit<AgentEvent, 'correlation' | 'source' | 'id'> & Partial<AgentEvent>): ReturnType<Driver['deliver']> {
    const whole = { id: `event-${this.draws++}`, source: 'test', correlation: [], ...event }
    const answer = await this.surviving(() => this.driver.deliver(whole))
    await this.rest()
    return answer
  }

  async cancel(run: string, reason = 'the test says so'): Promise<RunReport> {
    await this.requestCancel(run, reason)
    return this.settle(run)
  }

  /** As `cancel`, and drives nothing: also for a skill that is to be stopped while it goes on. */
  async requestCancel(run: string, reason = 'the test says so'): Promise<void> {
    await this.surviving(() => this.driver.cancel(run, { actor: 'tester', basis: 'asserted' }, reason))
  }

  /** Decides all tasks of a run that wait, as somebody who may; then what goes on by it is driven. @throws Error where none waits. */
  async decide(run: string, { approved, reason = 'the test says so', amendment, by = 'somebody' }: Decided): Promise<RunReport> {
    const ids = (await this.disk.list<string>({ prefix: `task_run/${run}/` })).map(({ key }) => key.slice(`task_run/${run}/`.length))
    if (ids.length === 0) throw new Error(`cannot decide a task of "${run}": none waits`)
    const desk = new Desk({ state: this.disk, now: () => this.now, argumentsOf: (ref, agent) => this.registry.argumentsOf(ref, agent) })
    const said = { approved, reason, ...(amendment === undefined ? {} : { amendment }) }
    for (const id of ids) {
      const { candidate_roles: roles } = await desk.task(id)
      await desk.decide(id, said, { actor: by, basis: 'asserted', roles })
    }
    await this.rest()
    return this.report(run)
  }

  /** One more pass, or the end, for a run that is quarantined; then what goes on by it is driven. @throws SvcError CONFLICT when it is not. */
  async endQuarantine(run: string, decision: 'reopen' | 'abandon', reason = 'the test says so'): Promise<RunReport> {
    await this.surviving(() => this.driver.decide(run, decision, { actor: 'tester', basis: 'asserted' }, reason))
    await this.rest()
    return this.report(run)
  }

  async report(run: string): Promise<RunReport> {
    const { status, reason, waiting_for: waiting } = await this.surviving(() => this.driver.standing(run))
    const given = status === 'succeeded' ? { output: (await this.surviving(() => this.driver.replay(run))).output ?? null } : {}
    const effects = effectsOf(await this.journal(run))
    return { run, status, ...given, effects, ...(reason === undefined ? {} : { reason }), ...(waiting === undefined ? {} : { waiting_for: waiting }) }
  }

  async journal(run: string): Promise<JournalRecord[]> {
    return (await recordsOf(this.disk, run)).map(({ raw }) => decode(raw))
  }

  /** Runs the code of now against the journal, without doing anything. @returns where it does something else; empty = nowhere. */
  async replay(run: string): Promise<string[]> {
    return (await this.surviving(() => this.driver.replay(run))).divergences
  }

  private async settle(run: string, epoch?: number): Promise<RunReport> {
    await this.driven(run, epoch)
    await this.rest()
    return this.report(run)
  }

  private async rest(): Promise<void> {
    for (let pass = 0; pass < MAX_PASSES; pass++) {
      const [next] = this.commissioned.splice(0, 1)
      const due = next === undefined ? await this.surviving(() => this.driver.due(MAX_RUNS)) : []
      if (next !== undefined) await this.driven(next.run, next.epoch)
      for (const run of due) await this.driven(run)
      if (next === undefined && due.length === 0) return
    }
    throw new Error(`the runs do not come to rest in ${MAX_PASSES} passes`)
  }

  /** A pass; when its process dies, its run is taken up by the next one when the lease is over. */
  private async driven(run: string, epoch?: number): Promise<void> {
    try {
      await this.driver.drive(run, epoch)
    } catch (error) {
      if (!this.dead && !(error instanceof BrokenPass)) throw error
      if (!this.dead) throw (error as BrokenPass).cause
      this.driver = this.start()
      this.now += LEASE_MS + 1
    }
  }

  private async surviving<T>(act: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await act()
      } catch (error) {
        if (!this.dead) throw error
        this.driver = this.start()
        this.now += LEASE_MS + 1
      }
    }
  }

  private start(): Driver {
    const { registry, options } = this
    const process = { alive: true }
    this.dead = false
    this.commissioned.length = 0
    const state = this.stateOf(process)
    const driver: Driver = new Driver({
      state,
      skills: registry.skills,
      calendars: new Map([[wallClock.name, wallClock]]),
      holder: `process-${++this.processes}`,
      leaseMs: LEASE_MS,
      limits: { maxSteps: STEPS, maxEffects: EFFECTS },
      governing: (capability) => registry.governing(capability),
      limitsOf: (capability) => limitsOf(registry.of(capability)),
      govern: governor({
        state,
        registry,
        now: () => this.now,
        services: () => ({ ...LACKING, ...options.services }),
        model: (agent) => this.modelOf(agent),
        begin: async (request, parent) => {
          const admitted = await driver.admit(request, parent)
          this.commissioned.push(admitted)
          return admitted
        },
      }),
      now: () => this.now,
      random: () => this.chance(),
      soon: () => new Promise((resolve) => void setImmediate(resolve)),
      sleep: async (ms) => {
        this.now += ms
      },
      every: () => () => {},
      performed: () => {},
    })
    return driver
  }

  private modelOf(agent: Agent): ModelProvider {
    const name = agent.manifest.spec.models?.privileged.provider ?? ''
    const provider = name === 'fake' ? fakeModel(agent.script) : this.options.models?.[name]
    if (provider === undefined) throw lacking(`no model "${name}": give it in models`)
    return provider
  }

  /** The same in each test. */
  private chance(): number {
    return (
      createHash('sha256')
        .update(`chance ${this.draws++}`)
        .digest()
        .readUInt32BE(0) /
      2 ** 32
    )
  }

  private stateOf(process: { alive: boolean }): StateStore {
    const die = (): never => {
      process.alive = false
      this.dead = true
      this.deaths++
      throw new Died('the process is dead')
    }
    const living = (): void => {
      if (!process.alive) throw new Died('the process is dead')
    }
    const { disk } = this
    return {
      get: async (key) => {
        living()
        return disk.get(key)
      },
      list: async (range) => {
        living()
        return disk.list(range)
      },
      transaction: async (body) => {
        living()
        const { crash } = this.options
        let count = 0
        const dies = () => crash !== undefined && this.written < crash.record && this.written + count >= crash.record
        const answer = await disk.transaction(async (tx) => {
          count = 0
          const given = await body(counting(tx, () => count++))
          if (dies() && crash?.when === 'before') {
            // Not again: the same record comes once more.
            this.written += count
            die()
          }
          return given
        })
        const ends = dies()
        this.written += count
        if (ends) die()
        return answer
      },
    }
  }
}

function counting(tx: StateTransaction, written: () => void): StateTransaction {
  return {
    get: (key) => tx.get(key),
    list: (range) => tx.list(range),
    delete: (key) => tx.delete(key),
    put(key, value) {
      if (key.startsWith('record/')) written()
      tx.put(key, value)
    },
  }
}

function lacking(what: string): EffectError {
  return new EffectError(`the test gives ${what}`, { disposition: 'did_not_happen', permanent: true })
}

const LACKING: ToolServices = {
  http: () => Promise.reject(lacking('no services.http')),
  sql: () => Promise.reject(lacking('no services.sql')),
  promql: () => Promise.reject(lacking('no services.promql')),
  write: () => Promise.reject(lacking('no services.write')),
  env(name) {
    throw lacking(`no services.env, and ${name} is asked for`)
  },
}

function effectsOf(records: readonly JournalRecord[]): EffectReport[] {
  const found = new Map<string, EffectReport>()
  const byKey = new Map<string, EffectReport>()
  for (const { kind, payload, step, phase = 'forward', effectKey = '' } of records) {
    if (kind === 'EffectStarted') {
      const { descriptor, mutates, attempt } = payload as { descriptor: { kind: string; args: Json }; mutates: boolean; attempt: number }
      const place =
        attempt === 1
          ? effectKey
          : ([...found].findLast(([, one]) => one.step === `s${step}` && one.phase === phase && one.kind === descriptor.kind)?.[0] ?? effectKey)
      const report = found.get(place) ?? { ...descriptor, mutates, step: `s${step}`, phase, outcome: 'open', attempts: 0 }
      found.set(place, Object.assign(report, { outcome: 'open', attempts: attempt }))
      byKey.set(effectKey, report)
    }
    const report = byKey.get(effectKey)
    if (report === undefined) continue
    const { output, error, disposition } = payload as { output?: Json; error?: string; disposition?: string }
    if (kind === 'EffectDone' || (kind === 'EffectReconciled' && disposition === 'landed')) Object.assign(report, { outcome: 'done', output })
    else if (kind === 'EffectFailed' || kind === 'EffectReconciled')
      Object.assign(report, { outcome: disposition === 'in_doubt' ? 'in_doubt' : 'failed', ...(error === undefined ? {} : { error }) })
  }
  return [...found.values()]
}

/**
 * Does the same in runners that die at each record in turn, before and after it is kept.
 * @param act is given a fresh runner each time; what it asserts must hold wherever the process died.
 */
export async function crashEverywhere(options: () => RunnerOptions, act: (runner: AgentRunner, crash: Crash | undefined) => Promise<void>): Promise<number> {
  const whole = await AgentRunner.create(options())
  await act(whole, undefined)
  for (let record = 1; record <= whole.records; record++) {
    for (const when of ['before', 'after'] as const) {
      const crash = { record, when }
      const runner = await AgentRunner.create({ ...options(), crash })
      await act(runner, crash)
      if (runner.deaths === 0) throw new Error(`no process has died ${when} record ${record}: what the agent does is not the same each time`)
    }
  }
  return whole.records * 2
}
