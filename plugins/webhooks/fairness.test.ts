/** Slow and dead endpoints, and tenants with many of them, delay nobody else. */
import { connect, createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { type Candidate, Lanes, type Slot } from './lanes.ts'
import { at, delivery, makeCertificate, metric, receive, start, until } from './testing.ts'

t.test('forty endpoints that never answer, of the same namespace and of another', async (t) => {
  const certificate = await makeCertificate(t)
  const good = await receive(t, certificate)
  const deaf = await receive(t, certificate, () => {})
  const section = { ca_file: certificate.caFile, timeout_secs: 1.5, namespace_endpoints: 42, retry_max_secs: 0.02, max_in_flight: 16, namespace_in_flight: 8 }
  const { hooks, node } = await start(t, section)
  const names = Array.from({ length: 40 }, (_, i) => `deaf-${i}`)
  for (const name of names) await hooks.define(at(name), deaf.url)
  await hooks.define(at('good'), good.url)
  await hooks.define(at('good', 'tenant'), good.url)
  const send = async (name: string, namespace = 'default') => {
    const began = Date.now()
    const count = good.received.length
    await hooks.enqueue([delivery(name, `${name}-${began}`, 1, namespace)])
    await until(`a delivery to ${name} of ${namespace}`, () => good.received.length > count)
    return Date.now() - began
  }
  await send('good')
  await hooks.enqueue(names.flatMap((name) => [delivery(name, `${name}-1`), delivery(name, `${name}-2`)]))
  await until('they are waited for', () => deaf.received.length >= 4)
  const waits: number[] = []
  for (let i = 0; i < 30; i++) {
    waits.push(await send('good'), await send('good', 'tenant'))
    await wait(50)
  }
  t.comment(`waited ${waits.sort((a, b) => a - b).join(', ')} ms`)
  // Nothing is near the time limit of 1.5 s, of which the deaf ones use all.
  t.ok((waits.at(-1) as number) < 1000, `at most ${waits.at(-1)} ms`)
  t.ok((await metric(node, 'svc_webhook_in_flight')) <= 8)
  // Once each was tried, one that is new comes before those that have failed.
  await until('each was tried', async () => (await hooks.list('teller', 'default')).every(({ state, name }) => name === 'good' || state === 'failing'), 60_000)
  await hooks.define(at('new'), good.url)
  const waited = await send('new')
  t.ok(waited < 2500, `a new one waited ${waited} ms, for one attempt to end`)
})

t.test('an endpoint that accepts no connection', async (t) => {
  // A full backlog: connections hang.
  const full = createServer()
  await new Promise<void>((resolve) => full.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, resolve))
  const { port } = full.address() as { port: number }
  full.close()
  const certificate = await makeCertificate(t)
  const good = await receive(t, certificate)
  const { hooks } = await start(t, { ca_file: certificate.caFile })
  await hooks.define(at('dead'), `https://localhost:${port}/`)
  await hooks.define(at('good'), good.url)
  await hooks.enqueue(Array.from({ length: 200 }, (_, i) => delivery('dead', `d${i}`)))
  const began = Date.now()
  await hooks.enqueue([delivery('good', 'g')])
  await until('the good one', () => good.received.length === 1)
  t.ok(Date.now() - began < 1500)
  connect(port).on('error', () => {})
})

const seed = Number(process.env.SVC_LANES_SEED ?? Date.now() % 1_000_000)
t.test(`lanes keep every bound and starve nobody, seed ${seed}`, async (t) => {
  const random = seeded(seed)
  for (let round = 0; round < 50; round++) {
    const limits = { total: 2 + Math.floor(random() * 12), namespace: 2 + Math.floor(random() * 6) }
    const lanes = new Lanes<Candidate & { left: number; sent: number }>(limits)
    const all = Array.from({ length: 30 }, () => ({
      namespace: `n${Math.floor(random() * 4)}`,
      slow: random() < 0.5,
      failures: Math.floor(random() * 3),
      left: Math.floor(random() * 10),
      sent: 0,
    }))
    const total = all.reduce((sum, { left }) => sum + left, 0)
    const flying: Slot[] = []
    const pump = () =>
      lanes.pump((candidate, slot) => {
        if (candidate.left === 0) return false
        candidate.left--
        candidate.sent++
        flying.push(slot)
        return true
      })
    for (const one of all) lanes.ready(one)
    pump()
    for (let guard = 0; flying.length > 0; guard++) {
      if (guard > 10_000) throw new Error('it does not end')
      t.equal(lanes.inFlight, flying.length)
      if (flying.length > limits.total) t.fail('too many')
      for (const namespace of ['n0', 'n1', 'n2', 'n3']) if (flying.filter((slot) => slot.namespace === namespace).length > limits.namespace) t.fail(namespace)
      // What was slow before it began leaves half of the room, rounded up, to others.
      const [slot] = flying.splice(Math.floor(random() * flying.length), 1)
      if (random() < 0.1) lanes.markSlow(slot)
      lanes.end(slot)
      pump()
    }
    t.equal(
      all.reduce((sum, { sent }) => sum + sent, 0),
      total,
    )
  }
})
