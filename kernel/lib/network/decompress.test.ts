import { stat } from 'node:fs/promises'
import { deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import t from 'tap'
import { decompress } from './decompress.ts'

const SKIPPABLE = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2])
const frame = (text: string): Buffer => zstdCompressSync(text)
const zstd = async (parts: Buffer[], limit = 1_048_576): Promise<string> => (await decompress(Buffer.concat(parts), 'zstd', limit)).toString()

t.test('zstd: all frames of a body are one text, those to skip are none', async (t) => {
  const long = 'abc'.repeat(100_000)
  t.equal(await zstd([frame('one')]), 'one')
  t.equal(await zstd([SKIPPABLE, frame('one'), frame(''), frame(long), SKIPPABLE, frame('two')]), `one${long}two`)
  t.equal(await zstd([SKIPPABLE]), '')
})

t.test('zstd: the limit is for all frames together', async (t) => {
  t.equal(await zstd([frame('123'), frame('45')], 5), '12345')
  await t.rejects(zstd([frame('123'), frame('456')], 5), { code: 'PAYLOAD_TOO_LARGE' })
  await t.rejects(zstd([frame('12345'), frame('6')], 5), { code: 'PAYLOAD_TOO_LARGE' })
})

t.test('zstd: what is no frame, one that is cut, and frames without end are refused', async (t) => {
  await t.rejects(zstd([frame('one'), Buffer.from('two')]), { code: 'BAD_REQUEST', message: /cannot decompress the body as zstd/ })
  await t.rejects(zstd([frame('one'), frame('two').subarray(0, -1)]), { code: 'BAD_REQUEST' })
  await t.rejects(zstd(Array.from({ length: 1001 }, () => SKIPPABLE)), { code: 'BAD_REQUEST', message: /more than 1000 frames/ })
})

t.test('a refusal says what a sender can do, in no words of the library', async (t) => {
  const text = 'a line of text, and another one '.repeat(9)
  const cause = async (encoding: string, bytes: Buffer): Promise<string | undefined> =>
    decompress(bytes, encoding, 1_048_576).then(
      () => undefined,
      (error: Error) => error.message.replace(/^cannot decompress the body as [a-z]+: /, ''),
    )
  const changed = (bytes: Buffer, at: number, value: number) => Buffer.from(bytes.with(at < 0 ? bytes.length + at : at, value))
  for (const [encoding, whole] of [
    ['gzip', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['zstd', zstdCompressSync(text)],
  ] as const) {
    t.equal(await cause(encoding, whole.subarray(0, -5)), 'it ends early; send it whole', encoding)
    const known =
      /^(it ends early; send it whole|it does not begin as such data do; name .*|it was compressed with a dictionary; .*|it needs too large a window; .*|the compressed data are damaged; send it again)$/
    for (let i = 0; i < whole.length; i++)
      for (const value of [0, 0x7f, 0xff])
        t.match((await cause(encoding, changed(whole, i, value))) ?? 'it ends early; send it whole', known, `${encoding}, byte ${i}`)
  }
  t.match(await cause('gzip', changed(gzipSync(text), -5, 1)), /damaged/, 'its checksum')
  for (const encoding of ['gzip', 'zstd']) t.match(await cause(encoding, Buffer.from('plain text')), /name in Content-Encoding/)
})

t.test('the disk has threads of the pool left, however many bodies come', async (t) => {
  const body = gzipSync(Buffer.alloc(4_000_000))
  let done = 0
  const all = Array.from({ length: 40 }, async () => {
    await decompress(body, 'gzip', 4_000_000)
    done++
  })
  // The first looks behind which of them it comes, the others give those the time to say that they are done.
  for (let i = 0; i < 5; i++) await stat(import.meta.filename)
  t.ok(done < 20, `${done} bodies were decompressed before`)
  await Promise.all(all)
})

t.test('what nobody waits for any more is not decompressed when its turn comes', async (t) => {
  const body = gzipSync('text')
  const gone = new Error('gone')
  await t.rejects(decompress(body, 'gzip', 10, { ended: () => gone }), gone)
  t.equal(String(await decompress(body, 'gzip', 10, { ended: () => undefined })), 'text')
})

t.test('owners take turns: who has sent much waits for itself', async (t) => {
  const body = gzipSync('text')
  const done: string[] = []
  const all = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'b1'].map((name) =>
    decompress(body, 'gzip', 10, { owner: name[0], ended: () => void done.push(name) }),
  )
  await Promise.all(all)
  t.same(done, ['a1', 'a2', 'a3', 'a4', 'b1', 'a5', 'a6', 'a7'])
})
