/**
 * Messages of one point each at QoS 1, from a Mosquitto that has them already to durable points: messages a second, processor of this process and delay.
 * `node plugins/mqtt/mqtt.bench.ts [messages] [qos] [version] [measurements]`; needs `mosquitto`.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectAsync, type MqttClient } from 'mqtt'
import { boot } from 'svcdb/testkit'
import type { Listed } from './testing.ts'

const messages = Number(process.argv[2] ?? 200_000)
const qos = Number(process.argv[3] ?? 1) as 0 | 1 | 2
const protocol_version = process.argv[4] ?? '5'
const measurements = process.argv[5] ?? '1'
const SERIES = 1000

const folder = mkdtempSync(join(tmpdir(), 'svc-mqtt-bench-'))
const port = await freePort()
writeFileSync(join(folder, 'mosquitto.conf'), `listener ${port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n`)
const mosquitto = spawn('mosquitto', ['-c', join(folder, 'mosquitto.conf')], { stdio: 'ignore' })
const client = await connected()
const node = await boot({
  plugins: ['mqtt', 'line_protocol'],
  storage: 'embedded',
  config: { mqtt: { broker: '127.0.0.1', port, topics: ['bench/#'], format: 'line_protocol', qos, protocol_version, client_id: 'bench', reconnect_ms: 100 } },
})
try {
  const metrics = async (): Promise<Record<string, number>> =>
    ((await node.inject('/api/v1/connectors')).json().items as Listed[])[0].metrics as Record<string, number>
  while (!(await node.inject('/metrics')).body.includes('svc_connector_up{connector="mqtt-default",type="mqtt"} 1')) await sleep(20)
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
} finally {
  await node.stop()
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
