import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t, { type Test } from 'tap'
import { takeChunksInTurns } from './chunk-turns.ts'
import { serveInOrder } from './in-order.ts'

const CHUNKS = 100_000
/** Node.js reads 64 KiB at once. */
const OF_ONE_READ = 65_536 / 6
const HEAD = 'POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n'

/** Answers with the number of bytes, and counts the chunks of each turn of the event loop. */
async function listening(t: Test, turns: number[]): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.url === '/unread') return void response.end('unread')
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (turns.length === 0 || turns[turns.length - 1] === 0) {
        turns.push(0)
        setImmediate(() => turns.push(0))
      }
      turns[turns.length - 1]++
    })
    request.on('end', () => response.end(String(bytes)))
  })
  serveInOrder(server)
  takeChunksInTurns(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return server
}

/** @returns the bodies of so many answers. */
async function answered(server: Server, text: string, answers: number): Promise<string[]> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.write(text)
  let got = ''
  for await (const chunk of socket) {
    got += chunk
    if (got.split('HTTP/1.1 200').length > answers && /\r\n\r\n\w+$/.test(got)) break
  }
  return [...got.matchAll(/\r\n\r\n(\w+?)(?=HTTP|$)/g)].map(([, body]) => body)
}

const chunked = '1\r\nx\r\n'.repeat(CHUNKS)

t.test('chunks are taken a read at a time, and of one connection in a turn', async (t) => {
  const turns: number[] = []
  const server = await listening(t, turns)
  const bodies = await Promise.all(Array.from({ length: 4 }, () => answered(server, `${HEAD}${chunked}0\r\n\r\n`, 1)))
  t.same(bodies.flat(), Array(4).fill(String(CHUNKS)))
  // The first of each connection come before they are known to be many.
  t.ok(Math.max(...turns) <= 5 * OF_ONE_READ, `${Math.max(...turns)} chunks in a turn`)
  t.equal(
    turns.reduce((sum, chunks) => sum + chunks, 0),
    4 * CHUNKS,
  )
})

t.test('what is behind them on the connection is answered', async (t) => {
  const server = await listening(t, [])
  const few = `${HEAD}5\r\nabcde\r\n0\r\n\r\n`
  t.same(await answered(server, `${HEAD}${chunked}0\r\n\r\n${few}`, 2), [String(CHUNKS), '5'])
  t.same(await answered(server, `${HEAD.replace('/', '/unread')}${chunked}0\r\n\r\n${few}`, 2), ['unread', '5'])
})

t.test('a connection that is closed meanwhile holds up no other', async (t) => {
  const server = await listening(t, [])
  const gone = connect((server.address() as AddressInfo).port, '127.0.0.1')
  gone.write(HEAD + chunked)
  await new Promise<void>((resolve) => server.once('request', (request) => request.once('data', () => resolve())))
  gone.resetAndDestroy()
  t.same(await answered(server, `${HEAD}${chunked}0\r\n\r\n`, 1), [String(CHUNKS)])
})
