/** Points of several namespaces for an upstream that has other ones, or keeps none apart. */
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { f64, lines, NOW, write } from '../conformance/points.ts'
import { realEnvironment } from './engine.ts'
import { edgeOf, upstream } from './testing.ts'

async function edgeTo(t: Test, url: string, data_dir: string) {
  const warned: string[] = []
  const warn = (o: object, m?: string): void => void warned.push(`${m} ${JSON.stringify(o)}`)
  const log = { debug() {}, info() {}, warn, error: warn }
  const environment = { ...realEnvironment, pause: (_: number, signal: AbortSignal) => realEnvironment.pause(1, signal) }
  const edge = edgeOf({ data_dir, forward: { upstream: [{ name: 'one', url }] } }, { log, environment })
  await edge.open()
  t.teardown(() => edge.close())
  return { edge, warned }
}

t.test('an upstream that keeps no namespaces apart does not mix what comes with one: the points wait for one that does', { timeout: 60_000 }, async (t) => {
  const single = await upstream(t, { config: { server: { allow_open: true } } })
  const data_dir = temporaryFolder(t)
  const { edge, warned } = await edgeTo(t, single.url, data_dir)
  const send = (namespace: string, v: number) => write(edge, [{ measurement: 'cpu', tags: {}, time: NOW, fields: { v: f64(v) } }], { namespace })
  await send('red', 1)
  await send('blue', 2)
  while (warned.length === 0) await new Promise((go) => setTimeout(go, 2))
  t.match(warned, [
    /^the upstream refuses this node: .*PRECONDITION_FAILED: cannot take points of namespace \\"red\\": .* keeps no namespaces apart.*set server.multi_tenancy/,
  ])
  t.same(await lines(single.node.storage, { namespace: '', measurement: 'cpu' }).catch(() => []), [])
  await edge.close()

  const several = await upstream(t, { config: { server: { allow_open: true, multi_tenancy: true } } })
  const again = await edgeTo(t, several.url, data_dir)
  await again.edge.drained()
  const stored = async (namespace: string) => (await lines(several.node.storage, { namespace, measurement: 'cpu' })).join()
  t.match([await stored('red'), await stored('blue')], [/v=float64:1$/, /v=float64:2$/])
})

t.test('what comes with no namespace, or the default one, is taken by an upstream that keeps none apart', { timeout: 60_000 }, async (t) => {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const { edge } = await edgeTo(t, url, temporaryFolder(t))
  for (const [i, namespace] of ['', 'default'].entries())
    await write(edge, [{ measurement: 'cpu', tags: {}, time: NOW + BigInt(i), fields: { v: f64(i) } }], { namespace })
  await edge.drained()
  t.equal((await lines(node.storage, { namespace: '', measurement: 'cpu' })).length, 2)
})
