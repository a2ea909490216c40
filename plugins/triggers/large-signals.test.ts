/** Signals of series whose tags are large, and many signals of few rows: neither takes memory, or the event loop, in proportion to what a point costs its writer. */
import t from 'tap'
import { turnsDuring } from '../../test/support/turns-during.ts'
import { keysOf, type Ring } from './keys.ts'
import { PageSize } from './page-size.ts'
import { type Signal, signalTags } from './signal.ts'
import { start } from './testing.ts'

const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n
const LARGE = 4000
const TAGS = 60
const largeTags = (): Record<string, string> => Object.fromEntries(Array.from({ length: TAGS }, (_, i) => [`t${i}`, 'x'.repeat(LARGE)]))
const bytesOf = (tags: Record<string, string>): number => Object.entries(tags).reduce((sum, [key, value]) => sum + Buffer.byteLength(key + value), 0)

t.setTimeout(120_000)

t.test('the largest tags are left out', (t) => {
  t.same(signalTags({ host: 'a', rack: 'b' }, 10), { tags: { host: 'a', rack: 'b' }, omitted: 0 })
  t.same(signalTags({ host: 'a', rack: 'b' }, 9), { tags: { rack: 'b' }, omitted: 1 }, 'the first of two that are as large')
  t.same(signalTags({ rack: 'b', long: 'é'.repeat(50), host: 'a' }, 100), { tags: { rack: 'b', host: 'a' }, omitted: 1 }, 'in UTF-8')
  const by = () => new Set(['long', 'more'])
  t.same(signalTags({ long: 'xxx', host: 'a', more: 'xx' }, 13, by), { tags: { long: 'xxx', more: 'xx' }, omitted: 1 }, 'those that composites are by go last')
  t.same(signalTags({ long: 'xxx', host: 'a', more: 'xx' }, 6, by), { tags: { more: 'xx' }, omitted: 2 })
  t.end()
})

t.test('what is read at once becomes fewer where signals are large', (t) => {
  const signals = (count: number, chars: number): Signal[] =>
    Array.from({ length: count }, () => ({ tags: { a: 'x'.repeat(chars - 1) }, metadata: { sequence: 0, condition: '' } }) as never)
  const size = new PageSize(100)
  t.ok(size.next < 10, 'nothing is known')
  for (let i = 0; i < 4; i++) size.read(signals(size.next, 100))
  t.equal(size.next, 100)
  size.read([...signals(3, 100), ...signals(1, 260_000)])
  t.equal(size.next, 2)
  t.end()
})

t.test('a signal has the tags of its series up to max_signal_tag_bytes, and says how many more there are', async (t) => {
  const { node, run, write, settled } = await start(t)
  await run("CREATE TRIGGER a ON m WHEN v > 1 COOLDOWN INTERVAL '0s'")
  const tags = { host: 'h', ...largeTags() }
  const series = Object.entries(tags)
    .sort()
    .map(([key, value]) => `${key}=${value}`)
    .join(',')
  // One series, whose tags a writer of other protocols names once, and as many signals as points.
  await write(Array.from({ length: 30 }, (_, i) => `m,${series} v=2 ${now + BigInt(i)}`))
  const signals = await settled(30)
  t.equal(new Set(signals.map(({ event_id }) => event_id)).size, 30)
  for (const { tags, metadata } of [signals[0], signals[29]]) {
    t.equal(tags.host, 'h')
    t.ok(bytesOf(tags) <= 4096)
    t.match(metadata, { tags_omitted: TAGS - 1 }, 'one has room')
  }
  const annotations = await node.inject('/api/v1/annotations')
  t.equal(annotations.json().length, 30)
  t.ok(annotations.body.length < 30 * 5000, `${annotations.body.length}`)
})

t.test('a composite sees the tags that it is by of a series with large ones', async (t) => {
  const { run, write, settled } = await start(t)
  for (const name of ['a', 'b']) await run(`CREATE TRIGGER ${name} ON m WHEN ${name} > 1 COOLDOWN INTERVAL '0s'`)
  t.equal((await run("CREATE TRIGGER both ON SIGNALS (a, b) WITHIN INTERVAL '1m' BY (long) COOLDOWN INTERVAL '0s'")).status, 200)
  const long = 'y'.repeat(2000)
  const series = (value: string): string => `m,host=h,long=${value},other=${'x'.repeat(1500)},rest=${'z'.repeat(1500)}`
  await write([`${series(`${long}1`)} a=2 ${now}`, `${series(`${long}2`)} b=2 ${now + 1n}`, `${series(`${long}2`)} a=2 ${now + 2n}`])
  const signals = await settled(4)
  const composed = signals.filter(({ trigger_name }) => trigger_name === 'both')
  t.match(composed, [{ tags: { long: `${long}2` } }])
  t.equal(composed.length, 1)
  t.match(signals[0].metadata, { tags_omitted: 1 })
})

t.test('what was kept with all its tags is read a few at a time, and annotations have the rest', async (t) => {
  const { node } = await start(t)
  const state = node.storage.state('triggers')
  const keys = keysOf('')
  const COUNT = 64
  await state.transaction((tx) => {
    tx.put(keys.ring, { version: 1, first: 0, next: COUNT } satisfies Ring)
    for (let i = 0; i < COUNT; i++)
      tx.put(keys.signal(i), { trigger_name: 'a', measurement: 'm', tags: largeTags(), timestamp: '0', metadata: { sequence: i } })
  })
  let length = 0
  const turns = await turnsDuring(async () => {
    length = (await node.inject('/api/v1/signals')).body.length
  })
  t.ok(length > COUNT * TAGS * LARGE)
  t.ok(turns > COUNT / 4, `${turns} turns`)
  const annotations = await node.inject('/api/v1/annotations')
  t.equal(annotations.json().length, COUNT)
  t.ok(annotations.body.length < COUNT * 5000, `${annotations.body.length}`)
})
