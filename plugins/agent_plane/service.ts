/** The plane of a tenant: what its runs are begun, driven and steered by in this process. That of the default tenant is the service AGENTS. */
import type { Clock, Logger } from 'svcdb'
import type { Agent, AgentPlane, Calendar, Operator, PushConfig, ReplayReport, RunRequest, RunStanding, Skill } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { SampledLog } from 'svcdb/lib/source'
import type { AgentRegistry } from './agents/registry.ts'
import type { Driver } from './drive/driver.ts'
import { Sealer } from './log/sealer.ts'
import type { PlaneMetrics } from './metrics.ts'
import { NotNow } from './quota/gate.ts'
import type { Parent } from './store/children.ts'
import { FINAL, type Status } from './store/runs.ts'
import type { Turns } from './turns.ts'

const POLL_MS = 100
/** Runs that one transaction enters into the log. */
const MAX_SEALED = 500

export interface PlaneDependencies {
  /** @throws SvcError OVERLOADED before it is there. */
  driver(): Driver
  /** Shared by all tenants. */
  registry: AgentRegistry
  /** Likewise. */
  calendars: Map<string, Calendar>
  turns: Turns
  /** Runs that wait for their turn, of all tenants; what is above it is left to a sweep, and to whoever else looks. */
  maxQueued: number
  leaseMs: number
  /** Told of each run that is left. */
  left?(): void
  clock: Clock
  log: Logger
  metrics: PlaneMetrics
}

export class PlaneService implements AgentPlane {
  readonly sealer: Sealer
  private readonly dependencies: PlaneDependencies
  private readonly passes = new Map<string, Promise<void>>()
  /** Whose pass has begun, and not only waits for its turn. */
  private readonly begun = new Set<string>()
  /** Something has happened to them while a pass was under way. */
  private readonly again = new Set<string>()
  /** Leases of those that wait for their turn. */
  private readonly unused = new Map<string, UnusedLease>()
  private readonly handingBack = new Set<Promise<void>>()
  /** Each sweep meets a full disk again, with all runs that are to go on. */
  private readonly full: SampledLog
  private closing = false

  constructor(dependencies: PlaneDependencies) {
    this.dependencies = dependencies
    this.full = new SampledLog(dependencies.log, () => dependencies.clock.monotonic())
    const failed = (error: unknown) => dependencies.log.warn({ err: error }, 'ended runs are not in the transparency log yet, and are entered later')
    this.sealer = new Sealer(() => this.driver.seal(MAX_SEALED), failed)
  }

  skill(skill: Skill): void {
    const { skills } = this.dependencies.registry
    if (skills.has(skill.capability)) throw new Error(`cannot take skill "${skill.capability}": there is one of this capability`)
    skills.set(skill.capability, skill)
  }

  hasSkill(capability: string): boolean {
    return this.dependencies.registry.skills.has(capability)
  }

  calendar(calendar: Calendar): void {
    const { calendars } = this.dependencies
    if (calendars.has(calendar.name)) throw new Error(`cannot take calendar "${calendar.name}": there is one of this name`)
    calendars.set(calendar.name, calendar)
  }

  agent(agent: Agent): void {
    this.dependencies.registry.add(agent)
  }

  run(request: RunRequest): Promise<{ run: string; existing: boolean }> {
    return this.begin(request)
  }

  /** @param parent the run that commissions it. @throws NotNow when the process is to end. */
  async begin(request: RunRequest, parent?: Parent): Promise<{ run: string; existing: boolean }> {
    if (this.closing) throw new NotNow('OVERLOADED', 'cannot begin a run: the node is stopping; begin it when it is back, or at another one')
    const { run, existing, epoch } = await this.driver.admit(request, parent)
    if (!existing) {
      this.dependencies.metrics.admitted.inc()
      this.offer(run, epoch)
    }
    return { run, existing }
  }

  async settled(run: string): Promise<string> {
    for (;;) {
      await this.passes.get(run)
      const status = await this.driver.status(run)
      if (status !== 'running') return status
      if (!this.passes.has(run)) await new Promise<void>((resolve) => void this.dependencies.clock.after(POLL_MS, resolve))
    }
  }

  /** @throws SvcError NOT_FOUND. */
  status(run: string): Promise<string> {
    return this.driver.status(run)
  }

  standing(run: string): Promise<RunStanding> {
    return this.driver.standing(run)
  }

  replay(run: string): Promise<ReplayReport> {
    return this.driver.replay(run)
  }

  async resume(run: string): Promise<string> {
    await this.passes.get(run)
    return this.counted(() => this.driver.resume(run))
  }

  async deliver(...[event, by]: Parameters<AgentPlane['deliver']>): ReturnType<AgentPlane['deliver']> {
    const { begun, ...answer } = await this.driver.deliver(event, by)
    this.dependencies.metrics.events.inc({ delivery: answer.delivery })
    for (const { run, epoch } of begun) {
      this.dependencies.metrics.admitted.inc()
      this.offer(run, epoch)
    }
    if (answer.delivery === 'resumed' && answer.run !== undefined) this.offer(answer.run)
    return answer
  }

