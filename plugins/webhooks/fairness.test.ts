/** Slow and dead endpoints, and tenants with many of them, delay nobody else. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { ManualClock } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import { at, delivery, makeCertificate, metric, receive, start } from './testing.ts'

t.test('forty endpoints that never answer, of the same namespace and of another', async (t) => {
  const certificate = await makeCertificate(t)
  const good = await receive(t, certificate)
  const held: Socket[] = []
  const deaf = await receive(t, certificate, (_, _response, socket) => void held.push(socket))
  // No attempt ends and no pause is over before the test says so: what a delivery waits for is counted, not timed.
  const clock = new ManualClock()
  const section = { ca_file: certificate.caFile, timeout_secs: 120, drain_secs: 0, namespace_endpoints: 42, max_in_flight: 16, namespace_in_flight: 8 }
  const { hooks, node } = await start(t, section, { clock, config: { server: { shutdown_timeout_secs: 1 } } })
  // The node looks for work.
  await clock.advance(1000)
  const names = Array.from({ length: 40 }, (_, i) => `deaf-${i}`)
  for (const name of names) await hooks.define(at(name), deaf.url)
  await hooks.define(at('good'), good.url)
  await hooks.define(at('good', 'tenant'), good.url)
  let sent = 0
  const send = async (name: string, namespace = 'default') => {
    const count = good.received.length
    await hooks.enqueue([delivery(name, `${name}-${sent++}`, 1, namespace)])
    await until(`a delivery to ${name} of ${namespace}`, () => good.received.length > count)
  }
  await send('good')
  await hooks.enqueue(names.flatMap((name) => [delivery(name, `${name}-1`), delivery(name, `${name}-2`)]))
  await until('they are waited for', () => held.length >= 4)
  for (let i = 0; i < 30; i++) {
    await send('good')
    await send('good', 'tenant')
  }
  t.equal(held.length, 4, 'the deaf ones have half of the room, and none has ended')
  t.ok((await metric(node, 'svc_webhook_in_flight')) <= 8)
  // Once each was tried, one that is new comes before those that have failed.
  await until('each was tried', async () => {
    for (const socket of held.splice(0)) socket.destroy()
    return (await hooks.list('teller', 'default')).every(({ state, name }) => name === 'good' || state === 'failing')
  })
  t.equal(deaf.received.length, 40, 'and none again before its pause')
  await clock.advance(1000)
  await until('they are waited for again', () => held.length >= 4)
  await hooks.define(at('new'), good.url)
  const count = good.received.length
  await hooks.enqueue([delivery('new', 'new')])
  t.equal(good.received.length, count, 'it waits for one attempt to end')
  held.shift()?.destroy()
  await until('the new one', () => good.received.length > count)
})

t.test('an endpoint that accepts no connection', async (t) => {
  const closed = createServer()
  await new Promise<void>((resolve) => closed.listen({ port: 0, host: '127.0.0.1' }, resolve))
  const { port } = closed.address() as AddressInfo
  await new Promise((resolve) => closed.close(resolve))
  const certificate = await makeCertificate(t)
  const good = await receive(t, certificate)
  const { hooks, node } = await start(t, { ca_file: certificate.caFile })
  await hooks.define(at('dead'), `https://localhost:${port}/`)
  await hooks.define(at('good'), good.url)
  await hooks.enqueue(Array.from({ length: 200 }, (_, i) => delivery('dead', `d${i}`)))
  await hooks.enqueue([delivery('good', 'g')])
  await until('the good one', () => good.received.length === 1)
  const attempts = await metric(node, 'svc_webhook_attempt_duration_seconds_count')
  // One at a time, and a pause between two: all of them would take 10 s at least, however fast each fails.
  t.ok(attempts < 200, `${attempts} attempts were over by then`)
})
