/** Annotations and their stream. */
import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { definePlugin, type RunningJob } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { errorText, placeOf } from './annotation-stream.ts'
import newestRows from './annotations-job.ts'
import { NewestRows } from './newest-rows.ts'
import { start, type TriggerNode } from './testing.ts'
import { as, tenants } from './testing-tenants.ts'

t.setTimeout(300_000)
const SECOND = 1_000_000_000n
const now = BigInt(Math.floor(Date.now() / 1000)) * SECOND
const at = (seconds: number): bigint => now - 3000n * SECOND + BigInt(seconds) * SECOND
const millis = (seconds: number): number => Number(at(seconds) / 1_000_000n)

interface StreamEvent {
  id?: string
  event?: string
  data: { text: string; time: number; tags: string[]; error?: string }
}

/** A reader over a socket. */
async function follow(t: Test, { node }: TriggerNode, headers: Record<string, string> = {}, query = '') {
  const gone = new AbortController()
  t.teardown(() => gone.abort())
  const answer = await fetch(`${node.url}/api/v1/annotations/stream${query}`, { headers: { 'accept-encoding': 'gzip', ...headers }, signal: gone.signal })
  const events: StreamEvent[] = []
  let ended = false
  let text = ''
  const read = async (): Promise<void> => {
    for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
      text += Buffer.from(chunk).toString()
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        const fields = new Map(
          text
            .slice(0, end)
            .split('\n')
            .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
        )
        text = text.slice(end + 2)
        if (!fields.has('data')) continue
        const [id, event] = [fields.get('id'), fields.get('event')]
        events.push({ ...(id === undefined ? {} : { id }), ...(event === undefined ? {} : { event }), data: JSON.parse(fields.get('data') as string) })
      }
    }
    ended = true
  }
  void read().catch(() => {
    ended = true
  })
  const until = async (count: number): Promise<StreamEvent[]> => {
    for (let i = 0; i < 6000 && events.length < count && !ended; i++) await sleep(10)
    await sleep(50)
    return [...events]
  }
  return { answer, until, close: () => gone.abort(), isEnded: () => ended }
}

t.test('of signals and of rows, in the order of their times', async (t) => {
  const { node, run, write, settled } = await start(t, { storage: 'embedded', config: { triggers: { annotation_rows: 3 } } })
  await run('CREATE TRIGGER hot ON cpu WHEN usage > 90')
  await write([`cpu,host=a usage=95 ${at(10)}`, ...[5, 15, 25, 35].map((s) => `_signals_x v=1 ${at(s)}`), `_alerts v=1i ${at(12)}`, `signals v=1 ${at(11)}`])
  await settled(1)
  const get = async (query = '') => (await node.inject(`/api/v1/annotations${query}`)).json() as { text: string; time: number; tags: string[] }[]
  const all = await get()
  t.same(all, [
    { text: 'hot: 95', time: millis(10), tags: ['cpu', 'hot', 'critical', 'host=a'] },
    { text: 'Signal event in _alerts', time: millis(12), tags: ['_alerts'] },
    ...[15, 25, 35].map((s) => ({ text: 'Signal event in _signals_x', time: millis(s), tags: ['_signals_x'] })),
  ])
  t.same(await get(`?from=${millis(12)}&to=${millis(25)}`), all.slice(1, 4))
  t.same(await get('?limit=2'), all.slice(-2))
  t.equal((await node.inject('/api/v1/annotations?from=x')).statusCode, 400)
  t.same(await get('?from=-8640000000000000&to=8640000000000000'), all, 'beyond all times')
})

t.test('requests that fail leave nothing on their connection, and no job behind', async (t) => {
  const jobs: { cancelled: boolean }[] = []
  let failing: 'rows' | 'signals' = 'rows'
  const faulty = definePlugin({
    id: 'faulty',
    summary: 'Has the storage fail',
    stability: 'experimental',
    capabilities: ['points', 'jobs', 'state'],
    setup: (svc) =>
      svc.start(() => {
        const { storage } = svc
        storage.run = <R>(): RunningJob<R> => {
          const job = { cancelled: false }
          jobs.push(job)
          const { promise, reject } = Promise.withResolvers<R>()
          const cancel = () => {
            job.cancelled = true
            reject(new SvcError('BACKPRESSURE', 'cancelled'))
          }
          if (failing === 'rows') reject(new SvcError('BACKPRESSURE', 'no room'))
          return { result: promise, cancel } as RunningJob<R>
        }
        const state = storage.state.bind(storage)
        storage.state = (owner) => {
          const store = state(owner)
          const read = store.get.bind(store)
          store.get = (key) => (failing === 'signals' ? Promise.reject(new SvcError('IO_ERROR', 'no disk')) : read(key))
          return store
        }
      }),
  })
  const warnings: string[] = []
  const warned = ({ name }: Error) => void warnings.push(name)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  const node = await boot({ plugins: [faulty, 'triggers'], config: { triggers: {} } })
  t.teardown(() => node.stop())
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const ask = async (): Promise<number | undefined> => {
    const [answer] = (await once(get(`${node.url}/api/v1/annotations`, { agent }), 'response')) as [IncomingMessage]
    for await (const _ of answer);
    return answer.statusCode
  }
  // More than the listeners of which Node.js warns.
  for (let i = 0; i < 15; i++) t.equal(await ask(), 503)
  t.notOk(warnings.includes('MaxListenersExceededWarning'))
  failing = 'signals'
  jobs.length = 0
  t.equal(await ask(), 500)
  t.same(jobs, [{ cancelled: true }])
})

