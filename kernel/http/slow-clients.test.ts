/** Clients that take their time: with the TLS handshake, the head of a request, its body. Each holds a connection, of which there is a limited number. */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const fixture = (name: string) => new URL(`../../test/support/certificates/${name}`, import.meta.url).pathname
const tls = { cert: fixture('first.pem'), key: fixture('first.key') }
const CLIENT_HELLO = Buffer.from('1603010200010001fc0303', 'hex')
/** Enough for a limit of a fifth of a second, and far less than those that Node.js has by itself. */
const TOO_LONG_MS = 20_000

/** Sends the beginning, then something now and then. @returns what came, or undefined when the server has not closed the connection. */
function drip(socket: Socket, first: string | Buffer, next: string | undefined): Promise<string | undefined> {
  return new Promise((resolve) => {
    let answer = ''
    const more = setInterval(() => next !== undefined && socket.write(next), 20)
    const end = (came: string | undefined) => {
      clearInterval(more)
      clearTimeout(late)
      socket.destroy()
      resolve(came)
    }
    const late = setTimeout(end, TOO_LONG_MS, undefined)
    socket
      .on('data', (bytes) => (answer += bytes.toString('latin1')))
      .on('error', () => {})
      .on('close', () => end(answer))
    socket.write(first)
  })
}

for (const secure of [false, true])
  t.test(secure ? 'with TLS' : 'in plain text', async (t) => {
    const node = await boot({ config: { server: { request_timeout_secs: 0.2 }, ...(secure && { tls }) } })
    t.teardown(() => node.stop())
    const port = Number(new URL(node.url).port)
    const plain = () => connect(port, '127.0.0.1')
    const open = () => (secure ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }) : plain())
    const head = 'PUT /api/v1/admin/log-level HTTP/1.1\r\nHost: localhost\r\n'
    const body = `${head}Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n`
    const timedOut = /^HTTP\/1\.1 408 /
    const outcomes = await Promise.all([
      drip(open(), '', undefined),
      drip(open(), head, 'X-More: 1\r\n'),
      drip(open(), body, ' '),
      ...(secure ? [drip(plain(), '', undefined), drip(plain(), CLIENT_HELLO, undefined)] : []),
    ])
    const [silent, slowHead, slowBody, ...handshakes] = outcomes
    t.match(silent, timedOut, 'no request')
    t.match(slowHead, timedOut, 'a head that does not end')
    t.match(slowBody, timedOut, 'a body that does not end')
    t.same(handshakes, secure ? ['', ''] : [], 'handshakes that do not begin or end')
  })
