/**
 * Kills a node again and again while its runs spend, fail and try again, ask persons until a time, and owe their cases something by a time; events, signals and a
 * clock begin runs, operators act two at a time. Between two starts the wall clock jumps, bounds are lowered below what is in use, and the plane may be off.
 * What the journals say (`svc plane export`) is held against what was answered, and against what a counter outside was told: see duties-model.ts.
 *
 *   node test/crash/duties.ts [kills] [seed]
 */
import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Random, seeded } from 'svcdb/lib/random'
import { type Answered, Counter, Journals, MOST, Wrong } from './duties-model.ts'
import { failure, type Section, ServerProcess } from './server.ts'
import { must } from './trigger-loop.ts'

const MAIN = fileURLToPath(new URL('../../kernel/main.ts', import.meta.url))
const AGENT = fileURLToPath(new URL('./duties-agent.ts', import.meta.url))
const READY_MS = 60_000
const PATIENCE_MS = 240_000
const AT_ONCE = 5
const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** Persons, and the one who decides what was escalated. */
const PERSONS = ['ann', 'bob'] as const
const CHIEF = 'chief'
/** So that no jump is into another period. */
const MIDDLE_OF_A_MONTH = Date.UTC(2031, 4, 15, 12)
const GRACE_SECS = 4

const CAPABILITIES = ['duties.spend', 'duties.retry', 'duties.ask', 'duties.owe']

const tokenOf = (actor: string): string => `token-of-${actor}-`.padEnd(40, 'x')

export interface DutiesReport {
  kills: number
  counts: Record<string, number>
  statuses: Record<string, number>
}

interface Reply {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: of the shape of its operation
  body: any
}

/** How the node is started. */
interface Setting {
  tokens: number
  concurrent: number
  /** Without it nothing of the plane is there. */
  plane: boolean
  /** Without them nothing begins by itself. */
  schedules?: boolean
}

class Operators implements Answered {
  readonly keys: Answered['keys'] = new Map()
  readonly decisions: Answered['decisions'] = new Map()
  readonly acknowledgements: Answered['acknowledgements'] = new Map()
  readonly events: Answered['events'] = new Map()
  readonly points: Answered['points'] = new Map()
  readonly cancelled: Answered['cancelled'] = new Map()
  readonly counts: Record<string, number> = {}
  server: ServerProcess | undefined
  private readonly random: Random
  private readonly url: string
  private next = 0
  private halted = false

  constructor(random: Random, url: string) {
    this.random = random
    this.url = url
  }

  private pick<T>(of: readonly T[]): T {
    return of[Math.floor(this.random() * of.length)]
  }

