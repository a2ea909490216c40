import type { ServerHttp2Stream } from 'node:http2'
import { connect } from 'node:net'
import { PassThrough } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { collect } from '../heap/index.ts'
import { Inbox } from './inbox.ts'
import { echo, start } from './testing.ts'
import { DATA, frame as http2Frame, PREFACE, request, SETTINGS } from './testing-frames.ts'

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

t.test('a message that is not whole takes the memory that is counted for it, whatever was sent beside it', async (t) => {
  const [calls, bursts, part, maxFrame, unknownType] = [4, 800, 4096, 16_384, 0xbb]
  const { node, port } = await start(t, [echo])
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  const ids = Array.from({ length: calls }, (_, i) => 1 + 2 * i)
  const announced = Buffer.alloc(5)
  announced.writeUInt32BE(60_000_000, 1)
  socket.write(Buffer.concat([PREFACE, http2Frame(SETTINGS)]))
  // The frame of the message that `request` ends with is another one here.
  for (const id of ids) socket.write(Buffer.concat([request(echo.path, {}, id).subarray(0, -14), http2Frame(DATA, 0, id, announced)]))
  // What a socket receives at once is one buffer. Frames of a type that nobody knows are left out (RFC 9113, section 4.1).
  const unknown = Array.from({ length: 3 }, () => http2Frame(unknownType, 0, 0, Buffer.alloc(maxFrame)))
  const written = ids.map((id) => Buffer.concat([...unknown, http2Frame(unknownType, 0, 0, Buffer.alloc(12_000)), http2Frame(DATA, 0, id, Buffer.alloc(part))]))
  collect()
  const before = process.memoryUsage().arrayBuffers
  for (let i = 0; i < bursts; i++) await new Promise((resolve) => socket.write(written[i % calls], resolve))
  const counted = async () => Number(/svc_echo_buffered_bytes (\d+)\n/.exec((await node.inject({ url: '/metrics' })).body)?.[1])
  while ((await counted()) < bursts * part) await delay(10)
  const taken = await lookUntil(
    async () => {
      collect()
      return process.memoryUsage().arrayBuffers - before
    },
    (bytes) => bytes < 2 * bursts * part,
  )
  t.ok(taken < 2 * bursts * part, `${taken} bytes for ${bursts * part}`)
})
