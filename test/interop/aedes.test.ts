/** Aedes, a broker in Node.js, and MQTT.js, which publishes to it; the connector mqtt takes what comes. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { startNode } from './node.ts'

// Not typed here: the packages are installed by `run` only.
const aedes = await import('aedes' as string).catch(() => undefined)
const mqtt = await import('mqtt' as string).catch(() => undefined)
const skip = aedes === undefined || mqtt === undefined ? 'the packages are not installed' : false
const EACH = 200

for (const qos of [1, 2]) {
  test(`Aedes, quality of service ${qos}: what is published arrives, also while connections are cut`, { skip }, async (t) => {
    const broker = await aedes.Aedes.createBroker()
    const connections = new Set<Socket>()
    const listener = createServer((socket) => {
      connections.add(socket)
      broker.handle(socket)
    }).listen(0, '127.0.0.1')
    await once(listener, 'listening')
    const { port } = listener.address() as { port: number }
    const subscribed = once(broker, 'subscribe')
    const settings = `broker = "127.0.0.1"\nport = ${port}\ntopics = ["plant/#"]\nformat = "line_protocol"\nqos = ${qos}\nreconnect_ms = 100\n`
    const node = await startNode({ plugins: ['line_protocol', 'mqtt'], sections: `[mqtt]\n${settings}` })
    const publisher = await mqtt.connectAsync(`mqtt://127.0.0.1:${port}`, { reconnectPeriod: 100, clientId: 'publisher', clean: false })
    t.after(async () => {
      await publisher.endAsync(true)
      await node.stop()
      listener.close()
      await new Promise((done) => broker.close(done))
    })
    await subscribed
    const base = BigInt(Date.now()) * 1_000_000n
    const publish = (from: number): Promise<unknown>[] =>
      Array.from({ length: EACH }, (_, i) => publisher.publishAsync(`plant/${i % 3}`, `numbered n=${from + i}i ${base + BigInt(from + i)}`, { qos }))
    await Promise.all(publish(0))
    await node.arrived('numbered', EACH)
    const rest = publish(EACH)
    for (const socket of connections) socket.destroy()
    connections.clear()
    await Promise.all(rest)
    await setTimeout(300)
    await Promise.all(publish(2 * EACH))
    const numbers = (await node.arrived('numbered', 3 * EACH)).map(({ fields }) => Number(fields.n)).sort((one, other) => one - other)
    assert.deepEqual(
      numbers,
      Array.from({ length: 3 * EACH }, (_, i) => i),
    )
  })
}