  private count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  /** @returns undefined when the server died before it answered. */
  async call(path: string, body?: object | string, actor?: string): Promise<Reply | undefined> {
    try {
      const answer = await fetch(`${this.server?.url}${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          ...(body === undefined ? {} : { 'content-type': typeof body === 'string' ? 'text/plain' : 'application/json' }),
          ...(actor === undefined ? {} : { authorization: `Bearer ${tokenOf(actor)}` }),
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
      const text = await answer.text()
      return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
    } catch {
      return undefined
    }
  }

  plane(actor: string, path: string, body?: object): Promise<Reply | undefined> {
    return this.call(`/api/v1/plane${path}`, body, actor)
  }

  private expect(reply: Reply | undefined, statuses: readonly number[], what: string): void {
    if (reply !== undefined && !statuses.includes(reply.status)) throw new Wrong(`${what}: ${reply.status} ${JSON.stringify(reply.body)}`)
  }

  readonly acts: (() => Promise<void>)[] = [
    () => this.begin(),
    () => this.begin(),
    () => this.decide(),
    () => this.decide(),
    () => this.tell(),
    () => this.perform(),
    () => this.write(),
    () => this.halt(),
    () => this.cancel(),
    () => this.acknowledge(),
  ]

  act(): Promise<void> {
    return this.pick(this.acts)()
  }

  private input(capability: string): object {
    if (capability === 'duties.spend') return { url: this.url, times: 1 + Math.floor(this.random() * 4), most: MOST }
    if (capability === 'duties.retry') return { url: this.url, times: 3 }
    const withinMs = this.pick([300, 2000, MINUTE, 2 * HOUR])
    return capability === 'duties.owe' ? { withinMs } : { withinMs, policy: this.pick(['deny', 'escalate', 'proceed']) }
  }

  /** One run of each kind, so that there is something of all. */
  async beginAll(): Promise<void> {
    for (const capability of CAPABILITIES) await this.begin(capability)
  }

  private async begin(wanted?: string): Promise<void> {
    const key = wanted === undefined && this.keys.size > 0 && this.random() < 0.3 ? this.pick([...this.keys.keys()]) : `k${this.next++}`
    const capability = wanted ?? this.pick(CAPABILITIES)
    const known = this.keys.get(key) ?? { capability, input: this.input(capability), run: undefined, isUnknown: false }
    this.keys.set(key, known)
    const order = { kind: 'order', correlation: [{ namespace: 'order', value: `o${Number(key.slice(1)) % 7}` }] }
    const { run, isUnknown } = known
    if (run !== undefined && this.random() < 0.2) {
      const other = await this.call('/api/v1/admin/agents/runs', { capability: 'duties.note', input: { key }, idempotency_key: key })
      this.expect(other, [409], `key ${key} of ${run}`)
      return
    }
    known.isUnknown = true
    const body = { capability: known.capability, input: known.input, idempotency_key: key, ...(known.capability === 'duties.owe' ? { case: order } : {}) }
    const reply = await this.call('/api/v1/admin/agents/runs', body)
    if (reply === undefined) return
    this.expect(reply, [202, 403, 429], `begin ${key}`)
    if (reply.status === 202) {
      if (run !== undefined && (run !== reply.body.run || reply.body.existing !== true))
        throw new Wrong(`key ${key} stands for ${run}, and for ${reply.body.run}`)
      known.run = reply.body.run
      this.count('begun')
    } else {
      if (run !== undefined) throw new Wrong(`key ${key} of ${run} is refused: ${JSON.stringify(reply.body)}`)
      known.isUnknown = isUnknown
      this.count('refused')
    }
  }

  private async decide(): Promise<void> {
    const who = this.random() < 0.5 ? CHIEF : 'ann'
    const task = this.pick<{ id: string } | undefined>((await this.plane(who, '/tasks'))?.body.tasks ?? [])
    if (task === undefined || this.random() < 0.3) return
    const said = (who === CHIEF ? [CHIEF] : PERSONS).map((decided_by) => ({
      decided_by,
      approved: this.random() < 0.5,
      reason: `r${Math.floor(this.random() * 1e9)}`,
    }))
    const known = this.decisions.get(task.id) ?? { heard: undefined, lost: [] }
    this.decisions.set(task.id, known)
    await Promise.all(
      said.map(async ({ decided_by, ...decision }) => {
        const reply = await this.plane(decided_by, `/tasks/${task.id}/decide`, decision)
        if (reply === undefined) known.lost.push({ decided_by, ...decision })
        this.expect(reply, [200, 403, 409], `decide ${task.id}`)
        if (reply?.status !== 200) return
        if (known.heard !== undefined) throw new Wrong(`task ${task.id} was decided twice`)
        known.heard = { decided_by, ...decision }
        this.count('decided')
      }),
    )
  }

  private async tell(): Promise<void> {
    const id = this.events.size > 0 && this.random() < 0.3 ? this.pick([...this.events.keys()]) : `e${this.next++}`
    const known = this.events.get(id) ?? { kind: this.pick(['duties.note', 'duties.nobody']), run: undefined, isTaken: false }
    this.events.set(id, known)
    // As of now: an operator beside this one may tell it at the same time, and be answered first.
    const { isTaken, run } = known
    const reply = await this.plane('ann', '/events', { id, kind: known.kind, correlation: [], payload: null })
    this.expect(reply, [200], `event ${id}`)
    if (reply === undefined) return
    if (isTaken && (reply.body.delivery !== 'duplicate' || reply.body.run !== run))
      throw new Wrong(`event ${id} was taken, and is ${JSON.stringify(reply.body)}`)
    known.isTaken = true
    known.run = reply.body.run
    this.count('events')
  }

  /** What a run owes is to be done. */
  private async perform(): Promise<void> {
    const owing = [...this.keys.values()].filter(({ run, capability }) => run !== undefined && capability === 'duties.owe')
    const one = this.pick(owing)
    if (one === undefined || this.random() < 0.5) return
    await this.performFor(`do-${one.run}`, one.run as string)
  }

  async performFor(id: string, run: string): Promise<void> {
    const reply = await this.plane('bob', '/events', { id, kind: 'duties.do', correlation: [{ namespace: 'run', value: run }], payload: null })
    this.expect(reply, [200], id)
    if (reply !== undefined) this.count('performed')
  }

  private async write(): Promise<void> {
    const n = this.next++
    const isAlarm = this.random() < 0.5
    if (isAlarm) this.points.set(String(n), false)
    const reply = await this.call('/write', `cpu,n=${n} value=${isAlarm ? 99 : 1} ${MIDDLE_OF_A_MONTH - HOUR + n}000000`)
    this.expect(reply, [204], 'write')
    if (reply === undefined || !isAlarm) return
    this.points.set(String(n), true)
    this.count('signals')
  }

  private async halt(): Promise<void> {
    if (!this.halted && this.random() < 0.8) return
    if (this.halted) await sleep(100)
    const reply = await this.plane('ann', this.halted ? '/halts/lift' : '/halts', { scope: 'tenant', ...(this.halted ? {} : { reason: 'a while' }) })
    this.expect(reply, [200], 'halt')
    if (reply !== undefined) this.halted = reply.body.halted
  }

  async lift(): Promise<void> {
    this.expect(await this.plane('ann', '/halts/lift', { scope: 'tenant' }), [200], 'lift')
    this.halted = false
  }

  get isHalted(): boolean {
    return this.halted
  }

  /** Decides all tasks. @returns how many there were. */
  async settleAll(): Promise<number> {
    let found = 0
    for (const decided_by of ['ann', CHIEF])
      for (const { id } of (await this.plane(decided_by, '/tasks'))?.body.tasks ?? []) {
        found++
        const known = this.decisions.get(id) ?? { heard: undefined, lost: [] }
        this.decisions.set(id, known)
        const said = { approved: true, reason: 'at last' }
        const reply = await this.plane(decided_by, `/tasks/${id}/decide`, said)
        if (reply?.status === 200) known.heard = { decided_by, ...said }
      }
    return found
  }

  private async cancel(): Promise<void> {
    const one = this.pick([...this.keys.values()].filter(({ run }) => run !== undefined))
    if (one === undefined || this.random() < 0.8) return
    const run = one.run as string
    const before = this.cancelled.get(run)
    if (before === undefined) this.cancelled.set(run, undefined)
    const by = this.pick(PERSONS)
    const reply = await this.plane(by, `/runs/${run}/cancel`, { reason: `by ${by}` })
    this.expect(reply, [202, 409], `cancel ${run}`)
    if (reply?.status !== 202) return
    if (before !== undefined && reply.body.requested_by !== before)
      throw new Wrong(`${before} has asked for the end of ${run}, and not ${reply.body.requested_by}`)
    this.cancelled.set(run, reply.body.requested_by)
    this.count('cancelled')
  }

  private async acknowledge(): Promise<void> {
    const one = this.pick<{ case: string; name: string } | undefined>((await this.plane('ann', '/obligations'))?.body.obligations ?? [])
    if (one === undefined || this.random() < 0.3) return
    const name = `${one.case}/${one.name}`
    const replies = await Promise.all(
      PERSONS.map((by) => this.plane(by, '/obligations/acknowledge', { case: one.case, obligation: one.name, note: `by ${by}` })),
    )
    for (const [at, reply] of replies.entries()) {
      this.expect(reply, [200], `acknowledge ${name}`)
      if (reply === undefined) continue
      const { acknowledged_by: by, recorded } = reply.body
      const before = this.acknowledgements.get(name)
      if (before !== undefined && before !== by.actor) throw new Wrong(`${name} was acknowledged by ${before}, and is by ${by.actor}`)
      if (recorded && by.actor !== PERSONS[at]) throw new Wrong(`${name} is acknowledged by ${by.actor} in the name of ${PERSONS[at]}`)
      this.acknowledgements.set(name, by.actor)
      this.count('acknowledged')
    }
  }
}

class Node {
  readonly folder: string
  server: ServerProcess | undefined
  private aheadMs = MIDDLE_OF_A_MONTH - Date.now()

  constructor(folder: string) {
    this.folder = folder
  }

  jump(ms: number): void {
    this.aheadMs += ms
  }

  async spawn({ tokens, concurrent, plane, schedules = true }: Setting): Promise<ServerProcess> {
    const { folder, aheadMs } = this
    const agentPlane: Record<string, Section | readonly Section[]> = {
      agent_plane: { lease_secs: 2, sweep_interval_secs: 0.2, event_grace_secs: GRACE_SECS },
      'agent_plane.quota': { max_tokens_per_period: tokens, max_concurrent_runs: concurrent },
      'agent_plane.on_event': [{ kind: 'duties.note', capability: 'duties.note' }],
      'agent_plane.on_signal': [{ trigger: 'alarm', capability: 'duties.note' }],
      'agent_plane.schedules': schedules
        ? [
            { name: 'often', every_secs: 1, capability: 'duties.note' },
            { name: 'hourly', every_secs: 3600, capability: 'duties.note' },
          ]
        : [],
      operator_api: { tokens_file: join(folder, 'tokens.json'), policy: join(folder, 'all.cedar') },
    }
    const plugins = plane ? ['agent_plane', 'operator_api', AGENT] : []
    const sections = { authorization: { engine: 'none' }, triggers: {}, ...(plane ? agentPlane : {}) }
    this.server = await ServerProcess.spawn({ folder, engine: 'embedded', sql: false, plugins: ['triggers', 'cedar', ...plugins], sections, aheadMs })
    return this.server
  }

  verb(...args: string[]): string {
    const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, 'plane', ...args, '--config', join(this.folder, 'svc.toml')], {
      cwd: this.folder,
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    })
    if (status !== 0) throw new Wrong(`svc plane ${args.join(' ')}: ${status} ${stdout.slice(-2000)}${stderr}`)
    return stdout
  }
}

const WIDE: Setting = { tokens: 1_000_000, concurrent: 0, plane: true, schedules: false }

/** All that is due has come, all that waits for a person is decided, and what has used up a budget goes on. */
async function end(node: Node, operators: Operators, start: (setting: Setting) => Promise<void>): Promise<void> {
  node.jump(4 * HOUR)
  await start(WIDE)
  await operators.lift()
  const until = performance.now() + PATIENCE_MS
  const began = performance.now()
  for (;;) {
    await sleep(300)
    const list = async (path: string, member = 'runs') => ((await operators.plane('ann', path))?.body[member] ?? []) as string[]
    const waiting = await operators.settleAll()
    const runs = '/api/v1/admin/agents/runs'
    const [exhausted, quarantined] = [await list('/runs?outcome=exhausted'), await list('/runs?outcome=quarantined')]
    for (const run of exhausted) await operators.call(`${runs}/${run}/replay`, { mode: 'resume' })
    for (const run of quarantined) await operators.plane('ann', `/runs/${run}/abandon`, { reason: 'enough' })
    // What had no room before the clock jumped begins to wait only now, for hours.
    const owing = (await operators.plane('bob', '/runs/waiting'))?.body.runs ?? []
    for (const { run, waiting_for } of owing) if (waiting_for.kind === 'duties.do') await operators.performFor(`end-${run}`, run)
    const left = waiting + exhausted.length + quarantined.length + (await list('/runs/live')).length + (await list('/runs/waiting')).length
    if (left === 0 && performance.now() > began + (GRACE_SECS + 2) * 1000) break
    if (performance.now() > until) throw new Wrong(`${left} runs and tasks are left after ${PATIENCE_MS} ms`)
  }
  await node.server?.end('SIGKILL')
}

/** What the node says of its state, against what the journals say. */
async function judgeState(operators: Operators, journals: Journals, node: Node, start: (setting: Setting) => Promise<void>): Promise<void> {
  for (const verb of ['verify', 'drill']) node.verb(verb)
  const letters = node.verb('dead-letters').trim().split('\n')
  for (const [id, { run, isTaken }] of operators.events) {
    const found = letters.filter((line) => line.includes(JSON.stringify(id))).length
    if (isTaken && found !== (run === undefined ? 1 : 0)) throw new Wrong(`event ${id} began ${run}, and is ${found} dead letters`)
  }
  // Room for half of an effect is left: it is refused, and its run says what was used before.
  await start({ ...WIDE, tokens: journals.tokens + MOST / 2 })
  const { swept } = journals
  for (const id of journals.cases.keys()) {
    const reply = await operators.plane('ann', `/cases/${id}`)
    if (reply?.status !== 200) throw new Wrong(`case ${id}: ${reply?.status}`)
    const { case: matter, deadlines } = reply.body
    for (const { name, state, acknowledged } of deadlines) {
      const what = `${id}/${name}`
      if (swept.has(`deadline_breached ${what}`) !== (state === 'breached')) throw new Wrong(`obligation ${what} is ${state}, and sweeps say otherwise`)
      if (state === 'breached' && matter.status !== 'escalated') throw new Wrong(`case ${id} is ${matter.status}, and ${name} was breached`)
      if (state !== 'breached' && state !== 'met') throw new Wrong(`obligation ${what} is ${state}, long after it was due`)
      if (journals.isMet(name) !== (state === 'met')) throw new Wrong(`obligation ${what} is ${state}, and the journals say otherwise`)
      const by = operators.acknowledgements.get(what)
      if (by !== undefined && acknowledged?.by.actor !== by) throw new Wrong(`${what} was acknowledged by ${by}, and is by ${acknowledged?.by.actor}`)
    }
  }
  const runs = '/api/v1/admin/agents/runs'
  const begun = await operators.call(runs, { capability: 'duties.spend', input: { url: process.env.SVC_COUNTER, most: MOST } })
  for (const until = performance.now() + PATIENCE_MS; ; await sleep(50)) {
    const { status, exhaustion } = (await operators.plane('ann', `/runs/${begun?.body.run}`))?.body ?? {}
    if (status === 'exhausted' && exhaustion.limit === 'tokens' && exhaustion.used === journals.tokens) return
    if (status !== 'running' || performance.now() > until)
      throw new Wrong(`${journals.tokens} tokens are spent; a run that would spend more is ${status}: ${JSON.stringify(exhaustion ?? begun)}`)
  }
}

/** @throws Error saying what did not hold. */
export async function duties(kills: number, seed: number, say: (line: string) => void): Promise<DutiesReport> {
  const random = seeded(seed)
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]
  const folder = await mkdtemp(join(tmpdir(), 'svc-duties-'))
  const counter = new Counter(random)
  process.env.SVC_COUNTER = await counter.listen()
  const tokens = [...PERSONS.map((actor) => ({ actor, roles: ['admin', 'clerk'] })), { actor: CHIEF, roles: ['admin', CHIEF] }]
  await writeFile(join(folder, 'tokens.json'), JSON.stringify(tokens.map((one) => ({ token: tokenOf(one.actor), ...one }))))
  await writeFile(join(folder, 'all.cedar'), 'permit (principal, action, resource) when { context.roles.contains("admin") };\n')
  const node = new Node(folder)
  const operators = new Operators(random, process.env.SVC_COUNTER)
  const start = async (setting: Setting): Promise<void> => {
    const server = await node.spawn(setting)
    await server.ready(READY_MS)
    operators.server = server
  }
  let journals = new Journals('')
  const look = (limit?: number): void => {
    const before = journals
    journals = new Journals(node.verb('export'))
    journals.judge(operators, counter)
    if (limit !== undefined && journals.tokens > Math.max(limit, before.tokens))
      throw new Wrong(`${journals.tokens} tokens are spent or reserved: ${before.tokens} were, and ${limit} are the bound`)
  }
  try {
    for (let kill = 0; kill < kills; kill++) {
      const setting = { tokens: pick([MOST * 3, MOST * 20, 1_000_000]), concurrent: kill === 0 ? 0 : pick([0, 0, 2]), plane: kill === 0 || random() < 0.85 }
      const jumped = kill === 0 ? 0 : pick([0, 0, 3 * HOUR, 2 * MINUTE, -30 * MINUTE, -2000])
      node.jump(jumped)
      if (kill > 0 && random() < 0.2) {
        const starting = await node.spawn({ ...setting, plane: true })
        await sleep(random() * 1500)
        await starting.end('SIGKILL')
      }
      await start(setting)
      if (kill === 0) await must((node.server as ServerProcess).url, "CREATE TRIGGER alarm ON cpu WHEN value >= 50 COOLDOWN INTERVAL '0s'")
      // What needs room, or is halted, is left out.
      const isHourDue = jumped > HOUR && setting.plane && setting.concurrent === 0 && setting.tokens === WIDE.tokens && !operators.isHalted
      if (isHourDue) await sleep(2000)
      if (kill === 0) await operators.beginAll()
      let over = !setting.plane
      const work = Array.from({ length: AT_ONCE }, async () => {
        while (!over) await operators.act()
      })
      await sleep(setting.plane ? 1000 + random() * 2000 : 500)
      const ended = (node.server as ServerProcess).end('SIGKILL')
      over = true
      await Promise.all([ended, ...work])
      const before = journals.hourly
      if (setting.plane) look(setting.tokens)
      if (isHourDue && journals.hourly === before) throw new Wrong('more than an hour has gone by, and no run of the hour has begun')
      say(`kill ${kill + 1} ${JSON.stringify({ ...setting, jumped })}: ${journals.tokens} tokens, ${JSON.stringify(operators.counts)}`)
    }
    await end(node, operators, start)
    journals = new Journals(node.verb('export'))
    journals.judge(operators, counter, true)
    await judgeState(operators, journals, node, start)
    await (node.server as ServerProcess).end('SIGKILL')
    await rm(folder, { recursive: true, force: true })
    return { kills, counts: operators.counts, statuses: journals.statuses }
  } catch (error) {
    throw failure(`seed ${seed}, data kept in ${folder}`, error, node.server)
  } finally {
    if (node.server?.running) await node.server.end('SIGKILL')
    counter.close()
  }
}

if (import.meta.main) {
  const [kills = 8, seed = Date.now() % 1e9] = process.argv.slice(2).map(Number)
  console.log(`seed ${seed}`)
  console.log(JSON.stringify(await duties(kills, seed, console.log)))
}
