/**
 * The edge of examples/edge: Mosquitto on the machine, its messages forwarded to a full node, which is away for a while; and the loop of test/crash/edge.ts.
 * `SVC_INTEROP_POINTS` sets how many points the loop sends (default 20,000), `SVC_SEED` repeats a run.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { connectAsync } from 'mqtt'
import { edgeLoop } from '../crash/edge.ts'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'
import { until } from '../support/until.ts'
import { noMosquitto, startMosquitto } from './mosquitto.ts'
import { connectors, sql } from './served.ts'

const POINTS = Number(process.env.SVC_INTEROP_POINTS ?? 20_000)
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))

test('examples/edge: what Mosquitto has is stored by the full node, which was away', { skip: noMosquitto }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-edge-interop-'))
  const [mqttPort, grpcPort] = [await freePort(), await freePort()]
  const broker = await startMosquitto(folder, 'mosquitto', mqttPort, 'allow_anonymous true')
  const config = join(folder, 'edge.toml')
  const text = await readFile(join(ROOT, 'examples/edge/edge.toml'), 'utf8')
  await writeFile(
    config,
    text.replace('broker = "127.0.0.1"', `broker = "127.0.0.1"\nport = ${mqttPort}\nreconnect_ms = 200`).replace('127.0.0.1:4243', `127.0.0.1:${grpcPort}`),
  )
  const servers: RunningServer[] = []
  try {
    const edge = await runServer(config)
    servers.push(edge)
    await until('the connector is up', async () => (await connectors(edge.url)).some(({ status }) => status === 'Idle'))
    const client = await connectAsync({ host: '127.0.0.1', port: mqttPort })
    const start = BigInt(Date.now()) * 1_000_000n
    for (let i = 0; i < 500; i++) await client.publishAsync(`site/3/press${i % 4}`, `press n=${i}i,ok=true ${start + BigInt(i)}`, { qos: 1 })
    const central = await runServer('examples/edge/upstream.toml', { env: { SVC_GRPC_BIND: `127.0.0.1:${grpcPort}` } })
    servers.push(central)
    for (let i = 500; i < 600; i++) await client.publishAsync('site/4/press', `press n=${i}i,ok=false ${start + BigInt(i)}`, { qos: 1 })
    await client.endAsync()
    const query = 'SELECT line, count(DISTINCT machine), count(DISTINCT n), sum(n) FROM press GROUP BY line ORDER BY line'
    await until('all are there', async () => (await sql(central.url, query)).reduce((sum, [, , n]) => sum + Number(n), 0) === 600)
    assert.deepEqual(
      (await sql(central.url, query)).map((row) => row.map(Number)),
      [
        [3, 4, 500, (500 * 499) / 2],
        [4, 1, 100, 54_950],
      ],
    )
  } finally {
    for (const server of servers) await server.stop()
    const closed = once(broker, 'close')
    broker.kill()
    await closed
    await rm(folder, { recursive: true, force: true })
  }
})

test(`numbered points while the edge, its upstream and the link fail: SVC_SEED=${SEED}`, { timeout: 7_200_000 }, async () => {
  const { events, memory: _memory, disk: _disk, ...outcome } = await edgeLoop({ points: POINTS, seed: SEED, pauseMs: 1000 })
  console.log(`# ${POINTS} points, ${JSON.stringify(events)}`)
  assert.deepEqual(outcome, { sent: POINTS, stored: POINTS, different: POINTS, wrong: 0, setAside: 0, dropped: 0 })
})
