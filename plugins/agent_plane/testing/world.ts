/**
 * A world for the driver: a clock that jumps, a store whose every call may be the last one of a process, and outside it things that are done and counted.
 * A process that has died does nothing any more; what is on disk stays. All follows from a seed.
 */
import assert from 'node:assert/strict'
import { setImmediate as soon } from 'node:timers/promises'
import type { StateRange, StateStore, StateTransaction } from 'svcdb'
import {
  type AgentContext,
  type CorrelationKey,
  defineAgent,
  defineSkill,
  type EffectCall,
  EffectError,
  type Expiry,
  type Json,
  type PlanNode,
  type RecoveryMode,
  type StepContext,
  TASK_DECIDED,
  type TaskDecision,
  type TaskRequest,
  type ToolServices,
  taskKey,
} from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import { Type } from 'svcdb/lib/schema'
import { loadEngine } from 'svcdb/testkit'
import { governor } from '../agents/govern.ts'
import { AgentRegistry } from '../agents/registry.ts'
import { wallClock } from '../cases/calendar.ts'
import { type Admitted, Driver } from '../drive/driver.ts'
import { fakeModel } from '../models/fake.ts'
import type { Budgets } from '../quota/budgets.ts'
import type { QuotaLimits } from '../quota/store.ts'
import { canonical } from '../record/canonical.ts'
import { Desk } from '../tasks/desk.ts'
import { actOnCase, type CaseAct, isCaseAct } from './case-acts.ts'

const LEASE_MS = 30_000
/** Calls for which the disk stays full, at most. */
const MAX_FULL = 12
/** Of a transaction, about. */
const READS = 8

export class Died extends Error {}

/** What the store answers that cannot do its work now: the process lives on. */
class StoreFailed extends SvcError {}

/** In the text of each of them. */
export const OF_STORE = /the store of the world/

/** Whether it is, or comes of, an answer of a store that cannot do its work now. */
export function isOfStore(error: unknown): boolean {
  return error instanceof StoreFailed || (error instanceof Error && error.cause !== undefined && isOfStore(error.cause))
}

let memory: ReturnType<typeof loadEngine> | undefined

/** Whatever is kept over the deaths of processes. */
export async function memoryState(): Promise<StateStore> {
  memory ??= loadEngine('memory', '.')
  const { createEngine } = await memory
  return createEngine({ config: {}, now: Date.now } as never).state('agent_plane')
}

export interface Chances {
  death: number
  failure: number
  store: number
}

export class World {
  readonly random: () => number
  readonly disk: StateStore
  now = 1_700_000_000_000
  /** Calls of `perform` by run and effect key. */
  readonly performed = new Map<string, number>()
  /** What has happened outside, by what it is about; with a key, what bears the same one counts once. */
  readonly landed = new Map<string, number>()
  private readonly known = new Set<string>()
  /** Decisions of persons that were answered with success, by task. */
  readonly accepted = new Map<string, Set<string>>()
  /** Chance of a death at each call, of a failure of each effect, and at each call of the store that it fails. */
  readonly chances: Chances
  deaths = 0
  /** Calls that the store has failed. */
  failed = 0
  /** Calls for which the disk is still full. */
  private full = 0
  calls = 0
  /** Exactly this call is the last one of its process. */
  dieAt: number | undefined
  processes = 0
  /** Of the tenant. */
  quota: QuotaLimits = { maxConcurrentRuns: 0, maxTokens: 0, maxMinorUnits: 0, period: 'day' }
  /** Chance that the clock goes on by more than a lease at a call of the store. */
  jump = 0

  constructor(seed: number, disk: StateStore, chances: Chances = { death: 0, failure: 0, store: 0 }) {
    this.random = seeded(seed)
    this.disk = disk
    this.chances = chances
  }

  /** From now on nobody dies, and nothing fails. */
  calm(): void {
    Object.assign(this.chances, { death: 0, failure: 0, store: 0 })
    this.dieAt = undefined
    this.full = 0
  }

  /** A process over the disk. */
  start(limits: Budgets = { maxSteps: 1000, maxEffects: 1000 }): Process {
    return new Process(this, limits)
  }

