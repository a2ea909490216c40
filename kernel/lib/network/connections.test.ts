/** Connections beyond server.max_connections are closed at once, counted, and taken again when others have ended; on every listener. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { eventually } from '../../../test/support/until.ts'

async function open(port: number): Promise<{ socket: Socket; closed: Promise<boolean> }> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  // One that is refused is connected, and closed.
  const closed = once(socket, 'close').then(() => true)
  await once(socket, 'connect')
  return { socket, closed }
}

const LISTENERS: { name: string; plugins: string[] }[] = [
  { name: 'http', plugins: [] },
  { name: 'grpc', plugins: ['grpc'] },
  { name: 'flight_sql', plugins: ['flight_sql'] },
]

for (const { name, plugins } of LISTENERS)
  t.test(name, async (t) => {
    const lines: string[] = []
    const sections = { grpc: { addr: '127.0.0.1:0' }, flight_sql: { addr: '127.0.0.1:0' } }
    const own = Object.fromEntries(Object.entries(sections).filter(([section]) => plugins.includes(section)))
    const node = await boot({ plugins, config: { server: { max_connections: 4 }, ...own }, log: (line) => void lines.push(line) })
    t.teardown(() => node.stop())
    const port = plugins.length > 0 ? node.port(name) : Number(new URL(node.url).port)
    const taken = await Promise.all(Array.from({ length: 4 }, () => open(port)))
    const refused = await Promise.all(Array.from({ length: 10 }, () => open(port)))
    t.same(await Promise.all(refused.map(({ closed }) => closed)), new Array(10).fill(true))
    t.ok(taken.every(({ socket }) => !socket.destroyed))
    t.match((await node.inject('/metrics')).body, new RegExp(`^svc_${name}_connections_refused_total 10$`, 'm'))
    t.equal(lines.filter((line) => line.includes('server.max_connections')).length, 1, 'said once')
    for (const { socket } of taken) socket.destroy()
    await eventually(async () => {
      const { socket, closed } = await open(port)
      const isTaken = await Promise.race([closed.then(() => false), new Promise<boolean>((resolve) => setTimeout(resolve, 50, true))])
      socket.destroy()
      return isTaken
    })
  })
