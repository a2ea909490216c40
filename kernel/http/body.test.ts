import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { BodyPool, readBody } from './body.ts'
import { BodyMemory } from './body-memory.ts'

const LIMIT = { bytes: 1 << 20, setting: 'server.max_body_size' }

function request(body: Buffer, encoding?: string): IncomingMessage {
  const headers = { 'content-length': String(body.length), ...(encoding === undefined ? {} : { 'content-encoding': encoding }) }
  return Object.assign(new PassThrough().end(body), { headers, complete: true }) as unknown as IncomingMessage
}

t.test('two requests never get the same buffer, whatever came before', async (t) => {
  const plain = randomBytes(100_000)
  for (const encoding of [undefined, 'gzip']) {
    const pool = new BodyPool()
    const { bytes, pooled } = await readBody(request(encoding === undefined ? plain : gzipSync(plain), encoding), LIMIT, pool)
    t.same(bytes, plain)
    // As the server does when the answer was sent.
    if (pooled !== undefined) pool.give(pooled)
    const [one, other] = [pool.take(100_000), pool.take(100_000)]
    t.not(one, other, `after ${encoding ?? 'identity'}`)
  }
})

t.test('a body that cannot be decompressed gives its buffer back once', async (t) => {
  const pool = new BodyPool()
  await t.rejects(readBody(request(randomBytes(100_000), 'gzip'), LIMIT, pool), { code: 'BAD_REQUEST' })
  for (const encoding of [undefined, 'identity'])
    await t.rejects(readBody(request(gzipSync(randomBytes(100_000)), encoding), LIMIT, pool), {
      code: 'BAD_REQUEST',
      message: /; send Content-Encoding: gzip$/,
    })
  t.same((await readBody(request(gzipSync('cpu v=1\n')), LIMIT, pool, true)).bytes, gzipSync('cpu v=1\n'), 'whoever decompresses it gets it as it is')
  t.not(pool.take(100_000), pool.take(100_000))
})

t.test('a body that is refused on its way gives its buffer back once, and what still arrives is not written to it', async (t) => {
  const pool = new BodyPool()
  const memory = new BodyMemory(100_000)
  memory.open('a').take(50_000)
  const hold = memory.open('a')
  const stream = new PassThrough()
  const reading = readBody(Object.assign(stream, { headers: { 'content-length': '100000' }, complete: true }) as never, LIMIT, pool, false, hold)
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  stream.write(Buffer.alloc(40_000, 1))
  await turn()
  t.equal(memory.total, 90_000)
  stream.write(Buffer.alloc(20_000, 2))
  await turn()
  t.equal(memory.total, 50_000)
  const [buffer, other] = [pool.take(100_000), pool.take(100_000)]
  t.not(buffer, other)
  buffer.fill(9)
  other.fill(9)
  stream.end(Buffer.alloc(40_000, 3))
  await t.rejects(reading, { code: 'BACKPRESSURE' })
  t.ok([...buffer, ...other].every((byte) => byte === 9))
  t.equal(memory.total, 50_000)
})

t.test('a body that grows is read whole, and its buffers are used again', async (t) => {
  const pool = new BodyPool()
  const body = randomBytes(300_000)
  const stream = new PassThrough()
  const hold = new BodyMemory(1_000_000).open('a')
  const reading = readBody(Object.assign(stream, { headers: {}, complete: true }) as never, LIMIT, pool, false, hold)
  for (let at = 0; at < body.length; at += 3000) stream.write(body.subarray(at, at + 3000))
  stream.end()
  const { bytes, pooled } = await reading
  t.same(bytes, body)
  t.equal(hold.bytes, body.length)
  t.not(pool.take(300_000), pooled)
})

t.test('buffers are used again while bodies come, and given up when none has come for a while', (t) => {
  const pool = new BodyPool()
  const first = pool.take(100_000)
  pool.give(first)
  pool.rest()
  const second = pool.take(100_000)
  t.equal(second, first, 'it was taken a moment before')
  pool.give(second)
  pool.rest()
  pool.rest()
  const third = pool.take(100_000)
  t.not(third, first)
  pool.give(third)
  pool.giveUp()
  t.not(pool.take(100_000), third, 'given up at once')
  t.end()
})
