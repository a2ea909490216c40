/** For tests: a broker, and a node with a connector to it. */
import { createServer, type Server, type Socket } from 'node:net'
import { Aedes } from 'aedes'
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt'
import { boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import { listed } from '../../test/support/connectors.ts'
import { eventually } from '../../test/support/until.ts'

export { listed, type Row, rowsOf } from '../../test/support/connectors.ts'

export interface TestBroker {
  port: number
  aedes: Aedes
  /** Drops all connections, and takes none until `up`. */
  down(): Promise<void>
  up(): Promise<void>
  client(options?: IClientOptions): Promise<MqttClient>
}

export async function broker(t: Test, options: object = {}): Promise<TestBroker> {
  const aedes = await Aedes.createBroker({ ...options })
  const sockets = new Set<Socket>()
  let server: Server
  let port = 0
  const up = async (): Promise<void> => {
    server = createServer((socket) => {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket)).on('error', () => {})
      aedes.handle(socket)
    })
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    port = (server.address() as { port: number }).port
  }
  const down = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of sockets) socket.destroy()
    await closed
  }
  await up()
  const clients: MqttClient[] = []
  t.teardown(async () => {
    for (const client of clients) await client.endAsync(true)
    await down().catch(() => {})
    await new Promise<void>((resolve) => aedes.close(resolve))
  })
  return {
    port,
    aedes,
    up,
    down,
    client: async (given = {}) => {
      const client = await connectAsync({ host: '127.0.0.1', port, reconnectPeriod: 50, ...given })
      client.on('error', () => {})
      clients.push(client)
      return client
    },
  }
}

export async function start(t: Test, mqtt: object, more: { config?: object; storage?: string; plugins?: string[]; dataDir?: string } = {}): Promise<TestNode> {
  const node = await boot({
    plugins: ['mqtt', 'native', 'line_protocol', ...(more.plugins ?? [])],
    config: { ...more.config, mqtt },
    ...(more.storage === undefined ? {} : { storage: more.storage }),
    ...(more.dataDir === undefined ? {} : { dataDir: more.dataDir }),
  })
  t.teardown(() => node.stop())
  return node
}

export const running = (node: TestNode): Promise<true> => eventually(async () => ['Running', 'Idle'].includes((await listed(node))[0].status as string))
