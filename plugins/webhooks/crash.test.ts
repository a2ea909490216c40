/** What was handed over is delivered, whatever kills the server meanwhile: restarts, kill -9, and another process that takes over. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import type { StateStore, StorageEngine } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import { loadEngine, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { at, delivery, makeCertificate, ok, openNode, type Receiver, receive, start, status } from './testing.ts'

const { SVC_CRASH_ITERATIONS = '6', SVC_CRASH_SEED } = process.env
const seed = Number(SVC_CRASH_SEED ?? Date.now() % 1_000_000)
t.setTimeout(600_000)

const idsOf = ({ received }: Receiver): string[] => received.map(({ body }) => JSON.parse(body).id as string)

t.test('a restart loses nothing that waits, nor who is parked', async (t) => {
  const dir = temporaryFolder(t)
  const certificate = await makeCertificate(t)
  const receiver = await receive(t, certificate, status(503))
  const gone = await receive(t, certificate, status(410))
  const section = { ca_file: certificate.caFile, drain_secs: 0 }
  const first = await openNode(dir, section)
  await first.hooks.define(at('a'), receiver.url)
  await first.hooks.define(at('gone'), gone.url)
  await first.hooks.enqueue([...Array.from({ length: 40 }, (_, i) => delivery('a', `e${i}`)), delivery('gone', 'g')])
  await until('both have answered', async () => (await first.hooks.list('teller')).every(({ state }, i) => state === (i === 0 ? 'failing' : 'parked')))
  const before = await first.hooks.list('teller')
  await first.stop()
  receiver.answer = ok
  const asked = gone.received.length
  const second = await openNode(dir, section)
  t.same(await second.hooks.enqueue([delivery('a', 'e7')]), ['known'])
  await until('all', async () => (await second.hooks.list('teller'))[0].delivered === 40)
  t.same(new Set(idsOf(receiver)), new Set(Array.from({ length: 40 }, (_, i) => `e${i}`)))
  t.match(await second.hooks.list('teller'), [
    { state: 'active', waiting: 0 },
    { state: 'parked', waiting: 1, failing_since: before[1].failing_since },
  ])
  t.equal(gone.received.length, asked)
  await second.stop()
  const third = await openNode(dir, section)
  t.same(await third.hooks.enqueue([delivery('a', 'e7')]), ['known'], 'what was delivered is known after a restart too')
  await third.hooks.remove(at('a'))
  await third.hooks.remove(at('gone'))
  t.same(await third.hooks.list('teller'), [])
  await third.stop()
})

t.test('a stop waits for what can be sent, and no longer than it may', async (t) => {
  const certificate = await makeCertificate(t)
  const dir = temporaryFolder(t)
  const slow = await receive(t, certificate, (_, response) => void setTimeout(() => response.writeHead(204).end(), 100))
  const waiting: Socket[] = []
  const deaf = await receive(t, certificate, (_request, _response, socket) => void waiting.push(socket))
  const section = { ca_file: certificate.caFile, drain_secs: 3, timeout_secs: 120 }
  const node = await openNode(dir, { ...section, drain_secs: 30 })
  await node.hooks.define(at('a'), slow.url)
  await node.hooks.enqueue(Array.from({ length: 10 }, (_, i) => delivery('a', `e${i}`)))
  const began = Date.now()
  await node.stop()
  t.equal(new Set(idsOf(slow)).size, 10, 'all were sent')
  t.ok(Date.now() - began < 25_000, `it took ${Date.now() - began} ms`)
  const again = await openNode(dir, section)
  await again.hooks.define(at('deaf'), deaf.url)
  await again.hooks.enqueue([delivery('deaf', 'd')])
  await until('it is being sent', () => deaf.received.length === 1)
  const stopping = Date.now()
  await again.stop()
  const took = Date.now() - stopping
  t.ok(took >= 2900 && took < 60_000, `it took ${took} ms`)
  await until('the attempt is broken off', () => waiting.every((socket) => socket.destroyed))
  const last = await openNode(dir, { ...section, drain_secs: 0 })
  t.match(await last.hooks.list('teller'), [
    { name: 'a', delivered: 10, waiting: 0 },
    { name: 'deaf', delivered: 0, waiting: 1 },
  ])
  await last.stop()
})

t.test('kill -9: what was acknowledged to the caller arrives', async (t) => {
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const dir = temporaryFolder(t)
  const certificate = await makeCertificate(t)
  const flaky: typeof ok = (_, response) =>
    void (random() < 0.1 ? response.writeHead(503).end() : random() < 0.05 ? response.destroy() : response.writeHead(204).end())
  const receiver = await receive(t, certificate, flaky)
  const acknowledged: string[] = []
  for (let i = 0; i < Number(SVC_CRASH_ITERATIONS); i++) {
    // What the caller does not know to be kept it hands over again.
    const first = String(acknowledged.length === 0 ? 0 : Number(acknowledged.at(-1)) + 1)
    const args = [join(import.meta.dirname, 'testing-caller.ts'), dir, certificate.caFile, receiver.url, first]
    const child = spawn(process.execPath, args, { env: { PATH: process.env.PATH }, stdio: ['ignore', 'pipe', 'inherit'] })
    const closed = once(child, 'close')
    const opened = Promise.withResolvers<void>()
    child.on('exit', () => opened.resolve())
    createInterface({ input: child.stdout }).on('line', (line) => (line === 'open' ? opened.resolve() : acknowledged.push(line)))
    await opened.promise
    await wait(random() * 400)
    child.kill('SIGKILL')
    await closed
  }
  receiver.answer = ok
  const node = await openNode(dir, { ca_file: certificate.caFile })
  await until('the outbox is empty', async () => (await node.hooks.list('teller'))[0].waiting === 0, 120_000)
  const [{ delivered, lost }] = await node.hooks.list('teller')
  await node.stop()
  const got = idsOf(receiver)
  const distinct = new Set(got)
  t.same(
    acknowledged.filter((id) => !distinct.has(id)),
    [],
    `${acknowledged.length} acknowledged`,
  )
  t.equal(lost, 0)
  t.ok(acknowledged.length > 0 && delivered >= acknowledged.length && delivered <= acknowledged.length + 3 * Number(SVC_CRASH_ITERATIONS))
  t.comment(`${acknowledged.length} acknowledged, ${distinct.size} received, ${got.length} attempts`)
  const byId = new Map<string, Set<unknown>>()
  for (const { body, headers } of receiver.received) byId.set(JSON.parse(body).id, (byId.get(JSON.parse(body).id) ?? new Set()).add(headers['webhook-id']))
  t.ok([...byId.values()].every((messages) => messages.size === 1))
})

/** Engines as those of several processes over one state store. */
async function sharing(stateOf: (owner: string) => StateStore): Promise<StorageEngine> {
  const { createEngine, capabilities } = await loadEngine('memory', '.')
  const engine = createEngine({ config: {}, now: Date.now } as never)
  return Object.assign(engine, { capabilities: new Set([...capabilities, 'shared_state']), state: stateOf })
}

