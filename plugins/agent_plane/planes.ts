/** The planes of this process, by tenant: the service AGENT_PLANES. */
import type { StateStore } from 'svcdb'
import { type AgentPlanes, DEFAULT_TENANT, type OperatedPlane } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import type { Driver } from './drive/driver.ts'
import { OperatedCases, OperatedDrill, OperatedHolds } from './operate/cases.ts'
import { OperatedAttention, OperatedHalts, OperatedLive, OperatedPush } from './operate/control.ts'
import { OperatedEvents } from './operate/events.ts'
import { OperatedRuns } from './operate/runs.ts'
import { OperatedTasks } from './operate/tasks.ts'
import { type PlaneDependencies, PlaneService } from './service.ts'
import { Desk } from './tasks/desk.ts'

/** What there is from the ready phase on. */
interface Running {
  /** Of the tenant alone. */
  state: StateStore
  driver: Driver
}

interface TenantDependencies extends Omit<PlaneDependencies, 'driver' | 'left'> {
  /** Runs of the tenant are left to a sweep. */
  left(tenant: string): void
  /** Whether there is something to send pushes with. */
  pushes: boolean
  /** Of the records of a history. */
  maxHistoryBytes: number
}

/** What a tenant has of the plane. */
export class TenantPlane implements OperatedPlane {
  readonly tenant: string
  readonly agents: PlaneService
  readonly runs: OperatedRuns
  readonly events: OperatedEvents
  readonly cases: OperatedCases
  readonly holds: OperatedHolds
  readonly drill: OperatedDrill
  readonly tasks: OperatedTasks
  readonly halts: OperatedHalts
  readonly live: OperatedLive
  readonly attention: OperatedAttention
  /** Where there is something to send with. */
  readonly push?: OperatedPush
  private begun: Running | undefined

  constructor(tenant: string, dependencies: TenantDependencies) {
    this.tenant = tenant
    this.agents = new PlaneService({ ...dependencies, driver: () => this.running.driver, left: () => dependencies.left(tenant) })
    const state = () => this.running.state
    this.runs = new OperatedRuns(this.agents, state, dependencies.maxHistoryBytes)
    this.events = new OperatedEvents(this.agents, state)
    const tools = {
      state,
      driver: () => this.running.driver,
      now: () => dependencies.clock.now(),
      sealer: this.agents.sealer,
      tenant,
      maxHistoryBytes: dependencies.maxHistoryBytes,
    }
    this.cases = new OperatedCases(tools)
    this.holds = new OperatedHolds(tools)
    this.drill = new OperatedDrill(tools)
    const argumentsOf = (tool: string, agent: string | undefined) => dependencies.registry.argumentsOf(tool, agent)
    const desk = () => new Desk({ state: this.running.state, now: tools.now, argumentsOf })
    this.tasks = new OperatedTasks(desk, (run) => this.agents.offer(run))
    const control = { state, driver: () => this.running.driver, now: () => dependencies.clock.now(), leaseMs: dependencies.leaseMs }
    this.halts = new OperatedHalts(control)
    this.live = new OperatedLive(control)
    if (dependencies.pushes) this.push = new OperatedPush(control)
    this.attention = new OperatedAttention(control, dependencies.pushes)
  }

  start(running: Running): void {
    this.begun = running
  }

  get isRunning(): boolean {
    return this.begun !== undefined
  }

  /** @throws SvcError OVERLOADED before it is there. */
  get running(): Running {
    if (this.begun === undefined) throw new SvcError('OVERLOADED', 'cannot use the agent plane yet: the node is starting; try again when it is ready')
    return this.begun
  }
}

export class Planes implements AgentPlanes {
  private readonly byTenant: ReadonlyMap<string, TenantPlane>

  /** @param tenants beside `default`. */
  constructor(tenants: readonly string[], dependencies: TenantDependencies) {
    this.byTenant = new Map([...new Set([DEFAULT_TENANT, ...tenants])].map((tenant) => [tenant, new TenantPlane(tenant, dependencies)]))
  }

  get tenants(): readonly string[] {
    return [...this.byTenant.keys()]
  }

  get all(): readonly TenantPlane[] {
    return [...this.byTenant.values()]
  }

  get default(): TenantPlane {
    return this.byTenant.get(DEFAULT_TENANT) as TenantPlane
  }

  find(tenant: string): TenantPlane | undefined {
    return this.byTenant.get(tenant)
  }

  /** @throws SvcError BAD_REQUEST. */
  named(tenant: string): TenantPlane {
    const plane = this.byTenant.get(tenant)
    if (plane === undefined)
      throw new SvcError('BAD_REQUEST', `cannot find tenant ${JSON.stringify(tenant.slice(0, 64))}: it has no plane here; name it in agent_plane.tenants`)
    return plane
  }
}
