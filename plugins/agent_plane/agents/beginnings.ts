/**
 * Runs that begin by themselves: by signals of triggers, by events, and by the clock. A key says of a signal and of a time that its run has begun, so that it
 * begins once; an event begins its run in the transaction that takes it.
 */
import type { Counter, SignalSink, Svc, TriggerSignal } from 'svcdb'
import { type AgentEvent, type CaseChoice, DEFAULT_TENANT, type Json, type RunRequest } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import type { AgentPlaneConfig } from '../config.ts'
import type { Planes, TenantPlane } from '../planes.ts'
import { NotNow } from '../quota/gate.ts'
import { dropWaiting, keepWaiting, type WaitingRun, waitingCapabilities, waitingRuns } from '../store/waiting-signals.ts'

/** What begins has no name of its own beside this. */
const actorOf = (what: string): string => `svc:${what}`.slice(0, 256)

/**
 * @returns why it may not begin yet. @throws what the store throws; a run that is refused for good is told to the log, for it would be refused again.
 */
async function begin(svc: Svc, { agents }: Pick<TenantPlane, 'agents'>, request: RunRequest): Promise<NotNow | undefined> {
  try {
    await agents.run(request)
  } catch (error) {
    if (error instanceof NotNow) return error
    if (!(error instanceof SvcError) || !['BAD_REQUEST', 'FORBIDDEN', 'CONFLICT'].includes(error.code)) throw error
    refused(svc, request, error)
  }
  return undefined
}

function refused(svc: Svc, { capability, actor }: RunRequest, error: SvcError): void {
  svc.log.warn({ err: error, capability, by: actor }, 'a run has not been begun')
}

/** In setup: a rule of a tenant that has no plane would hold up the triggers, or never begin anything. @throws Error naming the rule. */
export function requireTenants({ tenants, on_signal, on_event, schedules }: AgentPlaneConfig): void {
  const rules = [
    ...on_signal.map(({ trigger, tenant }) => ({ rule: `agent_plane.on_signal of trigger "${trigger}"`, tenant })),
    ...on_event.map(({ kind, tenant }) => ({ rule: `agent_plane.on_event of kind "${kind}"`, tenant })),
    ...schedules.map(({ name, tenant }) => ({ rule: `agent_plane.schedules "${name}"`, tenant })),
  ]
  for (const { rule, tenant } of rules)
    if (tenant !== DEFAULT_TENANT && !tenants.includes(tenant))
      throw new Error(`cannot use ${rule}: there is no tenant "${tenant}"; name it in agent_plane.tenants`)
}

/** In setup. What may not begin yet is kept for the sweep: triggers wait for no agent. */
export function signalSink(svc: Svc, config: AgentPlaneConfig, planes: Planes): SignalSink {
  const dropped = svc.metrics.counter('agent_plane_dropped_signals_total', 'Signals that begin no run because max_waiting_signals wait for one already')
  const rules = new Map<string, AgentPlaneConfig['on_signal']>()
  for (const rule of config.on_signal) rules.set(keyOf(rule.namespace, rule.trigger), [...(rules.get(keyOf(rule.namespace, rule.trigger)) ?? []), rule])
  return {
    async take(namespace, signals) {
      for (const signal of signals)
        for (const { capability, tenant, case: matter } of rules.get(keyOf(namespace, signal.trigger_name)) ?? []) {
          const idempotencyKey = `signal:${namespace}:${signal.event_id}:${capability}`
          const request = { capability, input: inputOf(signal), idempotencyKey, actor: actorOf(`trigger/${signal.trigger_name}`) }
          const missing = matter?.keys.find(({ tag }) => signal.tags[tag] === undefined)?.tag
          if (missing !== undefined)
            svc.log.warn({ capability, trigger: signal.trigger_name, tag: missing }, 'a run has not been begun: its signal lacks a tag of its case')
          else await beginOrKeep(svc, planes.named(tenant), { ...request, ...(matter === undefined ? {} : { case: caseOf(matter, signal) }) }, config, dropped)
        }
    },
  }
}

async function beginOrKeep(svc: Svc, plane: TenantPlane, request: WaitingRun, config: AgentPlaneConfig, dropped: Counter): Promise<void> {
  const { state } = plane.running
  const [first] = await waitingRuns(state, request.capability, 1)
  const later = first === undefined ? await begin(svc, plane, request) : undefined
  if (first === undefined && later === undefined) return
  if (await state.transaction((tx) => keepWaiting(tx, request, svc.clock.now(), config.max_waiting_signals))) return
  dropped.inc()
  const reason = later?.message ?? 'others of its capability wait already'
  svc.log.error({ capability: request.capability, by: request.actor, reason }, 'a signal begins no run: agent_plane.max_waiting_signals wait for one already')
}

/** Begins what waited, of each capability the oldest first, until one may not begin yet. @param slice of each capability. */
export async function beginWaiting(svc: Svc, plane: TenantPlane, slice: number, config: AgentPlaneConfig): Promise<void> {
  const { state } = plane.running
  for (const capability of await waitingCapabilities(state)) {
    if (isMissed(plane, capability, config)) continue
    for (const request of await waitingRuns(state, capability, slice)) {
      if ((await begin(svc, plane, request)) !== undefined) break
      await state.transaction((tx) => dropWaiting(tx, request))
    }
  }
}