  push(run: string, receiver: PushConfig): Promise<void> {
    return this.driver.registerPush(run, receiver)
  }

  async cancel(run: string, by: Operator, reason: string): ReturnType<AgentPlane['cancel']> {
    const answer = await this.driver.cancel(run, by, reason)
    this.offer(run)
    return answer
  }

  decide(run: string, decision: 'reopen' | 'abandon', by: Operator, reason: string): Promise<string> {
    return this.counted(() => this.driver.decide(run, decision, by, reason))
  }

  reconcile(run: string, effect: string, said: Parameters<AgentPlane['reconcile']>[2], by: Operator): Promise<void> {
    return this.driver.reconcile(run, effect, said, by)
  }

  get isOpen(): boolean {
    return !this.closing
  }

  /** Whether a pass over the run is under way here, or waits for its turn. */
  isTaken(run: string): boolean {
    return this.passes.has(run)
  }

  /** As `launch`, where not too many wait already. */
  offer(run: string, epoch?: number): void {
    const { turns, maxQueued, left } = this.dependencies
    if (!this.closing && (this.passes.has(run) || turns.hasRoom(this, maxQueued))) return this.launch(run, epoch)
    if (epoch !== undefined) void this.handBack(run, epoch)
    if (!this.closing) left?.()
  }

  /** Has a run go on, as soon as there is room. @param epoch of the lease that this process has for it. */
  launch(run: string, epoch?: number): void {
    if (this.closing) return
    if (this.passes.has(run)) {
      this.again.add(run)
      return
    }
    const lease = new UnusedLease(epoch, (unused) => this.handBack(run, unused))
    this.unused.set(run, lease)
    let cancel = (): void => {}
    const turn = new Promise<void>((begin) => {
      this.dependencies.turns.take(this, () => {
        cancel()
        this.unused.delete(run)
        this.begun.add(run)
        begin()
      })
    })
    // Before it lapses: nothing renews it as long as its run only waits.
    if (!this.begun.has(run) && epoch !== undefined) cancel = this.dependencies.clock.after(this.dependencies.leaseMs / 2, () => lease.giveBack())
    const pass = turn
      .then(() => lease.taken())
      .then((taken) => this.counted(() => this.driver.drive(run, taken)))
      .then(
        () => {},
        (error: unknown) => {
          // A broken pass is taken up by a sweep when its lease has lapsed.
          const { code } = error as { code?: string }
          if (code === 'CONFLICT') return
          const log = code === 'STORAGE_FULL' ? this.full : this.dependencies.log
          log.warn({ err: error, run }, 'a run has been interrupted, and goes on later')
        },
      )
      .finally(() => {
        this.begun.delete(run)
        this.passes.delete(run)
        if (this.again.delete(run)) this.launch(run)
        this.dependencies.turns.end(this)
      })
    this.passes.set(run, pass)
  }

  private handBack(run: string, epoch: number): Promise<void> {
    const done = this.driver
      .handBack(run, epoch)
      // A lease that cannot be given back lapses.
      .catch((error: unknown) => this.dependencies.log.warn({ err: error, run }, 'a lease was not given back, and lapses'))
      .finally(() => this.handingBack.delete(done))
    this.handingBack.add(done)
    return done
  }

  /** Begins nothing any more. Resolves when what is under way has come to a boundary between steps, and no lease is held. */
  async close(): Promise<void> {
    this.closing = true
    this.dependencies.turns.forget(this)
    for (const run of [...this.passes.keys()]) if (!this.begun.has(run)) this.passes.delete(run)
    for (const lease of this.unused.values()) void lease.giveBack()
    await Promise.allSettled([...this.passes.values()])
    while (this.handingBack.size > 0) await Promise.allSettled(this.handingBack)
    await this.sealer.idle()
  }

  private async counted(pass: () => Promise<string>): Promise<string> {
    try {
      const status = await pass()
      this.dependencies.metrics.settled.inc({ status })
      if (FINAL.has(status as Status)) this.sealer.poke()
      return status
    } catch (error) {
      if (!(error instanceof SvcError)) this.dependencies.metrics.broken.inc()
      throw error
    }
  }

  private get driver(): Driver {
    return this.dependencies.driver()
  }
}

/** The lease of a run that waits for its turn. */
class UnusedLease {
  private epoch: number | undefined
  private readonly back: (epoch: number) => Promise<void>
  private given: Promise<void> | undefined

  constructor(epoch: number | undefined, back: (epoch: number) => Promise<void>) {
    this.epoch = epoch
    this.back = back
  }

  /** Does nothing once it is taken. */
  giveBack(): Promise<void> {
    const { epoch } = this
    this.epoch = undefined
    if (epoch !== undefined) this.given = this.back(epoch)
    return this.given ?? Promise.resolve()
  }

  /** For its use. @returns undefined when it was given back. */
  async taken(): Promise<number | undefined> {
    await this.given
    const { epoch } = this
    this.epoch = undefined
    return epoch
  }
}