t.test('of two processes with one state store one delivers, what either was handed, and the other goes on when it stops', async (t) => {
  const certificate = await makeCertificate(t)
  const receiver = await receive(t, certificate)
  const { createEngine } = await loadEngine('memory', '.')
  const common = createEngine({ config: {}, now: Date.now } as never)
  const stateOf = (owner: string) => common.state(owner)
  const a = await start(t, { ca_file: certificate.caFile }, { storage: await sharing(stateOf) })
  await a.hooks.define(at('a'), receiver.url)
  await a.hooks.enqueue([delivery('a', '0')])
  await until('it delivers', () => receiver.received.length === 1)
  const b = await start(t, { ca_file: certificate.caFile }, { storage: await sharing(stateOf) })
  for (let i = 1; i <= 60; i++) await (i % 2 ? a : b).hooks.enqueue([delivery('a', String(i))])
  t.same(await b.hooks.enqueue([delivery('a', '1'), delivery('a', '2')]), ['known', 'known'])
  await until('all', () => receiver.received.length >= 61)
  t.equal(b.reports.length, 0, 'only one delivers')
  receiver.answer = status(410)
  await b.hooks.enqueue([delivery('a', '61')])
  await until('parked', async () => (await b.hooks.list('teller'))[0].state === 'parked')
  receiver.answer = ok
  const rearmed = await b.node.inject({ method: 'POST', url: '/api/v1/admin/webhooks/default/teller/a/rearm' })
  t.match(rearmed.json(), { rearmed: true })
  await until('it is delivered by the other', () => idsOf(receiver).filter((id) => id === '61').length === 2)
  await a.node.stop()
  await b.hooks.enqueue(Array.from({ length: 20 }, (_, i) => delivery('a', String(62 + i))))
  await until('all', async () => (await b.hooks.list('teller'))[0].delivered === 82, 30_000)
  t.equal(new Set(idsOf(receiver)).size, 82)
  t.equal(receiver.received.length, 83, 'each once, but for the one that was refused first')
  await until('no note is left', async () => (await common.state('webhooks').list({ prefix: 'note/' })).length === 0)
})

t.test('a namespace that is deleted takes its endpoints along', async (t) => {
  const certificate = await makeCertificate(t)
  const receiver = await receive(t, certificate, status(503))
  const namespaces = new URL('../namespaces/index.ts', import.meta.url)
  const { hooks, node } = await start(t, { ca_file: certificate.caFile }, { plugins: [namespaces], config: { server: { multi_tenancy: true } } })
  await node.inject({ method: 'POST', url: '/api/v1/namespaces', payload: { name: 'acme' } })
  await hooks.define(at('a', 'acme'), receiver.url)
  await hooks.define(at('a'), receiver.url)
  await hooks.enqueue([delivery('a', '1', {}, 'acme'), delivery('a', '1')])
  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme' })).statusCode, 200)
  await until('it is gone', async () => (await hooks.list('teller')).length === 1)
  t.match(await hooks.list('teller'), [{ namespace: 'default', waiting: 1 }])
  t.same(await hooks.enqueue([delivery('a', '2', {}, 'acme')]), ['unrouted'])
})