for (const storage of ['memory', 'embedded']) {
  t.test(`the stream, resumed, ${storage}`, async (t) => {
    const own = await start(t, { storage })
    const { run, write } = own
    await run("CREATE TRIGGER hot ON cpu WHEN usage > 90 COOLDOWN INTERVAL '0s'")
    await write(`cpu usage=99 ${at(0)}`)
    await own.settled(1)
    const first = await follow(t, own)
    t.match(first.answer.headers.get('content-type'), /^text\/event-stream/)
    t.equal(first.answer.headers.get('content-encoding'), null, 'not held back by a compressor')
    await sleep(50)
    await write([`cpu usage=95 ${at(1)}`, `_alerts_y v=1 ${at(2)}`, `cpu usage=10 ${at(3)}`])
    const seen = await first.until(2)
    t.same(seen.map(({ data }) => data.text).sort(), ['Signal event in _alerts_y', 'hot: 95'], 'what comes from now on')
    first.close()
    await write([`cpu usage=96 ${at(4)}`, `_alerts_y v=1 ${at(5)}`])
    await own.settled(3)
    const last = seen.at(-1)?.id as string
    const second = await follow(t, own, { 'last-event-id': last })
    t.same((await second.until(2)).map(({ data }) => data.time).sort(), [millis(4), millis(5)], 'what was missed, and no more')
    const third = await follow(t, own, {}, `?last_event_id=${encodeURIComponent(seen[0].id as string)}`)
    t.equal((await third.until(3)).length, 3, 'all behind the first event')
    // Only a signal has come, and its id says where the rows behind it begin, too.
    const fourth = await follow(t, own)
    await sleep(50)
    await write(`cpu usage=97 ${at(6)}`)
    const [{ id }] = await fourth.until(1)
    fourth.close()
    await write(`_alerts_y v=1 ${at(7)}`)
    t.same(
      (await (await follow(t, own, { 'last-event-id': id as string })).until(1)).map(({ data }) => data.time),
      [millis(7)],
      'rows from there on',
    )
    t.equal((await own.node.inject('/api/v1/annotations/stream?last_event_id=none')).statusCode, 400)
    t.equal((await own.node.inject({ method: 'HEAD', url: '/api/v1/annotations/stream' })).statusCode, 200)
    await own.node.stop()
    for (let i = 0; i < 3000 && !second.isEnded(); i++) await sleep(20)
    t.ok(second.isEnded(), 'a stop ends it')
  })
}

t.test('tenants, and as many readers as there may be', async (t) => {
  const config = { server: { multi_tenancy: true }, triggers: { max_subscribers: 3, max_subscribers_per_namespace: 2 } }
  const own = await start(t, { plugins: [tenants], config })
  const { node, run, write } = own
  for (const name of ['acme', 'umbrella']) await run('CREATE TRIGGER hot ON cpu WHEN usage > 90', as(name))
  const readers = [await follow(t, own, as('acme')), await follow(t, own, as('acme'))]
  const refused = await follow(t, own, as('acme'))
  t.match(await refused.until(1), [{ event: 'error', data: { error: /max_subscribers_per_namespace/ } }])
  const other = await follow(t, own, as('umbrella'))
  t.match(await (await follow(t, own, as('third'))).until(1), [{ event: 'error', data: { error: /max_subscribers/ } }])
  await sleep(50)
  await write([`cpu usage=91 ${at(1)}`, `_alerts v=1 ${at(2)}`], as('acme'))
  for (const reader of readers) t.equal((await reader.until(2)).length, 2)
  t.same(await other.until(0), [])
  readers[0].close()
  let again = await follow(t, own, as('acme'))
  // What is refused is told so at once, and told no more.
  for (let i = 0; i < 600 && (await again.until(0)).length > 0; i++) {
    await sleep(50)
    again = await follow(t, own, as('acme'))
  }
  t.equal(again.answer.status, 200)
  t.same(await again.until(0), [], 'there is room again')
  t.match((await node.inject({ url: '/metrics', headers: as('acme') })).statusCode, /200|403/)
})

