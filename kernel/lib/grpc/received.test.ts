import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import type { CallContext } from '../../index.ts'
import { collect } from '../heap/index.ts'
import { seeded } from '../random/index.ts'
import type { GrpcMethod } from './method.ts'
import { start } from './testing.ts'
import { DATA, frame, PING, PREFACE, request, SETTINGS } from './testing-frames.ts'

const [ACK, END_STREAM, UNKNOWN, MAX_FRAME] = [1, 1, 0xbb, 16_384]

const LIMIT = 4_194_304

/** A client of bare frames, whose window is that of the server's settings. */
async function clientOf(t: Test, port: number): Promise<{ socket: Socket; settled(): Promise<void> }> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  socket.write(Buffer.concat([PREFACE, frame(SETTINGS), frame(SETTINGS, ACK)]))
  let asked = 0
  return {
    socket,
    /** Resolves when the server has read all that was sent: the answer to a ping comes behind it. */
    async settled() {
      const mark = Buffer.alloc(8)
      mark.writeUInt32BE(++asked)
      const answer = frame(PING, ACK, 0, mark)
      let seen = Buffer.alloc(0)
      const answered = new Promise<void>((resolve) => {
        const look = (chunk: Buffer): void => {
          seen = Buffer.concat([seen, chunk])
          if (!seen.includes(answer)) return
          socket.off('data', look)
          resolve()
        }
        socket.on('data', look)
      })
      socket.write(frame(PING, 0, 0, mark))
      await answered
    },
  }
}

/** The head of a call whose messages follow: the frame that `request` ends with is left out. */
const head = (path: string, id: number): Buffer => request(path, {}, id).subarray(0, -14)

t.test('what waits on a call that reads nothing takes about what was sent of it, however it was framed', async (t) => {
  const never: GrpcMethod<CallContext> = {
    path: '/t.S/Never',
    action: 'read',
    kind: 'client_stream',
    async handle(requests) {
      for await (const _ of requests) await new Promise(() => {})
      return Buffer.alloc(0)
    },
  }
  const beside = [...Array.from({ length: 3 }, () => frame(UNKNOWN, 0, 0, Buffer.alloc(MAX_FRAME))), frame(UNKNOWN, 0, 0, Buffer.alloc(12_000))]
  for (const [name, bursts, burst] of [
    ['4 KiB in 64 KiB', 200, (id: number) => Buffer.concat([...beside, frame(DATA, 0, id, Buffer.alloc(4096))])],
    ['64 bytes in 64 KiB', 200, (id: number) => Buffer.concat([...beside, frame(DATA, 0, id, Buffer.alloc(64))])],
    ['frames of one byte', 100, (id: number) => Buffer.concat(Array.from({ length: 2000 }, () => frame(DATA, 0, id, Buffer.alloc(1))))],
  ] as const) {
    const { port } = await start(t, [never])
    const { socket, settled } = await clientOf(t, port)
    // The first message is being answered, from then on nothing is read.
    socket.write(Buffer.concat([head(never.path, 1), frame(DATA, 0, 1, Buffer.alloc(5))]))
    await settled()
    const written = burst(1)
    collect()
    const before = process.memoryUsage()
    for (let i = 0; i < bursts; i++) await new Promise((resolve) => socket.write(written, resolve))
    await settled()
    // What was given up is swept beside the main thread, so it is looked at more than once.
    let taken = Number.POSITIVE_INFINITY
    for (let i = 0; i < 50 && taken >= LIMIT; i++) {
      collect()
      await new Promise((resolve) => setImmediate(resolve))
      const after = process.memoryUsage()
      taken = after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed
    }
    t.ok(taken < LIMIT, `${name}: ${taken} bytes`)
  }
})

t.test('messages are what was sent, however they are cut into frames and whenever they are taken', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  t.comment(`seed ${seed}`)
  const next = seeded(seed)
  const int = (below: number): number => Math.floor(next() * below)
  let answered = (_: Buffer[]): void => {}
  const sum: GrpcMethod<CallContext> = {
    path: '/t.S/Sum',
    action: 'read',
    carriesPoints: true,
    kind: 'client_stream',
    async handle(requests) {
      const messages: Buffer[] = []
      for await (const message of requests) {
        messages.push(Buffer.from(message))
        for (let turns = int(3); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
      }
      answered(messages)
      return Buffer.alloc(0)
    },
  }
  const { port } = await start(t, [sum])
  const { socket } = await clientOf(t, port)
  socket.resume()
  for (let id = 1; id < 60; id += 2) {
    const sent = Array.from({ length: 1 + int(30) }, () => Buffer.alloc(int(3) === 0 ? int(20_000) : int(50), 32 + int(90)))
    let bytes = Buffer.concat(
      sent.flatMap((message) => {
        const prefix = Buffer.alloc(5)
        prefix.writeUInt32BE(message.length, 1)
        return [prefix, message]
      }),
    )
    const answer = new Promise<Buffer[]>((resolve) => {
      answered = resolve
    })
    socket.write(head(sum.path, id))
    while (bytes.length > 0) {
      const part = bytes.subarray(0, 1 + int(int(3) === 0 ? MAX_FRAME - 1 : 60))
      bytes = bytes.subarray(part.length)
      socket.write(frame(DATA, bytes.length === 0 ? END_STREAM : 0, id, part))
      if (int(20) === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    const got = await answer
    t.equal(got.length, sent.length, `seed ${seed}, call ${id}: messages`)
    t.ok(
      sent.every((message, i) => message.equals(got[i])),
      `seed ${seed}, call ${id}: bytes`,
    )
  }
})
