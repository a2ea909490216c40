/** The parts put together: loaded where the section is. */
import { randomBytes, randomInt } from 'node:crypto'
import { type LoadedPolicies, POLICIES, type Policies, type StateStore, type Svc, WEBHOOKS, type Webhooks } from 'svcdb'
import { type Calendar, DEFAULT_TENANT, type PushConfig, type Skill } from 'svcdb/agents'
import { drainTime } from 'svcdb/lib/network'
import { type Agency, agencies } from './agents/agency.ts'
import { addSchedules, beginWaiting, warnOfMissed } from './agents/beginnings.ts'
import type { AgentRegistry } from './agents/registry.ts'
import { type EffectTally, type Figures, newTally, totals, writePoints } from './attention/figures.ts'
import { wallClock } from './cases/calendar.ts'
import { lastVerdict } from './cases/drill.ts'
import type { AgentPlaneConfig } from './config.ts'
import { Driver, type DriverTools } from './drive/driver.ts'
import { addRoutes } from './handler.ts'
import { type PlaneMetrics, planeMetrics } from './metrics.ts'
import { Planes, type TenantPlane } from './planes.ts'
import { currentOf, headersOf, OPERATOR } from './push/config.ts'
import { PushSender } from './push/sender.ts'
import { budgetsOf, quotaOf } from './quota/from-config.ts'
import { PLANE_SCHEMA, policyOf, rehearse } from './quota/policy.ts'
import { dropDeadLetters, forget, inParts } from './store/events.ts'
import { LeaseWatch } from './store/leases.ts'
import { runsOf, type Status } from './store/runs.ts'
import { tenantReader, tenantState, tenantsIn } from './store/tenant.ts'
import { countWaiting } from './store/waiting-signals.ts'
import { TakeUp } from './take-up.ts'
import { Turns } from './turns.ts'

const COUNTED: readonly Status[] = ['running', 'suspended', 'exhausted', 'failed', 'quarantined', 'withheld']
const SECOND = 1000
const DAY = 86_400_000
const MB = 1 << 20
const PUSH_INTERVAL_MS = 1000
const FIRST_DRILL_MS = 60_000
const MAX_COUNTED = 1000
const MAX_RETIRED = 1000
/** In a sweep, and in one transaction: a plane forgets faster than events come. */
const FORGOTTEN = { part: 1000, limit: 20_000 }
const CHANCE = 2 ** 32

/** @param registry the agents of the config; plugins add theirs in setup. */
export function assemble(svc: Svc, config: AgentPlaneConfig, registry: AgentRegistry): Planes {
  const figures = new Map<string, Figures>()
  const turns = new Turns(config.max_driving, new Set([DEFAULT_TENANT, ...config.tenants]).size)
  const agency = agencies(svc, config, registry)
  const metrics = planeMetrics(svc.metrics, { driving: () => turns.active, waiting: () => turns.waiting, figures: () => totals(figures.values()) })
  const calendars = new Map<string, Calendar>([[wallClock.name, wallClock]])
  const planes = new Planes(config.tenants, {
    registry,
    calendars,
    turns,
    clock: svc.clock,
    log: svc.log,
    metrics,
    leaseMs: config.lease_secs * SECOND,
    maxQueued: config.max_queued,
    left: (tenant) => takeUps.get(planes.find(tenant) as TenantPlane)?.follow(),
    pushes: svc.provided.has(WEBHOOKS),
    maxHistoryBytes: config.max_history_mb * MB,
  })
  const takeUps = new Map(planes.all.map((plane) => [plane, new TakeUp({ plane, turns, slice: config.sweep_runs, taken: () => metrics.recovered.inc() })]))
  const tallies = new Map(planes.tenants.map((tenant) => [tenant, newTally()]))
  const tallyOf = (tenant: string): EffectTally => tallies.get(tenant) as EffectTally
  const policies = policiesOf(svc, config, planes.tenants)
  svc.ready(async () => {
    const holder = randomBytes(12).toString('hex')
    for (const plane of planes.all) {
      const state = tenantState(svc.storage.state(svc.id), plane.tenant)
      const dependencies = { state, skills: registry.skills, calendars, holder, metrics, tally: tallyOf(plane.tenant), ...policies(plane.tenant) }
      plane.start({ state, driver: driverOf(svc, config, dependencies, { ...agency(plane, state), stopping: () => !plane.agents.isOpen }) })
    }
    for (const plane of planes.all) await warnOfMissed(svc, plane, config)
    await warnOfTenants(svc, planes)
  })
  svc.schedule('sweep', config.sweep_interval_secs * SECOND, async () => {
    const failures: unknown[] = []
    for (const [plane, takeUp] of takeUps) {
      if (!plane.isRunning) continue
      try {
        figures.set(plane.tenant, { ...(await sweep(svc, plane, takeUp, config, metrics)), effects: tallyOf(plane.tenant) })
      } catch (error) {
        // Those of other tenants are looked at all the same.
        failures.push(error)
      }
    }
    if (config.figures_namespace !== '' && figures.size > 0) await writePoints(svc, config.figures_namespace, svc.clock.now(), figures)
    if (failures.length > 0) throw failures[0]
  })
  if (config.drill_every_secs > 0) scheduleDrills(svc, config.drill_every_secs * SECOND, planes)
  if (svc.provided.has(WEBHOOKS)) schedulePushes(svc, config, metrics, planes)
  else if (config.push.length > 0) throw new Error('cannot tell agent_plane.push of runs: nothing here sends; select the plugin webhooks as well')
  const left = drainTime(svc)
  svc.drain(() => closeAgents(svc, left(config.drain_secs * SECOND), planes))
  addSchedules(svc, config, planes)
  addRoutes(svc, planes)
  return planes
}

