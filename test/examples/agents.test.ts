/**
 * The agents of the example, on the real server with its svc.toml, over HTTP alone: an operator who sees, and somebody on call who decides. In the middle of each
 * the server is killed, when what it asked for was done and not answered yet.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createOutside, type Outside } from '../../examples/agents/outside.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { ROOT, read } from '../support/tree.ts'

// Servers are started again, and wait for leases of those that were killed.
t.setTimeout(300_000)
const FOLDER = join(ROOT, 'examples/agents')
const LATEST_MS = 60_000
const tokens = { ann: 'ann-'.padEnd(44, '1'), olaf: 'olaf-'.padEnd(44, '2') }

interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: of whatever shape the route has
  body: any
}

interface Plant {
  outside: Outside
  /** Kills the server in the next call of a path that the outside has done, and starts it again. */
  killsIn(path: string): Promise<void>
  as(actor: keyof typeof tokens): { get(path: string): Promise<Answer>; post(path: string, body: object): Promise<Answer> }
  /** Of the server itself. */
  call(path: string, body: string | object): Promise<Answer>
  /** Asks until it holds. */
  until<T>(what: string, ask: () => Promise<T | undefined>): Promise<T>
}

async function start(t: Test): Promise<Plant> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-agents-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const entry = (actor: keyof typeof tokens, roles: string[]) => ({ token: tokens[actor], actor, roles })
  writeFileSync(join(folder, 'tokens.yaml'), JSON.stringify([entry('ann', ['operator']), entry('olaf', ['operator', 'on-call'])]))
  const config = join(folder, 'svc.toml')
  writeFileSync(config, read('examples/agents/svc.toml').replace(/"(\w+\.(ts|cedar))"/g, `"${FOLDER}/$1"`))

  let caught: ((path: string) => Promise<void>) | undefined
  const { server, outside } = createOutside(async (path) => caught?.(path))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const env = { SVC_DATA_DIR: join(folder, 'data'), OUTSIDE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  const open = () => runServer(config, { env })
  let node: RunningServer = await open()
  t.teardown(() => node.stop())

  const ask = async (path: string, init: RequestInit): Promise<Answer> => {
    const answer = await fetch(node.url + path, init)
    const text = await answer.text()
    return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
  }
  const json = { 'content-type': 'application/json' }
  return {
    outside,
    killsIn: (wanted) =>
      new Promise((resolve, reject) => {
        caught = async (path) => {
          if (path !== wanted) return
          caught = undefined
          process.kill(node.pid, 'SIGKILL')
          await node.stop()
          open().then((next) => {
            node = next
            resolve()
          }, reject)
        }
      }),
    as: (actor) => {
      const headers = { authorization: `Bearer ${tokens[actor]}` }
      return {
        get: (path) => ask(`/api/v1/plane${path}`, { headers }),
        post: (path, body) => ask(`/api/v1/plane${path}`, { method: 'POST', headers: { ...headers, ...json }, body: JSON.stringify(body) }),
      }
    },
    call: (path, body) => ask(path, typeof body === 'string' ? { method: 'POST', body } : { method: 'POST', headers: json, body: JSON.stringify(body) }),
    async until(what, holds) {
      for (const end = Date.now() + LATEST_MS; Date.now() < end; await sleep(50)) {
        const found = await holds().catch(() => undefined)
        if (found !== undefined) return found
      }
      throw new Error(`it does not come to this: ${what}\n${node.output()}`)
    },
  }
}

