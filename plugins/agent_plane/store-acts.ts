/**
 * The operator API over a store that no server has open: what verbs ask of a running node, done to the rows themselves, in the name of an actor whom nobody has
 * asked for a token. Nothing is driven: what is to go on does so when a server starts.
 */
import type { CommandCall, StateStore } from 'svcdb'
import { DEFAULT_TENANT, type Json, type Operator, type TaskCaller } from 'svcdb/agents'
import { publicText, SvcError } from 'svcdb/lib/errors'
import { loadAgents } from './agents/load.ts'
import { AgentRegistry } from './agents/registry.ts'
import type { ApiAnswer } from './api-client.ts'
import type { AgentPlaneConfig } from './config.ts'
import { Driver } from './drive/driver.ts'
import { Sealer } from './log/sealer.ts'
import { OperatedCases, OperatedDrill, OperatedHolds } from './operate/cases.ts'
import { OperatedAttention, OperatedHalts, OperatedPush } from './operate/control.ts'
import { OperatedRuns } from './operate/runs.ts'
import { OperatedTasks } from './operate/tasks.ts'
import { tenantState } from './store/tenant.ts'
import { Desk } from './tasks/desk.ts'

/** As the API cuts its lists. */
const LIST_LIMIT = 100
const HISTORY_LIMIT = 200
const MAX_SEALED = 500
const MAX_NAME = 256
const SECOND = 1000
const MB = 1 << 20

/** What an act is about. */
interface Act {
  /** Of the path, in order. */
  ids: readonly string[]
  query: URLSearchParams
  // biome-ignore lint/suspicious/noExplicitAny: of whatever shape the verb has given it
  body: any
  by: Operator
  /** Likewise, with the roles. */
  caller: TaskCaller
}

type Plane = ReturnType<typeof planeOf>
type Handler = (plane: Plane, act: Act) => Promise<object | undefined>

const named = async (key: string, page: Promise<{ rows: unknown[]; truncated: boolean }>, more: object = {}): Promise<object> => {
  const { rows, truncated } = await page
  return { ...more, [key]: rows, truncated }
}

const decided =
  (decision: 'reopen' | 'abandon'): Handler =>
  async ({ runs }, { ids: [run], body: { reason }, by }) => {
    const status = await runs.decide(run, decision, by, reason)
    return { decided_by: by.actor, decision, status, reason: (await runs.view(run)).reason ?? null }
  }

/** `GET`, or `POST` where there is a body, and the path; `*` stands for an id. */
const ACTS: Readonly<Record<string, Handler>> = {
  'GET /attention': ({ attention }) => attention.view(),
  'GET /runs/waiting': ({ runs }) => named('runs', runs.waiting(LIST_LIMIT)),
  'GET /runs/*': ({ runs }, { ids: [run] }) => runs.view(run),
  'GET /runs/*/history': async ({ runs }, { ids: [run], query }) => {
    const { rows, truncated } = await runs.history(run, Number(query.get('from') ?? 1), HISTORY_LIMIT)
    if (rows.length === 0) throw new SvcError('NOT_FOUND', `cannot find run ${JSON.stringify(run.slice(0, 64))}: there is none`)
    return { run, records: rows, truncated, next_from: truncated ? (rows.at(-1)?.seq ?? 0) + 1 : null }
  },
  'POST /runs/*/cancel': ({ runs }, { ids: [run], body: { reason }, by }) => runs.cancel(run, by, reason),
  'POST /runs/*/reopen': decided('reopen'),
  'POST /runs/*/abandon': decided('abandon'),
  'POST /runs/*/reconcile': async ({ runs }, { ids: [run], body: { effect, ...said }, by }) => {
    await runs.reconcile(run, effect, said, by)
    return { asserted_by: by.actor, effect }
  },
  'GET /tasks': ({ tasks }, { caller }) => named('tasks', tasks.list(caller, LIST_LIMIT)),
  'GET /tasks/*': ({ tasks }, { ids: [task], caller }) => tasks.view(task, caller),
  'POST /tasks/*/claim': ({ tasks }, { ids: [task], caller }) => tasks.claim(task, caller),
  'POST /tasks/*/release': ({ tasks }, { ids: [task], caller }) => tasks.release(task, caller).then(() => undefined),
  'POST /tasks/*/takeover': ({ tasks }, { ids: [task], body: { from }, caller }) => tasks.takeOver(task, from, caller),
  'POST /tasks/*/decide': async ({ tasks }, { ids: [task], body, caller }) => {
    const { decided_by, approved } = await tasks.decide(task, body as { approved: boolean; reason: string; digest?: string; amendment?: Json }, caller)
    return { decided_by, approved }
  },
  // No operation of the API: a node drills by itself.
  'POST /drill': ({ drill }) => drill.run(),
  'POST /obligations/acknowledge': ({ cases }, { body, by }) => cases.acknowledge(body.case, body.obligation, by, body.note),
  'GET /holds': ({ holds }, { query }) =>
    query.get('state') === 'released'
      ? named('released', holds.released(LIST_LIMIT), { holds: [] })
      : named('holds', holds.standing(LIST_LIMIT), { released: [] }),
  'POST /holds': ({ holds }, { body, by }) => holds.place(body.case, by, body.reason),
  'POST /holds/release': ({ holds }, { body, by }) => holds.release(body.case, by),
  'GET /halts': async ({ halts }, { query }) =>
    query.get('state') === 'lifted'
      ? named('lifted', halts.lifted(LIST_LIMIT), { halts: [] })
      : { halts: await halts.standing(), lifted: [], truncated: false },
  'POST /halts': ({ halts }, { body, by }) => halts.place(body.scope, body.reason, by),
  'POST /halts/lift': ({ halts }, { body, by }) => halts.lift(body.scope, by),
  'POST /push/rearm': async ({ push }, { body }) => ({ rearmed: await push.rearm(body.run, body.id) }),
}

