/** The upstream of an edge among the connectors of its node. */
import { definePlugin } from 'svcdb'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { boot, ManualClock, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { FaultyLink } from '../../test/support/faulty-link.ts'
import { Link } from './link.ts'
import { CLOCK, edgeOf, upstream } from './testing.ts'

/** A whole node with the engine in front of an upstream that refuses as it is told to. */
async function nodes(t: Test) {
  let refusal: ErrorCode | undefined
  const moody = definePlugin({
    id: 'moody',
    summary: 'Refuses',
    stability: 'experimental',
    capabilities: ['points'],
    setup: (svc) =>
      svc.ingest.admit(() => {
        if (refusal !== undefined) throw new SvcError(refusal, 'for the test', { headers: { 'retry-after': '0' } })
      }),
  })
  const { url, node } = await upstream(t, { plugins: [moody], config: { server: { allow_open: true } } })
  const storage = edgeOf({ data_dir: temporaryFolder(t), forward: { upstream: [{ name: 'one', url }] } })
  const edge = await boot({ plugins: ['connectors', 'line_protocol'], storage, clock: CLOCK })
  t.teardown(() => edge.stop())
  const listed = async () => (await edge.inject('/api/v1/connectors')).json().items[0]
  const up = async () => Number(/svc_connector_up\{connector="forward-upstream",type="forward"\} (\d)/.exec((await edge.inject('/metrics')).body)?.[1])
  const send = async (body: string) => t.equal((await edge.inject({ method: 'POST', url: '/write', payload: body })).statusCode, 204)
  const until = async (status: RegExp) => {
    for (let tries = 0; tries < 12_000 && !status.test(JSON.stringify((await listed()).status)); tries++) await new Promise((go) => setTimeout(go, 5))
    t.match(JSON.stringify((await listed()).status), status)
  }
  return { edge, node, listed, up, send, until, refuse: (code: ErrorCode | undefined) => void (refusal = code) }
}

t.test('the upstream is listed, with what waits for it and what it has refused', async (t) => {
  const { edge, node, listed, up, send, until, refuse } = await nodes(t)
  await until(/Idle/)
  t.match(await listed(), { name: 'forward-upstream', connector_type: 'forward', status: 'Idle', metrics: { messages_total: 0, points_total: 0, lag: 0 } })
  t.equal(await up(), 1)
  await send('cpu v=1\ncpu,host=b v=2')
  await until(/Running/)
  refuse('OVERLOADED')
  await send('cpu,host=c v=3')
  await until(/Reconnecting/)
  t.match(await listed(), { metrics: { points_total: 2, lag: 1 } })
  t.equal(await up(), 0)
  refuse('UNAUTHORIZED')
  await until(/^."failed":"one: .*UNAUTHORIZED: for the test/)
  t.equal(await up(), 0)
  refuse(undefined)
  await until(/Running/)
  t.match(await listed(), { metrics: { points_total: 3, decode_errors: 0, lag: 0 } })
  await node.storage.declareField('', 'cpu', { name: 'text', type: 'string' })
  await send('cpu text=5')
  for (let tries = 0; tries < 1000 && (await listed()).metrics.decode_errors === 0; tries++) await new Promise((go) => setTimeout(go, 5))
  t.match(await listed(), { status: 'Running', metrics: { points_total: 3, decode_errors: 1, lag: 0 } }, 'refused points are set aside')
  await edge.stop()
})

t.test('an upstream that was never reached is not up, and one that is reached is, with nothing to send', async (t) => {
  const { url } = await upstream(t, { config: { server: { allow_open: true } } })
  const link = await FaultyLink.to(Number(new URL(url).port))
  t.teardown(() => link.close())
  link.cut()
  const storage = edgeOf({ data_dir: temporaryFolder(t), forward: { upstream: [{ name: 'one', url: `http://127.0.0.1:${link.port}` }] } })
  const edge = await boot({ plugins: ['connectors', 'line_protocol'], storage, clock: CLOCK })
  t.teardown(() => edge.stop())
  const listed = async () => (await edge.inject('/api/v1/connectors')).json().items[0].status
  const up = async () => Number(/svc_connector_up\{connector="forward-upstream",type="forward"\} (\d)/.exec((await edge.inject('/metrics')).body)?.[1])
  t.equal(await up(), 0)
  t.match(await listed(), /Stopped|Reconnecting/)
  while ((await listed()) !== 'Reconnecting') await new Promise((go) => setTimeout(go, 5))
  t.equal(await up(), 0)
  link.mend()
  while ((await listed()) !== 'Idle') await new Promise((go) => setTimeout(go, 5))
  t.equal(await up(), 1)
})

t.test('a link that has nothing to send is idle, and one that is stopped is so', async (t) => {
  const clock = new ManualClock()
  const link = new Link(() => clock.monotonic())
  t.match(link.status('x'), { status: 'stopped', up: false }, 'nobody knows yet')
  link.unreached('away')
  t.match(link.status('x'), { status: 'reconnecting', up: false })
  t.ok(link.untried)
  link.reached()
  t.match(link.status('x'), { status: 'idle', up: true, pointsPerSecond: 0 })
  await clock.advance(2000)
  link.answered(100)
  t.match(link.status('x'), { status: 'running', up: true, points: 100, received: 1, pointsPerSecond: 50 })
  await clock.advance(10_001)
  t.match(link.status('x'), { status: 'idle', up: true })
  link.stopped()
  t.match(link.status('x'), { status: 'stopped', up: false })
})