  dies(): boolean {
    this.calls++
    const dies = this.dieAt === this.calls || this.random() < this.chances.death
    if (dies) this.deaths++
    return dies
  }

  /** Whether the disk is full at a call that writes: then for some calls. Nothing of it is stored. */
  private isFull(): boolean {
    if (this.full === 0 && this.chances.store > 0 && this.random() < this.chances.store) this.full = 1 + Math.floor(this.random() * MAX_FULL)
    if (this.full === 0) return false
    this.full--
    return true
  }

  private lost(chance = this.chances.store): boolean {
    return chance > 0 && this.random() < chance
  }

  /** @throws StoreFailed: the store cannot be reached. */
  read(chance?: number): void {
    if (this.lost(chance)) throw this.storeFailed('OVERLOADED', 'cannot read: the store of the world does not answer')
  }

  /**
   * A transaction that the store may fail: before anything is stored, as a full disk does, or with an answer that is lost, so that nobody knows.
   * @throws StoreFailed.
   */
  async commit<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    let writes = false
    const answer = await this.disk.transaction(async (tx) => {
      writes = false
      const put = (key: string, value: unknown) => {
        writes = true
        tx.put(key, value)
      }
      const remove = (key: string) => {
        writes = true
        tx.delete(key)
      }
      const get = async <T>(key: string) => {
        this.read(this.chances.store / READS)
        return tx.get<T>(key)
      }
      const list = async <T>(range?: StateRange) => {
        this.read(this.chances.store / READS)
        return tx.list<T>(range)
      }
      const given = await body({ get, list, put, delete: remove })
      if (writes && this.isFull()) throw this.storeFailed('STORAGE_FULL', 'cannot write: the store of the world has no space left')
      return given
    })
    if (this.lost()) throw this.storeFailed('OVERLOADED', 'cannot commit: the store of the world has not answered')
    return answer
  }

  private storeFailed(code: 'OVERLOADED' | 'STORAGE_FULL', message: string): StoreFailed {
    this.failed++
    return new StoreFailed(code, message)
  }

  /** Tasks that have come to their end by their time. */
  readonly swept = new Set<string>()

  decided(task: string, decision: TaskDecision): void {
    this.accepted.set(task, (this.accepted.get(task) ?? new Set()).add(canonical(decision)))
  }

  land(about: string, key?: string): void {
    if (key !== undefined && this.known.has(key)) return
    if (key !== undefined) this.known.add(key)
    this.landed.set(about, (this.landed.get(about) ?? 0) + 1)
  }
}

export class Process {
  alive = true
  readonly driver: Driver
  /** The disk, over which it may die. */
  readonly store: StateStore
  readonly desk: Desk
  /** Runs that it has begun for others, and not driven yet. */
  readonly commissioned: Admitted[] = []
  private readonly world: World

  constructor(world: World, limits: Budgets) {
    this.world = world
    this.store = this.state()
    this.desk = new Desk({ state: this.store, now: () => world.now, argumentsOf: () => undefined })
    const registry = acting(world, this)
    this.driver = new Driver({
      state: this.store,
      skills: registry.skills,
      governing: (capability) => registry.governing(capability),
      govern: governor({
        state: this.store,
        registry,
        now: () => world.now,
        services: () => ({}) as ToolServices,
        model: () => fakeModel([]),
        begin: async (request, parent) => {
          const admitted = await this.driver.admit(request, parent)
          this.commissioned.push(admitted)
          return admitted
        },
      }),
      calendars: new Map([[wallClock.name, wallClock]]),
      holder: `p${++world.processes}`,
      leaseMs: LEASE_MS,
      limits,
      quota: world.quota,
      now: () => world.now,
      random: world.random,
      sleep: async (ms) => {
        this.point()
        world.now += ms
      },
      soon: async () => {
        for (let rest = Math.floor(world.random() * 40); rest > 0; rest--) await undefined
      },
      every: () => () => {},
      performed: () => {},
    })
  }

