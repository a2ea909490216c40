import { syncBuiltinESMExports } from 'node:module'
import threads from 'node:worker_threads'
import { compressSync } from 'snappy'
import t, { type Test as TapTest } from 'tap'
import { seeded } from '../random/index.ts'
import { SnappyThread } from './thread.ts'

const MIN_BYTES = 128 * 1024

/** Words again and again: copies near and far, long and short, overlapping ones too. */
function text(seed: number, length: number): Buffer {
  const random = seeded(seed)
  const words = Array.from({ length: 40 }, () => Buffer.from(Array.from({ length: 1 + random() * 150 }, () => random() * 256)))
  const parts: Buffer[] = []
  for (let size = 0; size < length; ) {
    const word = words[Math.floor(random() * words.length)]
    parts.push(word)
    size += word.length
  }
  return Buffer.concat(parts, length)
}

/** The thread, once it takes blocks. */
async function started(t: TapTest, slots: number): Promise<SnappyThread> {
  const thread = new SnappyThread(slots, (error) => t.fail(error.message))
  t.teardown(() => thread.stop())
  const block = compressSync(text(1, MIN_BYTES))
  for (;;) {
    const decoded = thread.decode(block, (bytes) => bytes.length)
    if (decoded !== undefined) {
      t.equal(await decoded, MIN_BYTES)
      return thread
    }
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

t.test('blocks of many sizes come back, several at a time, in memory that is used again', async (t) => {
  const thread = await started(t, 3)
  for (let round = 0; round < 20; round++) {
    const inputs = [0, 1, 2].map((i) => text(round * 3 + i, MIN_BYTES + ((round * 7919 + i * 104729) % 900_000)))
    const decoded = inputs.map((bytes) => thread.decode(compressSync(bytes), (out) => bytes.equals(out)))
    t.same(await Promise.all(decoded), [true, true, true], `round ${round}`)
  }
})

t.test('what is too small, too large or one too many is left to the caller', async (t) => {
  const thread = await started(t, 1)
  const length = (bytes: Uint8Array) => bytes.length
  t.equal(thread.decode(compressSync(text(1, MIN_BYTES - 1)), length), undefined)
  t.equal(thread.decode(compressSync(Buffer.alloc(4 * 1024 * 1024 + 1)), length), undefined)
  const block = compressSync(text(2, MIN_BYTES))
  const first = thread.decode(block, length)
  t.equal(thread.decode(block, length), undefined, 'the slot is taken')
  t.equal(await first, MIN_BYTES)
  t.equal(await thread.decode(block, length), MIN_BYTES, 'and free again')
  const none = new SnappyThread(0, () => {})
  t.equal(none.decode(block, length), undefined, 'without slots there is no thread')
})

t.test('damage and a reader that throws are told to the caller, and the slot is free again', async (t) => {
  const thread = await started(t, 1)
  const bytes = text(3, MIN_BYTES)
  const block = compressSync(bytes)
  const corrupted = Buffer.concat([block.subarray(0, block.length - 100), Buffer.alloc(100)])
  await t.rejects(thread.decode(corrupted, () => 0) as Promise<number>, {
    code: 'BAD_REQUEST',
    message: /cannot decompress the body as snappy .*, at byte \d+/,
  })
  t.throws(() => thread.decode(Buffer.from([0x80]), () => 0), { code: 'BAD_REQUEST' })
  const thrown = new Error('of the reader')
  await t.rejects(
    thread.decode(block, () => {
      throw thrown
    }) as Promise<number>,
    thrown,
  )
  t.ok(await thread.decode(block, (out) => bytes.equals(out)))
})

t.test('blocks under way when it is stopped are decoded all the same; later ones are the caller’s', async (t) => {
  const thread = await started(t, 4)
  const inputs = [0, 1, 2, 3].map((seed) => text(seed, 1_000_000))
  const decoded = inputs.map((bytes) => thread.decode(compressSync(bytes), (out) => bytes.equals(out)))
  await Promise.all([thread.stop(), thread.stop()])
  t.same(await Promise.all(decoded), [true, true, true, true])
  t.equal(
    thread.decode(compressSync(inputs[0]), () => 0),
    undefined,
  )
})

t.test('bytes that were decoded elsewhere are placed in a slot, whether there is a thread or not', async (t) => {
  const thread = new SnappyThread(2, (error) => t.fail(error.message))
  t.teardown(() => thread.stop())
  const length = (bytes: Uint8Array) => bytes.length
  t.equal(thread.place(text(1, MIN_BYTES - 1), length), undefined, 'too small')
  t.equal(thread.place(Buffer.alloc(4 * 1024 * 1024 + 1), length), undefined, 'too large')
  const all = [text(1, MIN_BYTES), text(2, 4 * 1024 * 1024)]
  for (let round = 0; round < 2; round++) {
    const held = all.map(() => Promise.withResolvers<void>())
    const read = all.map((bytes, i) =>
      thread.place(bytes, async (placed) => {
        t.equal(placed.buffer, thread.memory?.memory.buffer)
        await held[i].promise
        return bytes.equals(placed)
      }),
    )
    t.equal(thread.place(all[0], length), undefined, 'both slots are taken')
    for (const { resolve } of held) resolve()
    t.same(await Promise.all(read), [true, true])
  }
  await t.rejects(thread.place(all[0], () => Promise.reject(new Error('of the reader'))) as Promise<number>, /of the reader/)
  const thrown = new Error('at once')
  const throws = (): number => {
    throw thrown
  }
  await t.rejects(thread.place(all[0], throws) as Promise<number>, thrown)
  t.equal(await thread.place(all[0], length), MIN_BYTES, 'the slot is free again')
  t.equal(new SnappyThread(0, () => {}).place(all[0], length), undefined, 'without slots')
})

t.test('where the system has no thread to give blocks are the caller’s, and it is told', (t) => {
  const { Worker } = threads
  const setWorker = (worker: unknown): void => {
    threads.Worker = worker as typeof Worker
    syncBuiltinESMExports()
  }
  t.teardown(() => setWorker(Worker))
  setWorker(
    class {
      constructor() {
        throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' })
      }
    },
  )
  const told: string[] = []
  const thread = new SnappyThread(1, ({ message }) => told.push(message))
  const block = compressSync(text(1, MIN_BYTES))
  for (let i = 0; i < 2; i++)
    t.equal(
      thread.decode(block, () => 0),
      undefined,
    )
  t.same(told, ['EAGAIN'])
  t.end()
})