/** @throws Error where the store cannot be had, and for an actor that is none. */
export async function askStore<T>({ config, flags }: CommandCall, path: string, body?: object): Promise<ApiAnswer<T>> {
  const { actor = '', roles = '', tenant = DEFAULT_TENANT } = flags
  if (actor.trim() === '' || actor.length > MAX_NAME) throw new Error(`cannot act on the store: --actor names who does, in 1 to ${MAX_NAME} characters`)
  if (flags.url !== undefined || flags.api !== undefined)
    throw new Error('cannot act on the store of a node over its API: leave out --actor, or --url and --api')
  const given = await config()
  const section = given.section as AgentPlaneConfig | undefined
  if (section === undefined)
    throw new Error(
      'cannot act on the store: the config does not select the plugin agent_plane, or has no section [agent_plane]; name that of the node with --config',
    )
  if (tenant !== DEFAULT_TENANT && !section.tenants.includes(tenant))
    throw new Error(`cannot find tenant ${JSON.stringify(tenant.slice(0, 64))}: it has no plane here; name it in agent_plane.tenants`)
  const open = await given.ownState()
  if (open === undefined) throw new Error('cannot act on the store: the config names none that is kept on this machine')
  try {
    const registry = new AgentRegistry()
    await loadAgents(section.agents, registry)
    const plane = planeOf(tenantState(open.state, tenant), tenant, section, registry)
    const caller: TaskCaller = { actor, basis: 'asserted', roles: roles.split(',').flatMap((role) => (role.trim() === '' ? [] : [role.trim()])) }
    const answer = await answered(plane, caller, path, body)
    await plane.sealer.idle()
    return answer as ApiAnswer<T>
  } finally {
    await open.close()
  }
}

async function answered(plane: Plane, caller: TaskCaller, path: string, body: object | undefined): Promise<ApiAnswer<object>> {
  const { pathname, searchParams: query } = new URL(path, 'http://store')
  const ids: string[] = []
  const words = pathname.split('/').map((word, index, all) => {
    const isId = index === 2 && ['runs', 'tasks'].includes(all[1]) && word !== 'waiting'
    if (isId) ids.push(decodeURIComponent(word))
    return isId ? '*' : word
  })
  const handler = ACTS[`${body === undefined ? 'GET' : 'POST'} ${words.join('/')}`]
  if (handler === undefined) throw new Error(`cannot do "${pathname}" to a store: start its server, and leave out --actor`)
  try {
    const { actor, basis } = caller
    const answer = await handler(plane, { ids, query, body, caller, by: { actor, basis } })
    return { status: answer === undefined ? 204 : 200, body: answer ?? {} }
  } catch (error) {
    if (!(error instanceof SvcError) || error.kind.http >= 500) throw error
    return { status: error.kind.http, body: { error: publicText(error) } }
  }
}

function planeOf(state: StateStore, tenant: string, config: AgentPlaneConfig, registry: AgentRegistry) {
  const now = Date.now
  const leaseMs = config.lease_secs * SECOND
  const driver = new Driver({
    state,
    // Nothing is driven, and a run would not be found to lack its skill.
    drives: false,
    skills: new Map(),
    calendars: new Map(),
    holder: 'store',
    leaseMs,
    limits: { maxSteps: 0, maxEffects: 0 },
    now,
    random: Math.random,
    sleep: () => Promise.reject(new Error('nothing is driven')),
    soon: () => Promise.reject(new Error('nothing is driven')),
    every: () => () => {},
    performed: () => {},
  })
  const sealer = new Sealer(
    () => driver.seal(MAX_SEALED),
    () => {},
  )
  const maxHistoryBytes = config.max_history_mb * MB
  const parts = { state: () => state, driver: () => driver, now, leaseMs, sealer, tenant, maxHistoryBytes }
  const argumentsOf = (ref: string) => registry.all.flatMap(({ tools }) => tools).find((tool) => tool.ref === ref)?.arguments
  const desk = new Desk({ state, now, argumentsOf })
  return {
    sealer,
    runs: new OperatedRuns(driver, () => state, maxHistoryBytes),
    tasks: new OperatedTasks(
      () => desk,
      () => {},
    ),
    cases: new OperatedCases(parts),
    drill: new OperatedDrill(parts),
    holds: new OperatedHolds(parts),
    halts: new OperatedHalts(parts),
    push: new OperatedPush(parts),
    attention: new OperatedAttention(parts, true),
  }
}