/** A rule wants a capability whose plugin or agent is not here now: what waits for it is not lost by that. */
function isMissed({ agents, tenant }: TenantPlane, capability: string, { on_signal: rules }: AgentPlaneConfig): boolean {
  return !agents.hasSkill(capability) && rules.some((rule) => rule.tenant === tenant && rule.capability === capability)
}

/** At the start. */
export async function warnOfMissed(svc: Svc, plane: TenantPlane, config: AgentPlaneConfig): Promise<void> {
  for (const capability of await waitingCapabilities(plane.running.state))
    if (isMissed(plane, capability, config))
      svc.log.warn(
        { tenant: plane.tenant, capability },
        'signals wait to begin runs, and nothing here has their capability: select its plugin or name its agent again, or take it out of agent_plane.on_signal to have them dropped',
      )
}

const keyOf = (namespace: string, trigger: string): string => JSON.stringify([namespace, trigger])

function caseOf({ kind, keys }: NonNullable<AgentPlaneConfig['on_signal'][number]['case']>, { tags }: TriggerSignal): CaseChoice {
  return { kind, correlation: keys.map(({ namespace, tag }) => ({ namespace, value: tags[tag] })) }
}

function inputOf({ value, ...signal }: TriggerSignal): Json {
  // JSON has no infinities.
  return { ...signal, value: Number.isFinite(value) ? value : String(value) }
}

/** What an event begins that no run of the tenant waits for: it is the input of the run, and as far to be trusted. */
export function beginningsOf({ label, ...event }: AgentEvent, tenant: string, { on_event: rules }: AgentPlaneConfig): RunRequest[] {
  const { kind, source, correlation } = event
  const origin = label ?? { provenance: [`event:${source}`], trust: 'untrusted', sensitivity: 'internal' }
  return rules
    .filter((rule) => rule.kind === kind && rule.tenant === tenant)
    .map(({ capability, case: matter }) => ({
      capability,
      input: event as unknown as Json,
      label: origin,
      actor: actorOf(`event/${kind}`),
      ...(matter === undefined ? {} : { case: { kind: matter.kind, correlation } }),
    }))
}

/** Schedules of a minute and more go on over restarts; what is more often than that is due soon after a start anyway. */
const KEPT_MS = 60_000
/** After a failure, such as of a state store that is out of reach; the next time may be a day away. */
const RETRY_MS = 60_000

/** In setup. */
export function addSchedules(svc: Svc, config: AgentPlaneConfig, planes: Planes): void {
  for (const { name, every_secs: every, capability, input, tenant } of config.schedules) {
    const everyMs = every * 1000
    const key = `schedule/${name}`
    const slotKey = `schedule_slot/${name}`
    const state = () => planes.named(tenant).running.state
    let own = -1
    /** When it was begun, as the monotonic clock has it; and its number while it is not known to have gone through. */
    let tried: { at: number; slot?: number } | undefined
    /** The number of the time that has come: a clock that was set back does not tell those again that have had their runs. */
    const nextSlot = async (now: number): Promise<number> => {
      const last = Math.round(((await state().get<number>(slotKey)) ?? 0) / everyMs)
      const at = await state().get<number>(key)
      // Since then numbers are ahead of the clock by so many.
      const ahead = at === undefined ? 0 : Math.max(0, last - Math.floor(at / everyMs))
      // Another process that shares the state may have begun the same one.
      const slot = Math.floor(now / everyMs) + ahead
      own = Math.max(last > slot ? last + 1 : slot, own + 1)
      return own
    }
    const job = async (): Promise<void> => {
      const now = svc.clock.now()
      const at = svc.clock.monotonic()
      const since = tried === undefined ? Number.POSITIVE_INFINITY : at - tried.at
      // It has gone through, and only that was not noted.
      if (tried !== undefined && tried.slot === undefined && since < everyMs / 2) return
      // One that failed may have begun its run.
      const slot = (since < everyMs ? tried?.slot : undefined) ?? (await nextSlot(now))
      tried = { at: slot === tried?.slot ? tried.at : at, slot }
      const request = { capability, input: input as Json, idempotencyKey: `schedule:${name}:${slot}`, actor: actorOf(`schedule/${name}`) }
      const later = await begin(svc, planes.named(tenant), request)
      // The next time comes by itself.
      if (later !== undefined) refused(svc, request, later)
      await state().transaction((tx) => {
        tx.put(slotKey, slot * everyMs)
        if (everyMs >= KEPT_MS) tx.put(key, now)
      })
      tried = { at }
    }
    /** Goes on where a process before this one has left it: a node may be started anew more often than it is due. */
    const first = async (): Promise<number> => {
      const now = svc.clock.now()
      const before = everyMs < KEPT_MS ? undefined : await state().get<number>(key)
      // A time that lies ahead was noted by a wrong clock.
      const since = before === undefined || before > now ? now : before
      // A node starts on a full disk, too.
      if (since !== before && everyMs >= KEPT_MS)
        await state()
          .transaction((tx) => tx.put(key, now))
          .catch((err: Error) => svc.log.warn({ err, schedule: name }, 'the time of a schedule was not kept'))
      return Math.max(0, since + everyMs - now)
    }
    svc.schedule(`agents_${name}`, everyMs, job, { first, retry: RETRY_MS, jitter: 0 })
  }
}
