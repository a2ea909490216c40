/** A whole node while the wall clock is wrong: stamps, keys of idempotent writes and the future bound, as a client sees them. The engine's part: storage/embedded/retention/clocks.test.ts. */

import { boot, systemClock } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import lineProtocol from '../../plugins/line_protocol/index.ts'
import native from '../../plugins/native/index.ts'

const SEC_MS = 1000
const HOUR_MS = 3_600_000
const YEARS_MS = 10 * 365 * 24 * HOUR_MS
const NOW_MS = Date.UTC(2024, 0, 1, 12)
t.setTimeout(120_000)

async function start(t: Test, config: Record<string, unknown>) {
  const time = { wall: NOW_MS, monotonic: 0 }
  const clock = { ...systemClock, now: () => time.wall, nowNanos: () => BigInt(time.wall) * 1_000_000n, monotonic: () => time.monotonic }
  const node = await boot({ plugins: [native, lineProtocol], storage: 'embedded', config: config as never, clock })
  t.teardown(() => node.stop())
  const write = async (line: string, headers: Record<string, string> = {}) =>
    (await node.inject({ method: 'POST', url: '/api/v2/write?precision=ms', payload: line, headers: { 'content-type': 'text/plain', ...headers } })).statusCode
  const times = async () => {
    const payload = '{"measurement":"m"}'
    const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/query', payload, headers: { 'content-type': 'application/json' } })
    return [...answer.body.matchAll(/"timestamp":(\d+)/g)].map(([, digits]) => Number(BigInt(digits) / 1_000_000n) - NOW_MS)
  }
  return { time, write, times }
}

t.test('points without a time get that of the clock, and a wrong one shuts nothing out once it is right', async (t) => {
  const { time, write, times } = await start(t, {})
  t.equal(await write('m v=1'), 204)
  time.wall = NOW_MS + YEARS_MS
  t.equal(await write('m v=2'), 204)
  time.wall = NOW_MS - HOUR_MS
  t.equal(await write('m v=3'), 204)
  time.wall = NOW_MS + SEC_MS
  t.equal(await write('m v=4'), 204)
  t.equal(await write(`m v=5 ${NOW_MS - 1}`), 204)
  t.same(await times(), [-HOUR_MS, -1, 0, SEC_MS, YEARS_MS])
})

t.test('keys of idempotent writes expire after their time, not with the wall clock', async (t) => {
  const { time, write } = await start(t, { server: { dedup_window_secs: 60 } })
  const key = { 'idempotency-key': 'one' }
  t.equal(await write('m v=1', key), 204)
  for (const wrong of [YEARS_MS, -YEARS_MS, -HOUR_MS, 61 * SEC_MS]) {
    time.wall = NOW_MS + wrong
    t.equal(await write('m v=1', key), 409, `${wrong} ms`)
  }
  time.monotonic = 60 * SEC_MS - 1
  t.equal(await write('m v=1', key), 409)
  time.monotonic = 60 * SEC_MS
  t.equal(await write('m v=1', key), 204)
  time.wall = NOW_MS - HOUR_MS
  time.monotonic += 60 * SEC_MS
  t.equal(await write('m v=1', key), 204, 'a clock that went back keeps no key alive')
})

t.test('the future bound follows the clock back and forth', async (t) => {
  const { time, write } = await start(t, { database: { future_write_tolerance_secs: 60 } })
  const future = `m v=1 ${NOW_MS + 61 * SEC_MS}`
  t.equal(await write(future), 400)
  time.wall += 2 * SEC_MS
  t.equal(await write(future), 204)
  time.wall -= HOUR_MS
  t.equal(await write(`m v=1 ${NOW_MS}`), 400, 'a point of now lies past a clock that is an hour behind')
  time.wall += HOUR_MS
  t.equal(await write(`m v=1 ${NOW_MS}`), 204)
})