t.test('a reader who has gone before his stream begins leaves his place', async (t) => {
  let asked = 0
  const gate = Promise.withResolvers<void>()
  const slow = definePlugin({
    id: 'slow',
    summary: 'Takes its time to let readers in',
    stability: 'experimental',
    setup(svc) {
      svc.auth.authenticator(async () => {
        asked++
        await gate.promise
        return { principal: 'reader', method: 'test', claims: {}, namespaces: [], admin: true }
      })
    },
  })
  const own = await start(t, { plugins: [slow], config: { triggers: { max_subscribers_per_namespace: 1 } } })
  const { hostname, port } = new URL(own.node.url)
  const reader = connect(Number(port), hostname)
  reader.write('GET /api/v1/annotations/stream HTTP/1.1\r\nHost: test\r\n\r\n')
  while (asked === 0) await sleep(5)
  reader.destroy()
  await once(reader, 'close')
  // The server has to hear of it.
  await sleep(100)
  gate.resolve()
  let next = await follow(t, own)
  for (let i = 0; i < 100 && (await next.until(0)).length > 0; i++) {
    await sleep(50)
    next = await follow(t, own)
  }
  t.same(await next.until(0), [], 'there is room for another')
})

t.test('a reader who takes nothing gives his place back, and comes back with his id', async (t) => {
  const own = await start(t, { config: { triggers: { max_subscribers_per_namespace: 1, slow_reader_secs: 1 } } })
  const { hostname, port } = new URL(own.node.url)
  const reader = connect(Number(port), hostname)
  t.teardown(() => reader.destroy())
  reader.on('error', () => {})
  reader.write(`GET /api/v1/annotations/stream HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`)
  await once(reader, 'readable')
  const subscribers = async () => /^svc_annotation_subscribers (\d+)$/m.exec((await own.node.inject('/metrics')).body)?.[1]
  t.equal(await subscribers(), '1')
  // More than the buffers of the connection hold.
  const measurement = `_alerts_${'x'.repeat(200)}`
  for (let i = 0; i < 40; i++) {
    const lines = Array.from({ length: 1000 }, (_, n) => `${measurement} v=1 ${at(0) + BigInt(i * 1000 + n)}`)
    t.equal((await own.node.inject({ method: 'POST', url: '/write', payload: lines.join('\n') })).statusCode, 204)
  }
  for (let i = 0; i < 3000 && (await subscribers()) !== '0'; i++) await sleep(10)
  t.equal(await subscribers(), '0')
  let read = ''
  for await (const chunk of reader) read += chunk
  const [last = ''] = read.match(/(?<=^id: )\S+(?=\ndata: .*\n\n)/gm)?.slice(-1) ?? []
  const again = await follow(t, own, { 'last-event-id': last })
  t.match(await again.until(1), [{ data: { text: `Signal event in ${measurement}` } }])
})

t.test('rows are looked for backwards from now, and no further than there have to be', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
  t.comment(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  const HOUR = 3600n * SECOND
  const day = (ago: number): bigint => now - BigInt(Math.round(ago * 24 * 3600)) * SECOND
  for (let round = 0; round < 200; round++) {
    // Of hours, of years, and some of the future.
    const span = 10 ** (random() * 5 - 2)
    const times = Array.from({ length: Math.floor(random() * 40) }, () => day(random() * span - span / 20)).sort((a, b) => (a < b ? -1 : 1))
    let [scans, read] = [0, 0]
    const reader = {
      schema: async () => [{ name: '_alerts' }, { name: 'other' }],
      async *scan({ start: from, end: before }: { start?: bigint; end?: bigint }) {
        scans++
        const found = times.filter((time) => (from === undefined || time >= from) && (before === undefined || time < before))
        read += found.length
        if (found.length > 0) yield { times: BigInt64Array.from(found) }
      },
    }
    const start = random() < 0.5 ? undefined : day(random() * span)
    const end = random() < 0.5 ? undefined : day(random() * span - span / 10)
    const args = {
      namespace: '',
      rows: 1 + Math.floor(random() * 20),
      now,
      sql: false,
      ...(start === undefined ? {} : { start }),
      ...(end === undefined ? {} : { end }),
    }
    const found = await newestRows(reader as never, args, { signal: new AbortController().signal } as never)
    const expected = times.filter((time) => (start === undefined || time >= start) && (end === undefined || time < end)).slice(-args.rows)
    t.same(
      found[0]?.times ?? [],
      expected.map((time) => Number(time / 1_000_000n)),
      `round ${round}`,
    )
    t.ok(scans <= 6)
    const within = times.filter((time) => time >= now - HOUR && (end === undefined || time < end) && (start === undefined || time >= start))
    if (within.length >= args.rows && (end === undefined || end > now)) t.equal(read, within.length, 'the last hour is enough')
  }
})

t.test('parts', (t) => {
  t.equal(placeOf('x'), undefined)
  t.equal(placeOf('1.a b'), undefined)
  t.same(placeOf('12.a.3'), { signal: 12, position: 'a.3' })
  t.equal(errorText('a\nb'), 'event: error\ndata: {"error":"a\\nb"}\n\n')
  const newest = new NewestRows(3)
  for (const time of [5n, 1n, 9n, 7n, 3n, 8n]) newest.add(time)
  t.same(newest.sorted(), [7n, 8n, 9n])
  t.end()
})
