/** What the sender makes of a state store that fails and of endpoints that are changed, while deliveries are under way. */
import { loadEngine, ManualClock } from 'svcdb/testkit'
import t from 'tap'
import { Outbox } from './outbox.ts'
import type { Attempt } from './retry.ts'
import { Sender, type SenderOptions } from './sender.ts'
import { enqueue } from './testing.ts'

const limits = { queueSize: 100, namespaceBytes: 1e6, totalBytes: 1e6, namespaceEndpoints: 10, endpoints: 10 }
const ref = { owner: 'o', namespace: 'n', name: '1' }
const DELIVERED = { result: 'delivered', kind: 'delivered' } as Attempt
const GONE = { result: 'gone', kind: 'answer', reason: 'it answered 410' } as Attempt
const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

interface Sent {
  url: string
  body: string
  end(attempt: Attempt): void
}

async function sender() {
  const { createEngine } = await loadEngine('memory', '.')
  const state = createEngine({ config: {}, now: Date.now } as never).state('webhooks')
  const clock = new ManualClock()
  const outbox = new Outbox(state, limits, clock.now)
  const sent: Sent[] = []
  const options = {
    ...{ outbox, clock, keys: [Buffer.alloc(32)], log: quiet, lanes: { total: 8, group: 8 }, endpointInFlight: 4 },
    ...{ maxAgeMs: 86_400_000, parkAfterMs: 86_400_000, retry: { initialMs: 1000, maxMs: 60_000, retryAfterMaxMs: 60_000 }, random: () => 0 },
    metrics: { attempted: () => {}, delivered: () => {}, left: () => {} },
    tracing: { operation: <T>(_name: string, act: (span: undefined) => Promise<T>) => act(undefined) },
    report: () => {},
    post: (url: string, _headers: object, body: string) => new Promise<Attempt>((end) => sent.push({ url, body, end })),
  }
  const made = new Sender(options as unknown as SenderOptions)
  const { key } = await outbox.define(ref, 'https://example.com/old')
  await made.start()
  const queue = async (id: string) => {
    const { added, dropped } = await enqueue(outbox, [{ endpoint: key, message: id, id, body: id }])
    made.queued(added, dropped)
  }
  return { sender: made, outbox, state, clock, sent, key, queue }
}

t.test('a delivery that cannot be read is sent when it can', async (t) => {
  const { sender: own, outbox, clock, sent, queue } = await sender()
  const { body } = outbox
  outbox.body = async () => {
    throw new Error('the store fails')
  }
  await queue('a')
  await clock.advance(100)
  t.equal(sent.length, 0)
  outbox.body = body
  await clock.advance(60_000)
  t.same(
    sent.map((one) => one.body),
    ['a'],
  )
  sent[0].end(DELIVERED)
  await own.stop()
})

t.test('a stop ends though the outbox cannot be told what was delivered; the next start sends that again, once', async (t) => {
  const { sender: own, outbox, clock, sent, queue } = await sender()
  await queue('a')
  await clock.advance(10)
  const { finish } = outbox
  let asked = 0
  outbox.finish = async () => {
    if (++asked > 1000) throw new Error('it does not give up')
    throw Object.assign(new Error('the store fails'), { code: 'STORAGE_FULL' })
  }
  sent[0].end(DELIVERED)
  await clock.advance(10)
  let stopped = false
  const stop = own.stop().then(() => {
    stopped = true
  })
  await clock.advance(5000)
  t.ok(stopped, 'it has stopped')
  t.ok(asked <= 10, `asked ${asked} times`)
  outbox.finish = finish
  await stop
  await own.start()
  await clock.advance(10)
  t.same(
    sent.map((one) => one.body),
    ['a', 'a'],
  )
  sent[1].end(DELIVERED)
  await clock.advance(60_000)
  t.equal(sent.length, 2)
  await own.stop()
})

t.test('what another process has delivered meanwhile is not sent by one that delivers again', async (t) => {
  const { sender: own, outbox, clock, sent, key, queue } = await sender()
  await queue('a')
  await queue('b')
  await clock.advance(10)
  const stop = own.stop()
  for (const one of sent) one.end({ result: 'failed', kind: 'aborted', reason: 'it stops' } as unknown as Attempt)
  await stop
  const [first] = await outbox.waiting(key)
  await outbox.finish([{ endpoint: key, seq: first.seq, result: 'delivered' }])
  sent.length = 0
  await own.start()
  await clock.advance(60_000)
  t.same(
    sent.map((one) => one.body),
    ['b'],
  )
  sent[0].end(DELIVERED)
  await own.stop()
})

t.test('an answer of the URL that an endpoint had before says nothing of the one it has', async (t) => {
  for (const told of [true, false]) {
    const { sender: own, outbox, clock, sent, key, queue } = await sender()
    await queue('a')
    await clock.advance(10)
    t.equal(sent[0].url, 'https://example.com/old')
    const endpoint = await outbox.define(ref, 'https://example.com/new')
    if (told) await own.refresh(key, endpoint)
    sent[0].end(GONE)
    await clock.advance(10)
    const record = (await outbox.endpoint(key))?.record
    t.same([record?.url, record?.parked, record?.failing_since], ['https://example.com/new', undefined, undefined])
    await own.refresh(key)
    await clock.advance(60_000)
    t.match(sent[1], { url: 'https://example.com/new', body: 'a' }, 'the delivery goes there')
    sent[1]?.end(DELIVERED)
    await clock.advance(10)
    t.same(await outbox.waiting(key), [])
    await own.stop()
  }
})
