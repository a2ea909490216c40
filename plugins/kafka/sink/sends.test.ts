/** What a delivery says of itself, its sessions, and its pauses: over a clock that goes when the test says. */
import type { Clock } from 'svcdb'
import t from 'tap'
import { Delivery, type DeliveryOptions } from './delivery.ts'
import { SendError, type SinkRecord } from './producer.ts'

const LIMITS = { max_batch_bytes: 1e6, max_message_bytes: 1000 }
const record = (value: string, headers: Record<string, string> = {}): SinkRecord => ({ topic: 't', key: Buffer.from('k'), value: Buffer.from(value), headers })
const turns = () => new Promise((resolve) => setImmediate(resolve))

function delivery(behave: (records: readonly SinkRecord[]) => Promise<void> = async () => {}, open = async () => {}) {
  const ending = new AbortController()
  const seen = {
    now: 5000,
    pauses: [] as number[],
    opened: 0,
    closed: 0,
    sent: [] as string[][],
    buried: [] as string[],
    said: [] as string[],
    records: 0,
    bytes: 0,
    retries: 0,
  }
  const clock = {
    monotonic: () => seen.now,
    after: (ms: number, body: () => void) => {
      seen.pauses.push(ms)
      setImmediate(body)
      return () => {}
    },
  }
  const made = new Delivery({
    sink: 'one',
    signal: ending.signal,
    clock: clock as unknown as Clock,
    metrics: {
      records: { inc: (_: object, records: number) => void (seen.records += records) },
      bytes: { inc: (_: object, bytes: number) => void (seen.bytes += bytes) },
      retries: { inc: () => void seen.retries++ },
    } as unknown as DeliveryOptions['metrics'],
    log: { info: (_, text) => void seen.said.push(text), warn: (_, text) => void seen.said.push(text) },
    reconnectMs: 1000,
    async open() {
      await open()
      seen.opened++
      return {
        async send(records) {
          await behave(records)
          seen.sent.push(records.map(({ value }) => `${value}`))
        },
        close: async () => void seen.closed++,
      }
    },
    bury: async ({ value }) => void seen.buried.push(`${value}`),
  })
  return { made, seen, ending }
}

t.test('points a second are those since it is connected, and no events', async (t) => {
  const { made, seen } = delivery()
  t.match(made, { records: 0, points: 0, deadLetters: 0, inFlight: 0, inFlightBytes: 0, failing: true })
  t.equal(made.pointsPerSecond, 0)
  await made.connect()
  t.equal(made.pointsPerSecond, 0)
  await made.deliver([record('abc'), record('de'), record('event', { 'svc-event': 'gap' })], LIMITS)
  t.match(made, { records: 3, points: 2, lastSent: 5000, failing: false })
  t.match(seen, { records: 3, bytes: 10 })
  seen.now += 500
  t.equal(made.pointsPerSecond, 4)
  await made.close()
  t.equal(made.pointsPerSecond, 0)
  t.equal(made.failing, true)
  await made.deliver([record('f')], LIMITS)
  seen.now += 1000
  t.equal(made.pointsPerSecond, 1, 'of the session before none')
})

t.test('what is under way is counted until it is there, what is too large is not', async (t) => {
  let arrived = (): void => {}
  const { made, seen } = delivery(() => new Promise<void>((resolve) => (arrived = resolve)))
  const sent = made.deliver([record('abc'), record('x'.repeat(872)), record('x'.repeat(871))], LIMITS)
  await turns()
  t.match(made, { inFlight: 2, inFlightBytes: 4 + 872 })
  arrived()
  await sent
  t.match(made, { inFlight: 0, inFlightBytes: 0, records: 2 })
  t.same(seen.buried, ['x'.repeat(872)], 'brokers count 128 bytes beside key and value')
})

t.test('sends have one session, and each failure ends it', async (t) => {
  let failures = 0
  const { made, seen } = delivery(async () => {
    if (failures-- > 0) throw new SendError('away', 'gone')
  })
  for (const value of ['a', 'b', 'c']) await made.deliver([record(value)], LIMITS)
  t.match(seen, { opened: 1, closed: 0, retries: 0, said: [] })
  failures = 6
  await made.deliver([record('d')], LIMITS)
  t.match(seen, { opened: 7, closed: 6, retries: 6 })
  t.same(seen.sent.flat(), ['a', 'b', 'c', 'd'])
  t.equal(seen.said.length, 2, 'once why, once that it works again')
  t.same([made.failed, made.lastError], [undefined, 'gone'])
  for (const [tries, ms] of seen.pauses.entries()) {
    const longest = Math.min(1000, 100 * 2 ** tries)
    t.ok(ms >= longest / 2 && ms <= longest, `${ms} ms before try ${tries + 2}`)
  }
})

t.test('a run that is refused is taken apart down to the record that is to blame', async (t) => {
  const { made, seen } = delivery(async (records) => {
    if (records.some(({ value }) => `${value}` === 'bad')) throw new SendError('record', 'no')
  })
  await made.deliver(
    ['a', 'b', 'bad', 'c', 'd'].map((value) => record(value)),
    LIMITS,
  )
  t.same(seen.sent, [
    ['a', 'b'],
    ['c', 'd'],
  ])
  t.same(seen.buried, ['bad'])
  t.match(made, { records: 4, inFlight: 0 })
  t.match(seen, { opened: 4, closed: 3, retries: 0 }, 'it is no failure of the brokers')
})

t.test('a session that comes when the sink has ended is closed again', async (t) => {
  let come = (): void => {}
  const { made, seen, ending } = delivery(undefined, () => new Promise<void>((resolve) => (come = resolve)))
  const connected = made.connect()
  await turns()
  ending.abort()
  await t.rejects(connected, /the sink has ended/)
  come()
  await turns()
  t.match(seen, { opened: 1, closed: 1, retries: 0 })
  t.equal(made.failing, true)
  await t.rejects(made.deliver([record('a')], LIMITS), /the sink has ended/)
})
