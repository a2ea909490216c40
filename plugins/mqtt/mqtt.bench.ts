/**
 * Messages of one point each at QoS 1, from a Mosquitto to durable points: messages a second as fast as they go, and processor of this process; then the delay of
 * messages at a steady rate, from their publish to the acknowledgement of the connector, which a proxy between it and the broker sees.
 * `node plugins/mqtt/mqtt.bench.ts [messages] [qos] [version] [measurements] [steady rate]`; needs `mosquitto`.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectAsync, type MqttClient } from 'mqtt'
import { boot, type TestNode } from 'svcdb/testkit'
import { listed } from '../../test/support/connectors.ts'
import { ackProxy } from './testing-ack-proxy.ts'

const messages = Number(process.argv[2] ?? 200_000)
const qos = Number(process.argv[3] ?? 1) as 0 | 1 | 2
const protocol_version = process.argv[4] ?? '5'
const measurements = process.argv[5] ?? '1'
const rate = Number(process.argv[6] ?? 1000)
const SERIES = 1000
const STEADY_SECS = 10

const folder = mkdtempSync(join(tmpdir(), 'svc-mqtt-bench-'))
const port = await freePort()
writeFileSync(join(folder, 'mosquitto.conf'), `listener ${port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n`)
const mosquitto = spawn('mosquitto', ['-c', join(folder, 'mosquitto.conf')], { stdio: 'ignore' })
const client = await connected()
/** When each message of the steady part was published, and how long until it was acknowledged, in milliseconds. */
const published: number[] = []
const delays: number[] = []
const underway = new Map<number, number>()
const proxy = await ackProxy(port, (id, text) => {
  if (text !== undefined) {
    const [, n] = /steady n=(\d+)/.exec(text) ?? []
    if (n !== undefined) underway.set(id, Number(n))
    return
  }
  const n = underway.get(id)
  underway.delete(id)
  if (n !== undefined) delays.push(performance.now() - published[n])
})
const started = async (port: number, client_id: string, topic: string): Promise<TestNode> => {
  const mqtt = { broker: '127.0.0.1', port, topics: [topic], format: 'line_protocol', qos, protocol_version, client_id, reconnect_ms: 100 }
  const node = await boot({ plugins: ['mqtt', 'line_protocol'], storage: 'embedded', config: { mqtt } })
  while (!(await node.inject('/metrics')).body.includes('svc_connector_up{connector="mqtt-default",type="mqtt"} 1')) await sleep(20)
  return node
}
let node = await started(port, 'bench', 'bench/#')
try {
  const metrics = async (): Promise<Record<string, number>> => (await listed(node))[0].metrics as Record<string, number>
  const start = BigInt(Date.now()) * 1_000_000n
  for (const round of ['cold', 'warm']) {
    const before = (await metrics()).points_total
    const began = performance.now()
    const cpu = process.cpuUsage()
    const sender = spawn(process.execPath, [
      join(import.meta.dirname, 'mqtt-sender.ts'),
      String(port),
      String(messages),
      String(qos),
      String(SERIES),
      String(start + BigInt(round === 'cold' ? 0 : messages)),
      measurements,
    ])
    while ((await metrics()).points_total < before + messages) await sleep(50)
    const seconds = (performance.now() - began) / 1000
    const { user, system } = process.cpuUsage(cpu)
    console.log(`${round}: ${Math.round(messages / seconds)} messages/s, ${((user + system) / messages).toFixed(1)} µs of processor a message`)
    sender.kill()
  }
  if (qos > 0) {
    await node.stop()
    node = await started(proxy.port, 'steady', 'steady')
    const total = rate * STEADY_SECS
    const began = performance.now()
    for (let n = 0; n < total; n++) {
      const due = began + (n * 1000) / rate
      const early = due - performance.now()
      if (early > 0) await sleep(early)
      published[n] = performance.now()
      client.publish('steady', `steady n=${n}i ${start + BigInt(n)}`, { qos })
    }
    while (delays.length < total) await sleep(20)
    delays.sort((a, b) => a - b)
    const [p50, p99, most] = [0.5, 0.99, 1].map((share) => delays[Math.ceil(delays.length * share) - 1].toFixed(1))
    console.log(`steady: ${total} messages at ${rate}/s, from publish to acknowledgement p50 ${p50} ms, p99 ${p99} ms, at most ${most} ms`)
  }
} finally {
  await node.stop()
  proxy.close()
  await client.endAsync(true)
  mosquitto.kill()
  rmSync(folder, { recursive: true })
}

async function connected(): Promise<MqttClient> {
  for (;;) {
    const client = await connectAsync({ host: '127.0.0.1', port, reconnectPeriod: 0 }).catch(() => undefined)
    if (client !== undefined) return client
    await sleep(50)
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}
