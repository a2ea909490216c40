/**
 * The edge of examples/edge: Mosquitto on the machine, its messages forwarded to a full node, which is away for a while; and the loop of test/crash/edge.ts.
 * `SVC_INTEROP_POINTS` sets how many points the loop sends (default 20,000), `SVC_SEED` repeats a run.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect as connectSocket } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectAsync } from 'mqtt'
import { edgeLoop } from '../crash/edge.ts'
import { freePort } from '../support/free-port.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'

const missing = ((): string | false => {
  try {
    execFileSync('mosquitto', ['-h'], { stdio: 'ignore' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'there is no mosquitto (Debian: apt-get install mosquitto)'
  }
  return false
})()
const POINTS = Number(process.env.SVC_INTEROP_POINTS ?? 20_000)
const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))

async function until(what: () => Promise<boolean>, why: string): Promise<void> {
  for (const end = Date.now() + 60_000; !(await what()); await sleep(50)) if (Date.now() > end) throw new Error(`it has not happened: ${why}`)
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connectSocket(port, '127.0.0.1')
    socket.once('connect', () => resolve(socket.destroy() !== undefined)).once('error', () => resolve(false))
  })

async function rows({ url }: RunningServer, query: string): Promise<unknown[][]> {
  const answer = await fetch(`${url}/api/v1/svc/sql`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query }) })
  return answer.ok ? ((await answer.json()) as { rows: unknown[][] }).rows : []
}

test('examples/edge: what Mosquitto has is stored by the full node, which was away', { skip: missing }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-edge-interop-'))
  const [mqttPort, grpcPort] = [await freePort(), await freePort()]
  await writeFile(join(folder, 'mosquitto.conf'), `user ${userInfo().username}\nlistener ${mqttPort} 127.0.0.1\nallow_anonymous true\n`)
  const broker = spawn('mosquitto', ['-c', join(folder, 'mosquitto.conf')], { stdio: 'ignore' })
  const config = join(folder, 'edge.toml')
  const text = await readFile(join(ROOT, 'examples/edge/edge.toml'), 'utf8')
  await writeFile(
    config,
    text.replace('broker = "127.0.0.1"', `broker = "127.0.0.1"\nport = ${mqttPort}\nreconnect_ms = 200`).replace('127.0.0.1:4243', `127.0.0.1:${grpcPort}`),
  )
  const servers: RunningServer[] = []
  try {
    await until(() => accepts(mqttPort), 'mosquitto accepts connections')
    const edge = await runServer(config)
    servers.push(edge)
    await until(async () => JSON.stringify(await (await fetch(`${edge.url}/api/v1/connectors`)).json()).includes('"Idle"'), 'the connector is up')
    const client = await connectAsync({ host: '127.0.0.1', port: mqttPort })
    const start = BigInt(Date.now()) * 1_000_000n
    for (let i = 0; i < 500; i++) await client.publishAsync(`site/3/press${i % 4}`, `press n=${i}i,ok=true ${start + BigInt(i)}`, { qos: 1 })
    const central = await runServer('examples/edge/upstream.toml', { env: { SVC_GRPC_BIND: `127.0.0.1:${grpcPort}` } })
    servers.push(central)
    for (let i = 500; i < 600; i++) await client.publishAsync('site/4/press', `press n=${i}i,ok=false ${start + BigInt(i)}`, { qos: 1 })
    await client.endAsync()
    const query = 'SELECT line, count(DISTINCT machine), count(DISTINCT n), sum(n) FROM press GROUP BY line ORDER BY line'
    await until(async () => (await rows(central, query)).reduce((sum, [, , n]) => sum + Number(n), 0) === 600, 'all are there')
    assert.deepEqual(
      (await rows(central, query)).map((row) => row.map(Number)),
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
