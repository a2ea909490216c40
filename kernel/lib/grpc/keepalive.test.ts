import { once } from 'node:events'
import { connect, createServer, type ServerHttp2Session } from 'node:http2'
import { type AddressInfo, connect as connectTcp } from 'node:net'
import t, { type Test } from 'tap'
import { keepAlive } from './keepalive.ts'

/** What an HTTP/2 client says first: the preface, empty SETTINGS, and that it has seen those of the server. */
const HELLO = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
  Buffer.from([0, 0, 0, 4, 1, 0, 0, 0, 0]),
])

t.test('a client that answers no ping is cut off, one that does is not', async (t) => {
  // A machine that stands still for as long as a ping may take cuts both.
  let cut: boolean[] = []
  for (const limit of [0.1, 1, 10]) {
    cut = await cutOff(t, limit)
    if (!cut[0]) break
  }
  t.same(cut, [false, true])
})

/** @returns whether the connection of the lively client has gone when that of the silent one has, and whether that has. */
async function cutOff(t: Test, limit: number): Promise<boolean[]> {
  const server = createServer()
  const sessions: ServerHttp2Session[] = []
  const stops: (() => void)[] = []
  server.on('sessionError', () => {})
  server.on('session', (session) => {
    sessions.push(session)
    stops.push(keepAlive(session, { keepalive_secs: 0.02, keepalive_timeout_secs: limit }, () => session.destroy()))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const lively = connect(`http://127.0.0.1:${port}`)
  await once(lively, 'connect')
  lively.on('error', () => {}) // that it was cut off is seen below
  const silent = connectTcp(port, '127.0.0.1').on('error', () => {})
  t.teardown(() => {
    for (const stop of stops) stop()
    lively.destroy()
    silent.destroy()
    server.close()
  })
  silent.write(HELLO)
  silent.resume()
  await once(silent, 'close')
  const [first, second] = sessions.map(({ destroyed }) => destroyed)
  return [first || lively.destroyed, second]
}

t.test('0 is no pings', async (t) => {
  let pinged = false
  const session = {
    ping: () => {
      pinged = true
    },
  } as unknown as ServerHttp2Session
  keepAlive(session, { keepalive_secs: 0, keepalive_timeout_secs: 1 }, () => {})()
  t.equal(pinged, false)
})