/** At the start: what was begun for a tenant that the config has no more stands still. */
async function warnOfTenants(svc: Svc, planes: Planes): Promise<void> {
  const all = svc.storage.state(svc.id)
  for (const tenant of await tenantsIn(all)) {
    if (planes.find(tenant) !== undefined) continue
    const state = tenantReader(all, tenant)
    const [running, suspended] = await Promise.all((['running', 'suspended'] as const).map((status) => runsOf(state, status, MAX_COUNTED)))
    if (running.length + suspended.length > 0)
      svc.log.warn(
        { tenant, running: running.length, suspended: suspended.length },
        'runs of a tenant that agent_plane.tenants does not name are kept and do not go on, and nothing of it is swept: name it again',
      )
  }
}

function scheduleDrills(svc: Svc, everyMs: number, planes: Planes): void {
  const drillAll = async (): Promise<void> => {
    for (const { isRunning, drill, tenant } of planes.all) {
      if (!isRunning) continue
      const { first, findings } = await drill.run()
      if (findings !== 0) svc.log.error({ tenant, findings, first }, 'the drill has found what is not as it should be: what is lost or was changed')
    }
  }
  // A node may be started anew more often than it is due.
  const first = async (): Promise<number> => {
    const last = await lastVerdict(planes.default.running.state)
    return last === undefined ? Math.min(everyMs, FIRST_DRILL_MS) : Math.min(everyMs, Math.max(0, last.at + everyMs - svc.clock.now()))
  }
  svc.schedule('drill', everyMs, drillAll, { first })
}

function schedulePushes(svc: Svc, config: AgentPlaneConfig, metrics: PlaneMetrics, planes: Planes): void {
  const pushes = pushSender(svc, config, metrics)
  svc.schedule('push', PUSH_INTERVAL_MS, ({ signal }) => {
    const running = planes.all.filter(({ isRunning }) => isRunning)
    return pushes.run(
      running.map(({ tenant, running: { state } }) => ({ tenant, state })),
      signal,
    )
  })
}

/** Waits for what agents have under way, for as long as a drain may. */
async function closeAgents({ clock }: Svc, ms: number, planes: Planes): Promise<void> {
  let cancel = (): void => {}
  const late = new Promise<void>((resolve) => {
    cancel = clock.after(ms, resolve)
  })
  await Promise.race([Promise.all(planes.all.map(({ agents }) => agents.close())), late])
  cancel()
}

/** Looks at what is due of one tenant. */
async function sweep(svc: Svc, plane: TenantPlane, takeUp: TakeUp, config: AgentPlaneConfig, metrics: PlaneMetrics): Promise<Omit<Figures, 'effects'>> {
  const { attention } = plane
  const { driver, state } = plane.running
  const now = svc.clock.now()
  await takeUp.once()
  await beginWaiting(svc, plane, config.sweep_runs, config)
  metrics.deadLetters.inc(await driver.retire(config.event_grace_secs * SECOND, MAX_RETIRED))
  const graceMs = config.event_grace_secs * SECOND
  if (config.dedup_retention_days > 0) {
    const keptMs = Math.max(config.dedup_retention_days * DAY, graceMs)
    await inParts(state, FORGOTTEN, (tx, some) => forget(tx, now - keptMs, some))
  }
  if (config.dead_letter_retention_days > 0) {
    // A letter is as old as its event, which was kept for the grace before.
    const keptMs = config.dead_letter_retention_days * DAY + graceMs
    await inParts(state, FORGOTTEN, (tx, some) => dropDeadLetters(tx, now - keptMs, some))
  }
  const runs = new Map<string, number>()
  for (const status of COUNTED) runs.set(status, (await runsOf(state, status, MAX_COUNTED)).length)
  const { conditions } = await attention.view()
  const waitingSignals = await countWaiting(state)
  return { runs, attention: new Map(conditions.map(({ condition, found }) => [condition, found])), waitingSignals }
}