  /** Where the process may die. @throws Died. */
  point(): void {
    if (this.alive && this.world.dies()) this.alive = false
    if (!this.alive) throw new Died('the process is dead')
  }

  /** Each call may be the last one: before it is done, or after it was and before its answer. Or it fails. */
  private state(): StateStore {
    const { world } = this
    const { disk, random } = world
    // Others get their turn before.
    const turns = async () => {
      for (let rest = Math.floor(random() * 4); rest > 0; rest--) await undefined
      if (world.jump > 0 && random() < world.jump) world.now += LEASE_MS * 2
    }
    return {
      get: async <T>(key: string) => {
        await turns()
        this.point()
        world.read()
        return disk.get<T>(key)
      },
      list: async <T>(range?: object) => {
        await turns()
        this.point()
        world.read()
        return disk.list<T>(range)
      },
      transaction: async <T>(body: (tx: StateTransaction) => T | Promise<T>) => {
        await turns()
        this.point()
        const answer = await world.commit(body)
        this.point()
        return answer
      },
    }
  }
}

/** What a skill of the simulation does, step by step: it is its input. */
export type Act =
  | { do: 'effect'; about: string; mode: RecoveryMode; mutates: boolean; tokens?: number }
  | { do: 'sleep'; ms: number }
  | { do: 'await'; correlation: CorrelationKey[]; ms: number }
  | { do: 'task'; about: string; roles: string[]; expiry?: Expiry; ms?: number; wait: boolean }
  | { do: 'now' }
  | { do: 'random' }
  | { do: 'note' }
  | { do: 'fail' }
  | { do: 'both'; acts: Act[] }
  | { do: 'chain'; acts: Act[] }
  | { do: 'replan'; keep: string[]; more: PlanNode[] }
  | { do: 'blob'; text: string }
  | { do: 'commission'; capability: string; acts: Act[]; ms: number; caught: boolean }
  | CaseAct

