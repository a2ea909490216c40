import type { ServerHttp2Stream } from 'node:http2'
import { PassThrough } from 'node:stream'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { Inbox } from './inbox.ts'

function frame(message: Buffer, compressed = false): Buffer {
  const head = Buffer.alloc(5)
  head[0] = Number(compressed)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** An inbox over a stream that the test feeds, and the bytes that it holds. */
function inboxOf(encoding = 'identity') {
  const stream = Object.assign(new PassThrough(), { aborted: false })
  const held = { bytes: 0 }
  const inbox = new Inbox(stream as unknown as ServerHttp2Stream, {
    maxBytes: 1 << 20,
    setting: undefined,
    encoding,
    hold: (bytes) => void (held.bytes += bytes),
    kept: () => 0,
  })
  inbox.open()
  return { stream, inbox, held }
}

t.test('of a compressed message the decompressed size is held until it is done with', async (t) => {
  const { stream, inbox, held } = inboxOf('gzip')
  const message = Buffer.alloc(100_000, 'a')
  stream.end(frame(gzipSync(message), true))
  const taken = (await inbox.next()) as Uint8Array
  t.equal(taken.length, message.length)
  t.equal(held.bytes, message.length)
  inbox.done(taken.length)
  t.equal(held.bytes, 0)
  t.equal(await inbox.next(), undefined)
})

t.test('a call that is cancelled has not ended', async (t) => {
  const { stream, inbox } = inboxOf()
  stream.write(frame(Buffer.from('one')))
  t.equal(String(await inbox.next()), 'one')
  const next = inbox.next()
  stream.aborted = true
  const over = new Promise((resolve) => stream.on('end', resolve))
  stream.end()
  await over
  t.notOk(inbox.ended)
  // Whoever takes notice of the cancellation says so.
  inbox.fail(new Error('cancelled'))
  await t.rejects(next, /cancelled/)
})

t.test('a call that ends in the middle of a message is refused, wherever that is', async (t) => {
  const whole = frame(Buffer.from('message'))
  for (const length of [1, 3, 4, 5, 6, whole.length - 1]) {
    const { stream, inbox } = inboxOf()
    stream.end(whole.subarray(0, length))
    await t.rejects(inbox.next(), { code: 'BAD_REQUEST', message: /ends in the middle/ }, `${length} bytes`)
  }
})
