/** Clients that connect and say nothing, as scanners and checks of load balancers do, do not keep a node from stopping; on every listener, with TLS or without. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const fixture = (name: string) => new URL(`../../../test/support/certificates/${name}`, import.meta.url).pathname
const tls = { cert: fixture('first.pem'), key: fixture('first.key') }

for (const secure of [false, true])
  t.test(secure ? 'with TLS' : 'in plain text', async (t) => {
    const lines: string[] = []
    const addr = '127.0.0.1:0'
    const config = { grpc: { addr }, flight_sql: { addr }, server: { shutdown_timeout_secs: 600 }, ...(secure && { tls }) }
    const node = await boot({ plugins: ['grpc', 'flight_sql'], config, log: (line) => void lines.push(line) })
    const ports = [Number(new URL(node.url).port), node.port('grpc'), node.port('flight_sql')]
    const clients: Socket[] = []
    for (const port of ports) {
      const [silent, half] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')]
      if (secure) half.write(Buffer.from('1603010200010001fc0303', 'hex'))
      clients.push(silent, half)
    }
    if (secure) clients.push(connectTls({ port: ports[0], host: '127.0.0.1', rejectUnauthorized: false }))
    const closed = clients.map(async (socket) => {
      socket.on('error', () => {}).resume()
      await once(socket, 'close')
    })
    await Promise.all(clients.map((socket) => once(socket, secure && 'encrypted' in socket ? 'secureConnect' : 'connect')))
    // All have been accepted: one that comes later has been answered.
    await (secure
      ? once(
          connectTls({ port: ports[0], host: '127.0.0.1', rejectUnauthorized: false }).on('error', () => {}),
          'secureConnect',
        )
      : fetch(`${node.url}/health`))
    await node.stop()
    await Promise.all(closed)
    t.notOk(
      lines.find((line) => line.includes('shutdown_timeout_secs')),
      'nothing was waited for',
    )
  })
