/** Calls that are refused or cancelled, more than a connection may have: they are not all begun in the turn in which they come, and who goes on so is sent away. */
import { once } from 'node:events'
import { constants } from 'node:http2'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { until } from '../../../test/support/until.ts'
import { definePlugin } from '../../plugin.ts'
import { echo, start } from './testing.ts'
import { cancelledCalls, frame, GOAWAY, HEADERS, PREFACE, RST_STREAM, request, SETTINGS } from './testing-frames.ts'

/** The flag of the last frame of an answer. */
const END_STREAM = 1
/** In one write, well beyond what is read at once of a connection. */
const CALLS = 4000
/** So that each part that is read, 64 KiB, has fewer than max_concurrent_streams, and two have more. */
const FILLER = Object.fromEntries(Array.from({ length: 4 }, (_, i) => [`x-${i}`, 'x'.repeat(120)]))
const AT_ONCE = 100
const MOST = 128
const GRPC = 'application/grpc'

/** Asks for credentials that nobody has. */
const gate = definePlugin({ id: 'gate', summary: 'Refuses', stability: 'stable', setup: (svc) => svc.auth.authenticator(() => undefined) })

async function open(t: Test, port: number): Promise<{ socket: Socket; answers: () => number; resets: () => number; sentAway: () => number | undefined }> {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  t.teardown(() => socket.destroy())
  let [count, resets, rest] = [0, 0, Buffer.alloc(0)]
  let sentAway: number | undefined
  socket.on('data', (bytes) => {
    rest = Buffer.concat([rest, bytes])
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      if (rest[3] === HEADERS && (rest[4] & END_STREAM) !== 0) count++
      if (rest[3] === RST_STREAM) resets++
      if (rest[3] === GOAWAY) sentAway = rest.readUInt32BE(9 + 4)
      rest = rest.subarray(9 + rest.readUIntBE(0, 3))
    }
  })
  await once(socket, 'connect')
  socket.write(Buffer.concat([PREFACE, frame(SETTINGS)]))
  return { socket, answers: () => count, resets: () => resets, sentAway: () => sentAway }
}

const calls = (path: string, type: string, from: number, count: number): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => request(path, { 'content-type': type, ...FILLER }, 2 * (from + i) + 1)))

for (const [what, path, type] of [
  ['to no method', '/t.S/Unknown', GRPC],
  ['without credentials', '/t.S/Echo', GRPC],
  ['that are none of gRPC', '/t.S/Echo', 'text/plain'],
])
  t.test(`calls ${what}`, async (t) => {
    const { port } = await start(t, [echo], { plugins: [gate], section: { max_concurrent_streams: MOST } })
    const greedy = await open(t, port)
    greedy.socket.write(calls(path, type, 0, CALLS))
    await until('all answers, or the end', () => greedy.answers() + greedy.resets() >= CALLS || greedy.socket.destroyed || greedy.socket.readableEnded)
    t.ok(greedy.answers() < CALLS, `${greedy.answers()} were answered`)
    greedy.socket.destroy()
    const modest = await open(t, port)
    for (let sent = 0; sent < CALLS; sent += AT_ONCE) {
      modest.socket.write(calls(path, type, sent, AT_ONCE))
      await until('the answers', () => modest.answers() === sent + AT_ONCE || modest.socket.destroyed)
    }
    t.equal(modest.answers(), CALLS, 'of one that keeps to max_concurrent_streams all are')
  })

t.test('calls that are cancelled as soon as they are sent', async (t) => {
  const { node, port } = await start(t, [echo], { section: { max_concurrent_streams: MOST } })
  const begun = async () => {
    const { body } = await node.inject('/metrics')
    return [...body.matchAll(/^svc_echo_calls_total\{.*\} (\d+)$/gm)].reduce((sum, [, calls]) => sum + Number(calls), 0)
  }
  const modest = await open(t, port)
  modest.socket.write(Buffer.concat([cancelledCalls('/t.S/Echo', MOST - 1), request('/t.S/Echo', {}, 2 * MOST + 1)]))
  await until('an answer behind as many as it may have', () => modest.answers() === 1)
  const before = await begun()
  const greedy = await open(t, port)
  greedy.socket.write(cancelledCalls('/t.S/Echo', CALLS))
  await until('its end', () => greedy.socket.readableEnded || greedy.socket.destroyed)
  const more = (await begun()) - before
  t.ok(more <= 2 * MOST, `${more} of ${CALLS} were begun`)
  t.equal(greedy.sentAway(), constants.NGHTTP2_ENHANCE_YOUR_CALM)
})