t.test('a disk that is full opens a case; what a person agrees to is done once, and the case closes in time', async (t) => {
  const { outside, killsIn, as, call, until } = await start(t)
  const [ann, olaf] = [as('ann'), as('olaf')]
  const query = "CREATE TRIGGER disk_full ON disk WHEN used > 90 COOLDOWN INTERVAL '10 minutes'"
  t.equal((await call('/api/v1/triggers', { query })).status, 200)
  t.equal((await call('/write', 'disk,host=web-1 used=71 1700000000000000000\ndisk,host=web-1 used=95')).status, 204)
  const task = await until('a task', async () => (await ann.get('/tasks')).body.tasks[0] ?? (await olaf.get('/tasks')).body.tasks[0])
  t.match(task, {
    kind: 'tool.approval',
    has_untrusted_prose: true,
    rendering: {
      summary: 'The disk of web-1 is full. Delete its logs?',
      evidence: ['used lately, the newest first: 95 %, 71 %'],
      proposed_action: { host: 'web-1', older_than_days: 7 },
    },
  })
  const { run, case: matter, digest } = task
  t.match((await ann.get(`/cases/${matter}`)).body, {
    case: { kind: 'disk', status: 'awaiting_human', correlation: [{ namespace: 'host', value: 'web-1' }], state: { attended_by: run } },
    deadlines: [{ name: 'room', state: 'pending' }],
  })
  t.match(await ann.get('/runs/waiting'), { status: 200, body: { runs: [{ run }] } })
  const said = { approved: true, reason: 'they are old', digest, amendment: { host: 'web-1', older_than_days: 14 } }
  t.match(await ann.post(`/tasks/${task.id}/decide`, said), { status: 403 }, 'an operator sees, and does not decide')
  t.match(await olaf.post(`/tasks/${task.id}/decide`, { ...said, amendment: { host: 'web-1' } }), { status: 422, body: { error: /older_than_days/ } })
  t.same(outside.cleanings, [], 'nothing has been done')

  const killed = killsIn('/cleanings')
  // Its answer may be lost as well: what is said again is known.
  await until('the decision', async () => ((await olaf.post(`/tasks/${task.id}/decide`, said)).body.decided_by === 'olaf' ? true : undefined))
  await killed
  await until('that it looks whether there is room', async () =>
    (await ann.get(`/cases/${matter}`)).body.case.status === 'awaiting_external' ? true : undefined,
  )
  t.match(outside.cleanings, [{ host: 'web-1', older_than_days: 14 }], 'once, and as it was amended')

  t.equal((await call('/write', 'disk,host=web-1 used=96')).status, 204, 'this fires nothing: it is within the cooldown')
  t.equal((await call('/write', 'disk,host=web-1 used=40')).status, 204)
  const seen = await until('a case that is closed', async () => {
    const { body } = await ann.get(`/cases/${matter}`)
    return body.case.status === 'closed' ? body : undefined
  })
  const [{ state, resolved_at: due }] = seen.deadlines
  t.equal(state, 'met')
  t.ok(Date.parse(due) > Date.now(), 'before its deadline')
  const view = await until('the end of the run', async () => {
    const { body } = await ann.get(`/runs/${run}`)
    return body.status === 'succeeded' && body.sealed ? body : undefined
  })
  t.equal(view.case, matter)
  t.equal(outside.calls.length, 1)
  t.match((await ann.get('/attention')).body, { needs_attention: false })
})

t.test('a refund of which a later step fails is undone, and one that does not is paid once', async (t) => {
  const { outside, killsIn, as, until } = await start(t)
  const [ann, olaf] = [as('ann'), as('olaf')]
  const ask = async (id: string, order: string, mail: string): Promise<string> => {
    const event = { id, kind: 'refund.requested', correlation: [{ namespace: 'order', value: order }], payload: { order, cents: 2500, mail } }
    const { status, body } = await ann.post('/events', event)
    t.match({ status, body }, { status: 200, body: { delivery: 'buffered', run: /^run_/ } })
    t.match((await ann.post('/events', event)).body, { delivery: 'duplicate', run: body.run }, 'the answer was lost')
    return body.run
  }
  const approve = async (run: string) => {
    const task = await until('a task', async () => (await olaf.get('/tasks')).body.tasks.find((one: { run: string }) => one.run === run))
    t.equal((await ann.get(`/tasks/${task.id}`)).body.decidable_by_you, false, 'she has asked for it')
    const decide = () => olaf.post(`/tasks/${task.id}/decide`, { approved: true, reason: 'it is due' })
    await until('the decision', async () => ((await decide()).body.decided_by === 'olaf' ? true : undefined))
    return task
  }
  const ended = (run: string) =>
    until('the end of the run', async () => {
      const { body } = await ann.get(`/runs/${run}`)
      return ['running', 'suspended'].includes(body.status) ? undefined : body
    })
  const settled = async (run: string) =>
    (await ann.get(`/runs/${run}/history`)).body.records
      .filter(({ kind }: { kind: string }) => kind === 'GroupSettled')
      .map(({ record }: Answer['body']) => record.outcome)

  const wrong = await ask('1', '7', 'nobody')
  const killed = killsIn('/bank/credit')
  await approve(wrong)
  await killed
  t.match(await ended(wrong), { status: 'failed', reason: /^tool "tool:\/\/mail\/send": it answered 422: .*nobody.* is no address/ })
  t.same(await settled(wrong), ['aborted'])
  t.same({ bank: outside.bank, shop: outside.shop, mails: outside.mails }, { bank: { 7: 0 }, shop: { 7: 'paid' }, mails: [] }, 'all is as it was')
  t.same(outside.calls, ['/bank/credit', '/bank/credit', '/shop/7', '/mail', '/shop/7', '/bank/debit'], 'the newest first')

  const right = await ask('2', '7', 'carla@example.com')
  const { case: matter } = await approve(right)
  t.match(await ended(right), { status: 'succeeded' })
  t.same(await settled(right), ['committed'])
  t.match(
    { bank: outside.bank, shop: outside.shop, mails: outside.mails },
    { bank: { 7: 2500 }, shop: { 7: 'refunded' }, mails: [{ to: 'carla@example.com' }] },
  )
  t.match((await ann.get(`/cases/${matter}`)).body.case, { kind: 'refund', status: 'closed', runs: [wrong, right] }, 'both were in the case of the order')
})
