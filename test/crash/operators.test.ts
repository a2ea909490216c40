/**
 * Two operators act at once on the same runs, tasks, holds and halts, while the server is killed again and again. What was answered with success has happened, once,
 * and is there after every start; what was not answered has happened as a whole or not at all. SVC_KILLS and SVC_SEED set the size and the seed.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { seeded } from 'svcdb/lib/random'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { failure, ServerProcess } from './server.ts'

t.setTimeout(600_000)
const { SVC_KILLS = '2', SVC_SEED = String(Date.now() % 1e9) } = process.env
const AGENT = fileURLToPath(new URL('./operators-agent.ts', import.meta.url))
const POLICY = 'permit (principal, action, resource) when { context.roles.contains("admin") };\n'
const PERSONS = ['ann', 'bob'] as const
const READY_MS = 60_000
const AT_ONCE = 6
const SCOPES = ['agent:a', 'agent:b', 'subject:nobody-1', 'subject:nobody-2']

const tokenOf = (actor: string): string => `token-of-${actor}-`.padEnd(40, 'x')

interface Reply {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: of the shape of its operation
  body: any
}

t.test(`what operators were answered holds, over SIGKILL: seed ${SVC_SEED}`, async (t) => {
  const random = seeded(Number(SVC_SEED))
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]
  const folder = temporaryFolder(t)
  await writeFile(join(folder, 'tokens.yaml'), JSON.stringify(PERSONS.map((actor) => ({ token: tokenOf(actor), actor, roles: ['admin'] }))))
  await writeFile(join(folder, 'all.cedar'), POLICY)
  const sections = {
    agent_plane: { lease_secs: 2, sweep_interval_secs: 0.2 },
    authorization: { engine: 'none' },
    operator_api: { tokens_file: join(folder, 'tokens.yaml'), policy: join(folder, 'all.cedar') },
  }
  const start = async () => {
    const plugins = ['agent_plane', 'cedar', 'operator_api', AGENT]
    const server = await ServerProcess.spawn({ folder, engine: 'embedded', sql: false, plugins, sections })
    await server.ready(READY_MS)
    return server
  }
  let server = await start()
  t.teardown(async () => {
    if (server.running) await server.end('SIGKILL')
  })
  /** @returns undefined when the server died before it answered. */
  const call = async (path: string, body?: object, actor?: string): Promise<Reply | undefined> => {
    try {
      const answer = await fetch(`${server.url}${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(actor === undefined ? {} : { authorization: `Bearer ${tokenOf(actor)}` }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await answer.text()
      return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
    } catch {
      return undefined
    }
  }
  const plane = (actor: string, path: string, body?: object) => call(`/api/v1/plane${path}`, body, actor)

  /** What was answered. */
  const runs = new Map<string, { run: string; capability: string; case?: string }>()
  const decisions = new Map<string, { approved: boolean; decided_by: string; reason: string }>()
  const settled = new Map<string, 'abandoned' | 'reopened'>()
  const landed = new Map<string, string>()
  const events = new Map<string, { delivery: string; run?: string }>()
  let begun = 0
  const counts: Record<string, number> = {}
  const count = (what: string) => void (counts[what] = (counts[what] ?? 0) + 1)

  const begin = async (): Promise<void> => {
    const again = runs.size > 0 && random() < 0.3
    const key = again ? pick([...runs.keys()]) : `k${begun++}`
    const known = runs.get(key)
    const capability = known?.capability ?? pick(['crash.ask', 'crash.ask', 'crash.doubt'])
    const matter = { kind: 'order', correlation: [{ namespace: 'order', value: `o${Number(key.slice(1)) % 7}` }] }
    const reply = await call('/api/v1/admin/agents/runs', { capability, input: { key }, idempotency_key: key, case: matter })
    if (reply === undefined) return
    t.equal(reply.status, 202, JSON.stringify(reply.body))
    if (known !== undefined) t.match(reply.body, { run: known.run, existing: true }, `key ${key} stands for one run`)
    runs.set(key, { run: reply.body.run, capability })
    count('begun')
  }
  /** Both at once: one of them at most is heard, and as he has said it. */
  const decide = async (): Promise<void> => {
    const queue = await plane('ann', '/tasks')
    const task = queue === undefined || queue.body.tasks.length === 0 ? undefined : pick<{ id: string }>(queue.body.tasks)
    if (task === undefined) return
    const said = PERSONS.map((decided_by) => ({ approved: random() < 0.5, decided_by, reason: `r${Math.floor(random() * 1e6)}` }))
    const replies = await Promise.all(said.map(({ decided_by, approved, reason }) => plane(decided_by, `/tasks/${task.id}/decide`, { approved, reason })))
    const heard = said.filter((_, i) => replies[i]?.status === 200)
    for (const [i, reply] of replies.entries())
      t.ok(reply === undefined || [200, 409].includes(reply.status), `${said[i].decided_by}: ${reply?.status} ${JSON.stringify(reply?.body)}`)
    t.ok(heard.length <= 1, 'one is heard')
    if (heard.length === 1) {
      t.notOk(decisions.has(task.id), 'and none was before')
      decisions.set(task.id, heard[0])
      count('decided')
    }
  }
  /** One gives a quarantined run up; the other one says what became of its effect, and has it go on. */
  const settle = async (): Promise<void> => {
    const list = await plane('ann', '/runs?outcome=quarantined')
    if (list === undefined || list.body.runs.length === 0) return
    const run = pick<string>(list.body.runs)
    const view = await plane('bob', `/runs/${run}`)
    if (view === undefined) return
    const goOn = async (): Promise<Reply | undefined> => {
      const [doubt] = view.body.undecided ?? []
      const note = `n${Math.floor(random() * 1e6)}`
      if (doubt !== undefined) {
        const said = await plane('bob', `/runs/${run}/reconcile`, { effect: doubt.effect, disposition: 'landed', note, output: { note } })
        if (said?.status !== 200) return said
        t.notOk(landed.has(run), 'it was not said before')
        landed.set(run, note)
        count('reconciled')
      }
      return plane('bob', `/runs/${run}/reopen`, { reason: 'known' })
    }
    const replies = await Promise.all([random() < 0.5 ? plane('ann', `/runs/${run}/abandon`, { reason: 'enough' }) : undefined, goOn()])
    for (const reply of replies) t.ok(reply === undefined || [200, 409].includes(reply.status), `${reply?.status} ${JSON.stringify(reply?.body)}`)
    t.ok(replies.filter((reply) => reply?.status === 200).length <= 1, `one decides about ${run}`)
    for (const [i, reply] of replies.entries()) {
      if (reply?.status !== 200) continue
      t.notOk(settled.has(run), 'and nobody has before')
      settled.set(run, i === 0 ? 'abandoned' : 'reopened')
      count(i === 0 ? 'abandoned' : 'reopened')
    }
  }
  /** By what is stopped, a scope or a case: each is one operator's at a time, so that it is known. null = it is free; undefined = an answer was lost. */
  const stops = new Map<string, string | null | undefined>(SCOPES.map((scope) => [scope, null]))
  const busy = new Set<string>()
  const stop = async (): Promise<void> => {
    const cases = (await plane('ann', '/cases?status=open'))?.body.cases.map((one: { id: string }) => one.id) ?? []
    const of = pick<string>([...SCOPES, ...cases])
    if (busy.has(of)) return
    busy.add(of)
    const before = stops.has(of) ? stops.get(of) : null
    stops.set(of, undefined)
    const reason = `because ${Math.floor(random() * 1e6)}`
    const ends = random() < 0.5
    const [path, name, stood] = SCOPES.includes(of) ? ['/halts', 'scope', 'was_standing'] : ['/holds', 'case', 'lifted']
    const reply = await plane(pick(PERSONS), ends ? `${path}/${path === '/halts' ? 'lift' : 'release'}` : path, ends ? { [name]: of } : { [name]: of, reason })
    if (reply !== undefined) {
      t.equal(reply.status, 200, JSON.stringify(reply.body))
      if (ends && before !== undefined) t.equal(reply.body[stood], before !== null, `${of} stood`)
      // A hold that stands stays as it is.
      const inForce = path === '/holds' && !ends ? reply.body.in_force.reason : reason
      if (path === '/holds' && !ends && typeof before === 'string') t.equal(inForce, before)
      stops.set(of, ends ? null : inForce)
      count(path)
    }
    busy.delete(of)
  }
  const tell = async (): Promise<void> => {
    const id = events.size > 0 && random() < 0.4 ? pick([...events.keys()]) : `e${Math.floor(random() * 1e9)}`
    const known = events.get(id)
    const reply = await plane('ann', '/events', { id, kind: 'nothing', correlation: [], payload: null })
    if (reply === undefined) return
    t.ok([200, 202].includes(reply.status), JSON.stringify(reply.body))
    if (known !== undefined) t.equal(reply.body.delivery, 'duplicate', `${id} was taken before`)
    events.set(id, reply.body)
    count('events')
  }

  const judge = async (): Promise<void> => {
    for (const [key, { run }] of runs) {
      const view = await plane('ann', `/runs/${run}`)
      t.equal(view?.status, 200, `run ${run} of ${key} is there`)
      if (settled.get(run) === 'abandoned') t.match(view?.body, { status: 'abandoned', reason: 'enough' })
      if (settled.get(run) === 'reopened') t.ok(['running', 'succeeded'].includes(view?.body.status), `${run} goes on, and is ${view?.body.status}`)
      if (landed.has(run)) t.same(view?.body.undecided ?? [], [], 'what was said of its effect stands')
    }
    for (const [task, { decided_by, approved, reason }] of decisions) {
      t.match((await plane('ann', `/tasks/${task}`))?.body, { state: 'completed' }, `task ${task} is decided`)
      const again = { approved, reason }
      t.equal((await plane(decided_by, `/tasks/${task}/decide`, again))?.status, 200, 'as it was answered: the same once more changes nothing')
      t.equal((await plane(decided_by, `/tasks/${task}/decide`, { ...again, approved: !approved }))?.status, 409)
    }
    const standing = new Map<string, string>()
    for (const { scope, reason } of (await plane('bob', '/halts'))?.body.halts ?? []) standing.set(scope, reason)
    for (const { case: matter, reason } of (await plane('bob', '/holds'))?.body.holds ?? []) standing.set(matter, reason)
    for (const [of, reason] of stops)
      if (reason === undefined) stops.set(of, standing.get(of) ?? null)
      else t.equal(standing.get(of) ?? null, reason, `${of} stands as it was answered`)
  }

  for (let kills = 0; kills <= Number(SVC_KILLS); kills++) {
    let over = false
    const work = Array.from({ length: AT_ONCE }, async () => {
      while (!over) await pick([begin, begin, decide, settle, stop, tell])()
    })
    await sleep(1000 + random() * 2000)
    const ended = server.end('SIGKILL')
    over = true
    await Promise.all([ended, ...work]).catch((error) => {
      throw failure(`seed ${SVC_SEED}, kill ${kills}`, error, server)
    })
    server = await start()
    await judge()
    t.comment(JSON.stringify(counts))
  }
  // What was decided is told to its runs, whatever was killed in between.
  const waits = async (): Promise<number> => {
    let left = 0
    for (const { run } of runs.values()) if ((await call(`/api/v1/admin/agents/runs/${run}`))?.body.status === 'running') left++
    return left
  }
  const limit = Date.now() + 120_000
  while ((await waits()) > 0 && Date.now() < limit) await sleep(200)
  t.equal(await waits(), 0, 'no run is left half way')
  for (const [id, decision] of decisions) {
    const { run } = (await plane('ann', `/tasks/${id}`))?.body ?? {}
    t.match((await call(`/api/v1/admin/agents/runs/${run}`))?.body, { status: 'succeeded', output: { approved: decision.approved, reason: decision.reason } })
  }
  for (const [run, note] of landed)
    if (settled.get(run) === 'reopened') t.match((await call(`/api/v1/admin/agents/runs/${run}`))?.body, { status: 'succeeded', output: { note } })
  for (const [name, number] of Object.entries(counts)) t.ok(number > 0, `${number} ${name}`)
})
