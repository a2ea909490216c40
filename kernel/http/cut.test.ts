/** Answers that break off, as clients of raw sockets see it. */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import t, { type Test } from 'tap'
import { definePlugin } from '../plugin.ts'
import { type BootOptions, boot } from '../testkit/index.ts'

const plugin = definePlugin({
  id: 'broken',
  summary: 'Routes for the tests',
  stability: 'experimental',
  setup(svc) {
    const stream = (chunks: () => AsyncIterable<string>) => Readable.from(chunks(), { objectMode: false })
    svc.http.get('/broken', async (_request, reply) => {
      async function* chunks() {
        // More than what compression keeps back.
        for (let i = 0; i < 64; i++) yield randomBytes(2048).toString('base64')
        await new Promise((resolve) => setTimeout(resolve, 20))
        throw new Error('the rest is not there')
      }
      return reply.type('text/csv').send(stream(chunks))
    })
    svc.http.get('/whole', async (_request, reply) => reply.type('text/csv').send(Readable.from(['a,b\r\n', '1,2\r\n'], { objectMode: false })))
    svc.http.get('/endless', async (_request, reply) => {
      async function* chunks() {
        yield 'a,b\r\n1,2\r\n'
        await new Promise(() => {})
      }
      return reply.type('text/csv').send(stream(chunks))
    })
  },
})

const fixture = (name: string) => new URL(`../../test/support/certificates/${name}`, import.meta.url)
const ca = readFileSync(fixture('ca.pem'))
const tls = { cert: fixture('first.pem').pathname, key: fixture('first.key').pathname }
const gzip = 'accept-encoding: gzip\r\n'

async function start(t: Test, config: BootOptions['config'] = {}) {
  const node = await boot({ plugins: [plugin], config })
  t.teardown(() => node.stop())
  const { protocol, port } = new URL(node.url)
  /** @returns what came, and whether the connection was reset. */
  const ask = async (path: string, version: string, headers = '', begun = () => {}) => {
    const to = { host: '127.0.0.1', port: Number(port) }
    const socket = protocol === 'https:' ? connectTls({ ...to, ca, servername: 'localhost', checkServerIdentity: () => undefined }) : connect(to)
    let text = ''
    let reset = false
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      begun()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      reset = error.code === 'ECONNRESET'
    })
    socket.write(`GET ${path} HTTP/${version}\r\nhost: localhost\r\nconnection: close\r\n${headers}\r\n`)
    await new Promise((resolve) => socket.once('close', resolve))
    return { text, reset }
  }
  return { node, ask }
}

for (const [name, config] of Object.entries({ 'plain text': {}, TLS: { tls } })) {
  t.test(`HTTP/1.0 ends an answer with its connection: one that breaks off resets it, over ${name}`, async (t) => {
    const { ask } = await start(t, config)
    for (const headers of ['', gzip]) {
      t.ok((await ask('/broken', '1.0', headers)).reset, headers)
      const whole = await ask('/whole', '1.0', headers)
      t.notOk(whole.reset, headers)
      t.match(whole.text, /^HTTP\/1\.1 200/)
    }
    t.ok((await ask('/whole', '1.0')).text.endsWith('\r\n\r\na,b\r\n1,2\r\n'))
  })
}

t.test('HTTP/1.1 lacks the last chunk of one that breaks off', async (t) => {
  const { ask } = await start(t)
  t.notOk((await ask('/broken', '1.1')).text.endsWith('0\r\n\r\n'))
  t.ok((await ask('/whole', '1.1')).text.endsWith('0\r\n\r\n'))
})

t.test('an answer of HTTP/1.0 that the end of the server cuts resets its connection', async (t) => {
  const { node, ask } = await start(t, { server: { shutdown_timeout_secs: 1 } })
  let begun: () => void = () => {}
  const first = new Promise<void>((resolve) => {
    begun = resolve
  })
  const answer = ask('/endless', '1.0', '', begun)
  await first
  await node.stop()
  t.ok((await answer).reset)
})
