/** The link that fails on request does what it says, or proofs over it would prove nothing. */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { seeded } from '../../kernel/lib/random/index.ts'
import { disturb, FaultyLink } from './faulty-link.ts'

interface Ends {
  link: FaultyLink
  client: Socket
  server: Socket
  open(): Promise<{ client: Socket; server: Socket }>
}

async function ends(t: Test): Promise<Ends> {
  const accepted: Socket[] = []
  const listener = createServer({ allowHalfOpen: true }, (socket) => void accepted.push(socket.on('error', () => {}))).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const link = await FaultyLink.to((listener.address() as { port: number }).port)
  t.teardown(async () => {
    await link.close()
    for (const socket of accepted) socket.destroy()
    listener.close()
  })
  const open = async () => {
    const client = connect({ port: link.port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {})
    const before = accepted.length
    while (accepted.length === before) await once(listener, 'connection')
    return { client, server: accepted[before] }
  }
  return { link, open, ...(await open()) }
}

const closed = (socket: Socket): Promise<void> => new Promise((resolve) => socket.once('close', () => resolve()))

async function received(socket: Socket, length: number): Promise<string> {
  let text = ''
  while (text.length < length) text += String((await once(socket, 'data'))[0])
  return text
}

t.test('bytes go both ways, late when asked', async (t) => {
  const { link, client, server } = await ends(t)
  client.write('ping')
  t.equal(await received(server, 4), 'ping')
  server.write('pong')
  t.equal(await received(client, 4), 'pong')
  link.delay(50)
  const began = performance.now()
  client.write('slow')
  t.equal(await received(server, 4), 'slow')
  t.ok(performance.now() - began >= 49)
})

t.test('a close ends what only one side has closed', async (t) => {
  const { link, client, server } = await ends(t)
  const heard = once(server.resume(), 'end')
  const gone = closed(client.resume())
  client.end()
  await heard
  // Now the client is gone, and the server keeps its own side open.
  link.halfClose('down')
  await gone
  await link.close()
  const ended = closed(server)
  const timer = setInterval(() => server.write('still there?'), 10)
  await ended
  clearInterval(timer)
})

t.test('a cut resets both sides and each new connection until it is mended', async (t) => {
  const { link, client, server, open } = await ends(t)
  const gone = Promise.all([closed(client), closed(server)])
  link.cut()
  await gone
  t.equal((client.errored as NodeJS.ErrnoException).code, 'ECONNRESET')
  const refused = connect(link.port, '127.0.0.1').on('error', () => {})
  await closed(refused)
  link.mend()
  const again = await open()
  again.client.write('back')
  t.equal(await received(again.server, 4), 'back')
  t.equal(link.connections, 2)
})

t.test('a cut in a message lets its beginning through', async (t) => {
  const { link, client, server } = await ends(t)
  link.cut(3)
  let text = ''
  server.on('data', (bytes) => (text += bytes))
  const gone = [closed(client), closed(server)]
  client.write('message')
  await Promise.all(gone)
  t.equal(text, 'mes')
})

t.test('what a stall holds back arrives when it is mended', async (t) => {
  const { link, client, server } = await ends(t)
  client.write('before')
  t.equal(await received(server, 6), 'before')
  link.stall()
  let seen = 0
  server.on('data', (bytes) => (seen += bytes.length))
  const megabyte = Buffer.alloc(1 << 20)
  const written = Array.from({ length: 16 }, () => new Promise((resolve) => client.write(megabyte, resolve)))
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.equal(seen, 0)
  t.ok(client.writableLength > 0, 'the sender is pushed back')
  link.mend()
  await Promise.all(written)
  while (seen < 16 << 20) await once(server, 'data')
  t.equal(seen, 16 << 20)
})

t.test('a direction that is closed leaves the other open', async (t) => {
  const { link, client, server } = await ends(t)
  const ended = once(server.resume(), 'end')
  link.halfClose('up')
  await ended
  server.write('still')
  t.equal(await received(client, 5), 'still')
})

t.test('after any faults a new connection works', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const { link, open } = await ends(t)
  const names = new Set<string>()
  for (let i = 0; i < 60; i++) names.add(await disturb(link, random, 3, (ms) => new Promise((resolve) => setTimeout(resolve, ms))))
  t.ok(names.size >= 5)
  const { client, server } = await open()
  client.write('well')
  t.equal(await received(server, 4), 'well')
})