function pushSender(svc: Svc, config: AgentPlaneConfig, metrics: PlaneMetrics): PushSender {
  return new PushSender({
    current: (registered) => currentOf(registered, destinationsOf(config), svc.nodes.isShared),
    send: async (receiver, event) =>
      (await svc.find<Webhooks>(WEBHOOKS)?.send(receiver.url, event, headersOf(receiver))) ?? { result: 'failed', reason: 'nothing here sends' },
    now: () => svc.clock.now(),
    after: (ms, act) => svc.clock.after(ms, act),
    random: () => randomInt(CHANCE) / CHANCE,
    told: (result) => metrics.pushes.inc({ result }),
  })
}

/** Those of the config. */
function destinationsOf({ push }: AgentPlaneConfig): PushConfig[] {
  return push.map(({ id, url }) => ({ id: `${OPERATOR}${id}`, url: url.reveal() }))
}

/** Absent = all may be done. */
type Governing = Pick<DriverTools, 'policy' | 'policyBundle'>

/** Loads them when the node starts. @returns what answers for a tenant. */
function policiesOf(svc: Svc, { policy: path }: AgentPlaneConfig, tenants: readonly string[]): (tenant: string) => Governing {
  if (path === undefined) return () => ({})
  if (!svc.provided.has(POLICIES)) throw new Error('cannot use agent_plane.policy: nothing here reads policies; select the plugin cedar as well')
  let loaded: LoadedPolicies | undefined
  svc.start(async () => {
    loaded = await (svc.find<Policies>(POLICIES) as Policies).load({ path, schema: PLANE_SCHEMA })
    rehearse(loaded, tenants)
  })
  svc.stop(() => loaded?.close())
  return (tenant) => ({ policy: policyOf(loaded as LoadedPolicies, tenant, svc.log), policyBundle: (loaded as LoadedPolicies).bundle })
}

interface DriverDependencies extends Governing {
  tally: EffectTally
  state: StateStore
  skills: ReadonlyMap<string, Skill>
  calendars: ReadonlyMap<string, Calendar>
  holder: string
  metrics: PlaneMetrics
}

function driverOf(
  svc: Svc,
  config: AgentPlaneConfig,
  { metrics, tally, ...dependencies }: DriverDependencies,
  agency: Agency & Pick<DriverTools, 'stopping'>,
): Driver {
  const { clock } = svc
  return new Driver({
    ...agency,
    ...dependencies,
    leaseMs: config.lease_secs * SECOND,
    ...(svc.nodes.isShared ? { watch: new LeaseWatch(config.lease_secs * SECOND, () => clock.monotonic()) } : {}),
    limits: budgetsOf(config),
    quota: quotaOf(config),
    destinations: destinationsOf(config),
    maxPushes: config.max_pushes_per_run,
    maxEventKeys: config.max_event_keys,
    room: { events: config.max_buffered_events, bytes: config.max_buffered_mb * MB },
    ...(svc.provided.has(WEBHOOKS) ? { checkReceiver: async (url: string) => svc.find<Webhooks>(WEBHOOKS)?.check(url) } : {}),
    operation: svc.tracing.operation,
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    random: () => randomInt(CHANCE) / CHANCE,
    sleep: (ms) => new Promise((resolve) => void clock.after(ms, resolve)),
    soon: () => new Promise((resolve) => void setImmediate(resolve)),
    every: (ms, act) => repeat(svc, ms, act),
    performed(result, ms) {
      metrics.effects.inc({ result })
      metrics.effectSeconds.inc(ms / SECOND)
      tally[result]++
      tally.seconds += ms / SECOND
    },
  })
}

function repeat({ clock }: Svc, ms: number, act: () => void): () => void {
  let cancel = clock.after(ms, again)
  function again(): void {
    act()
    cancel = clock.after(ms, again)
  }
  return () => cancel()
}
