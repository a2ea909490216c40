import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { BodyPool, readBody } from './body.ts'

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
  t.not(pool.take(100_000), pool.take(100_000))
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
  t.not(pool.take(100_000), first)
  t.end()
})
