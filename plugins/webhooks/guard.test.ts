/** Connections go to addresses that were checked, whatever the resolver says before and after. */
import type { Resolve } from 'svcdb/lib/egress'
import t from 'tap'
import { Guard } from './guard.ts'
import { type Post, poster } from './post.ts'
import { makeCertificate, ok, receive } from './testing.ts'

const signal = new AbortController().signal
const post = (guard: Guard, ca?: string): Post =>
  poster({ guard, timeoutMs: 2000, authorities: ca === undefined ? undefined : [ca], userAgent: 'test', now: Date.now })
const names = [{ type: 'dns' as const, value: 'hooks.example' }]

/** Answers in turn, the last one for ever. */
function answering(...answers: string[][]): Resolve & { asked: number } {
  const resolve = Object.assign(async () => answers[Math.min(resolve.asked++, answers.length - 1)], { asked: 0 })
  return resolve
}

t.test('a resolver that changes its answer gets nothing', async (t) => {
  const receiver = await receive(t, await makeCertificate(t, names), ok)
  const url = `https://hooks.example:${receiver.port}/`
  const resolve = answering(['93.184.216.34'], ['127.0.0.1'])
  const guard = new Guard(false, resolve)
  await guard.check(url)
  for (let i = 0; i < 5; i++)
    t.match(await post(guard)(url, {}, '{}', signal), { result: 'failed', kind: 'refused', reason: /resolves to an address of the range "loopback"/ })
  t.equal(receiver.connections, 0)
  t.equal(resolve.asked, 6, 'once for each connection')
})

t.test('one bad address among good ones is enough', async (t) => {
  const receiver = await receive(t, await makeCertificate(t, names), ok)
  const url = `https://hooks.example:${receiver.port}/`
  for (const bad of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '10.0.0.1', '169.254.169.254', '64:ff9b::7f00:1', 'fd00::1', '0.0.0.0', '2002:7f00:1::']) {
    const guard = new Guard(false, answering(['93.184.216.34', bad]))
    await t.rejects(guard.check(url), { code: 'BAD_REQUEST', message: /its name resolves to an address of the range/ }, bad)
    t.match(await post(guard)(url, {}, '{}', signal), { kind: 'refused' }, bad)
  }
  t.equal(receiver.connections, 0)
  const guard = new Guard(false, answering(['no address'], []))
  t.match(await post(guard)(url, {}, '{}', signal), { kind: 'connection', reason: 'its name has no address' })
})

t.test('a literal address and a URL of an earlier setting are refused at the connection too', async (t) => {
  const certificate = await makeCertificate(t)
  const receiver = await receive(t, certificate, ok)
  const guard = new Guard(false, answering(['93.184.216.34']))
  for (const host of ['127.0.0.1', '2130706433', '0x7f.1', '[::ffff:127.0.0.1]', 'localhost'])
    t.match(await post(guard)(`https://${host}:${receiver.port}/`, {}, '{}', signal), { kind: 'refused' }, host)
  t.match(await post(guard)(`http://93.184.216.34:${receiver.port}/`, {}, '{}', signal), { kind: 'refused' }, 'http')
  t.equal(receiver.connections, 0)
})

t.test('the connection goes to the checked address, under the name of the URL', async (t) => {
  const certificate = await makeCertificate(t, names)
  const receiver = await receive(t, certificate, ok)
  const guard = new Guard(true, answering(['127.0.0.1'], ['127.0.0.2']))
  const url = `https://hooks.example:${receiver.port}/x`
  t.match(await post(guard, certificate.certificate)(url, { a: 'b' }, '{"ü":1}', signal), { result: 'delivered' })
  t.match(receiver.received, [{ path: '/x', body: '{"ü":1}', headers: { host: `hooks.example:${receiver.port}`, a: 'b', 'user-agent': 'test' } }])
  // Not trusted.
  t.match(await post(new Guard(true, answering(['127.0.0.1'])))(url, {}, '{}', signal), { result: 'failed', kind: 'tls' })
  // Another name than that of the certificate.
  t.match(await post(guard, certificate.certificate)(`https://other.example:${receiver.port}/`, {}, '{}', signal), { result: 'failed' })
  t.match(await post(new Guard(true, answering(['127.0.0.1'])), certificate.certificate)(`https://other.example:${receiver.port}/`, {}, '{}', signal), {
    kind: 'tls',
    reason: /other\.example/,
  })
  t.equal(receiver.received.length, 1)
})

t.test('a name that cannot be resolved yet may be defined, and one whose resolver hangs holds nobody up', async (t) => {
  const failing: Resolve = () => Promise.reject(Object.assign(new Error('queryA ENOTFOUND hooks.example'), { code: 'ENOTFOUND' }))
  await t.resolves(new Guard(false, failing).check('https://hooks.example/'))
  t.match(await post(new Guard(false, failing))('https://hooks.example/', {}, '{}', signal), { kind: 'connection', reason: /ENOTFOUND/ })
  const began = Date.now()
  const hanging = new Guard(false, () => new Promise(() => {}))
  const keepAlive = setInterval(() => {}, 1000)
  await t.resolves(hanging.check('https://hooks.example/'))
  t.match(await post(hanging)('https://hooks.example/', {}, '{}', signal), { kind: 'timeout' })
  clearInterval(keepAlive)
  t.ok(Date.now() - began < 60_000)
})