/** Skills and agents as a process has them: the boss commissions the hand. */
function acting(world: World, process: Process): AgentRegistry {
  const registry = new AgentRegistry()
  const { skills } = registry
  const input = Type.Object({ acts: Type.Array(Type.Any()) })
  const act = async (context: StepContext, one: Act, back: string): Promise<Json> => {
    if (one.do === 'sleep') await context.sleep(one.ms)
    else if (one.do === 'await') await context.awaitEvent({ kind: 'told', correlation: one.correlation, withinMs: one.ms }).catch(() => 'late')
    else if (one.do === 'task') return asked(context, one)
    else if (one.do === 'now') return context.now()
    else if (one.do === 'random') return context.random()
    else if (one.do === 'note') await context.note('here')
    else if (isCaseAct(one)) return actOnCase(context, one)
    else if (one.do === 'fail') throw new Error('it was to fail')
    else if (one.do === 'replan') return context.replan([...one.keep, ...one.more], 'on second thoughts').catch(() => 'not so')
    else if (one.do === 'blob') return blobbed(context, one.text)
    else if (one.do === 'commission') return commissioned(context as AgentContext, one)
    else if (one.do === 'both') return Promise.all(one.acts.map((each) => act(context, each, back)))
    else if (one.do === 'chain') return chained(context, one.acts, back)
    else return outward(context, one, back)
    return null
  }
  const chained = async (context: StepContext, acts: readonly Act[], back: string): Promise<Json> => {
    const given: Json[] = []
    for (const one of acts) given.push(await act(context, one, back))
    return given
  }
  const blobbed = async (context: StepContext, text: string): Promise<Json> => {
    const digest = await context.storeBlob(Buffer.from(text))
    assert.equal(Buffer.from(await context.readBlob(digest)).toString(), text)
    return digest
  }
  const asked = async (context: StepContext, { about, roles, expiry, ms, wait }: Extract<Act, { do: 'task' }>): Promise<Json> => {
    const ends = { ...(expiry === undefined ? {} : { on_expiry: expiry }), ...(ms === undefined ? {} : { withinMs: ms }) }
    const request: TaskRequest = { kind: 'sim', summary: about, proposed_action: { about }, candidate_roles: roles, ...ends }
    if (wait) return { ...(await context.task(request)) } as Json
    const task = await context.openTask(request)
    const told = await context.awaitEvent({ kind: TASK_DECIDED, correlation: [taskKey(task)], withinMs: ms ?? LEASE_MS * 100 }).catch(() => undefined)
    return told?.payload ?? 'late'
  }
  const commissioned = async (context: AgentContext, { capability, acts, ms, caught }: Extract<Act, { do: 'commission' }>): Promise<Json> => {
    const given = context.commission({ capability, input: { acts } as unknown as Json, withinMs: ms })
    return caught ? given.catch(() => 'it was not done') : given
  }
  const outward = (context: StepContext, { about, mode, mutates, tokens }: Extract<Act, { do: 'effect' }>, back: string): Promise<Json> => {
    const what = `${context.run}/${about}${back}`
    const description = {
      kind: `world.${mode}`,
      args: what,
      mutates,
      recovery: mode,
      ...(tokens === undefined ? {} : { spends: { tokens } }),
      ...(mode === 'reconcile' ? { probe: async () => probed(what) } : {}),
    }
    return context.effect(description, async ({ effectKey, idempotencyKey, spend }: EffectCall) => {
      process.point()
      if (tokens !== undefined && world.random() < 0.7) spend({ tokens: Math.floor(world.random() * (tokens + 5)) })
      const id = `${context.run}/${effectKey}`
      world.performed.set(id, (world.performed.get(id) ?? 0) + 1)
      const chance = world.random()
      if (chance < world.chances.failure) throw new EffectError('not now', { disposition: 'did_not_happen' })
      if (mutates) world.land(what, mode === 'idempotent' ? idempotencyKey : undefined)
      // Others go on meanwhile. What has happened is known at once: whoever looks finds it.
      for (let turns = Math.floor(world.random() * 4); turns > 0; turns--) await soon()
      process.point()
      if (chance < world.chances.failure * 1.5) throw new EffectError('no answer', { disposition: 'in_doubt' })
      return { about }
    })
  }
  const probed = (what: string) => {
    process.point()
    if (world.random() < 0.2) return 'inconclusive' as const
    return (world.landed.get(what) ?? 0) > 0 ? { landed: true as const, output: { about: 'probed' } } : { landed: false as const }
  }
  const invoke = (context: StepContext, { acts }: { acts: Act[] }): Promise<Json> => chained(context, acts, '')
  const output = Type.Any()
  const summary = 'Does what it is told'
  skills.set('sim.plain', defineSkill({ capability: 'sim.plain', summary, input, output, invoke }))
  skills.set('sim.pivot', defineSkill({ capability: 'sim.pivot', summary, input, output, compensation: 'pivot', invoke }))
  skills.set('sim.nothing', defineSkill({ capability: 'sim.nothing', summary, input, output, compensation: 'unnecessary', invoke }))
  const compensate = async (context: StepContext, { acts }: { acts: Act[] }): Promise<void> => {
    for (const one of acts.flatMap(singly)) if (one.do === 'effect' && one.mutates) await outward(context, { ...one, mode: 'idempotent' }, '/back')
  }
  skills.set('sim.undone', defineSkill({ capability: 'sim.undone', summary, input, output, invoke, compensate }))
  for (const [name, commissions] of [
    ['boss', ['hand']],
    ['hand', []],
  ] as const)
    registry.add(
      defineAgent({
        manifest: {
          apiVersion: 'svc/v1alpha1',
          kind: 'Agent',
          metadata: { name, version: '1' },
          spec: { capabilities: { provides: [`${name}.undone`, `${name}.plain`] }, security: { commissions: [...commissions] }, budgets: {} },
        },
        skills: (skill) => [
          skill({ capability: `${name}.plain`, summary, input, output, invoke }),
          skill({ capability: `${name}.undone`, summary, input, output, invoke, compensate }),
        ],
      }),
    )
  return registry
}

function singly(one: Act): Act[] {
  return one.do === 'both' || one.do === 'chain' ? one.acts.flatMap(singly) : [one]
}
