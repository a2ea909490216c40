/** What the storage has, by name and label: over both engines, and over a storage that changes meanwhile. */

import type { Reader } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import native from '../native/index.ts'
import { storageDiscovery } from './discover.ts'
import plugin from './index.ts'
import { storageSource } from './storage-source.ts'

const HOUR = 3_600_000
const base = Math.floor(Date.now() / 60_000) * 60_000 - HOUR

/** a_b_c is the name of a field of `a` and of one of `a_b`. */
const points = [
  { measurement: 'a', tags: { host: 'h1' }, at: 0, fields: { b_c: 1 } },
  { measurement: 'a', tags: { host: 'h2' }, at: 0, fields: { b_c: 2, text: 'no metric' } },
  { measurement: 'a_b', tags: { host: 'h2' }, at: 0, fields: { c: 3 } },
  { measurement: 'a_b', tags: { host: 'h3', dc: 'ü' }, at: 0, fields: { c: 4, d: 5 } },
  { measurement: 'up', tags: { job: 'x' }, at: 0, fields: { value: 1 } },
  { measurement: 'up', tags: { job: 'y' }, at: -HOUR, fields: { value: 1 } },
  { measurement: 'old', tags: { age: '1' }, at: -HOUR, fields: { value: 1 } },
]

async function get(node: TestNode, path: string, fields: [string, string][] = []) {
  const range: [string, string][] = [
    ['start', String(base / 1000)],
    ['end', String(base / 1000)],
  ]
  const answer = await node.inject(`/api/v1${path}?${new URLSearchParams([...range.filter(([name]) => !fields.some(([given]) => given === name)), ...fields])}`)
  t.equal(answer.statusCode, 200, answer.body)
  return answer.json().data
}

const match = (...selectors: string[]): [string, string][] => selectors.map((selector) => ['match[]', selector])
const told = (series: Record<string, string>[]): string[] => series.map((labels) => Object.values(labels).join()).sort()

async function discovers(t: Test, node: TestNode): Promise<void> {
  t.same(await get(node, '/labels'), ['__name__', 'dc', 'host', 'job'], 'labels of series with samples in the range')
  t.same(await get(node, '/labels', match('up')), ['__name__', 'job'])
  t.same(await get(node, '/labels', match('up{job="y"}')), [])
  t.same(await get(node, '/label/__name__/values'), ['a_b_c', 'a_b_d', 'up'])
  t.same(await get(node, '/label/__name__/values', match('{host=~"h.*"}')), ['a_b_c', 'a_b_d'])
  t.same(await get(node, '/label/host/values'), ['h1', 'h2', 'h3'])
  t.same(await get(node, '/label/host/values', match('a_b_c{dc=""}')), ['h1', 'h2'])
  t.same(await get(node, '/label/host/values', match('a_b_c{host!="h2"}', 'up')), ['h1', 'h3'])
  t.same(await get(node, '/label/none/values'), [])
  t.same(await get(node, '/label/job/values'), ['x'])
  // The engine may call a series active for a row that lacks the field, so only those are asked for that have it.
  t.same(told(await get(node, '/series', match('a_b_c'))), ['a_b_c,h1', 'a_b_c,h2', 'a_b_c,ü,h3'], 'each label set once')
  t.same(told(await get(node, '/series', match('a_b_c{host="h2"}', '{host=~"h[12]"}', 'up'))), ['a_b_c,h1', 'a_b_c,h2', 'up,x'])
  const inOrder = [
    { __name__: 'a_b_c', dc: 'ü', host: 'h3' },
    { __name__: 'a_b_c', host: 'h1' },
    { __name__: 'a_b_c', host: 'h2' },
    { __name__: 'up', job: 'x' },
  ]
  for (const selectors of [
    ['up', 'a_b_c'],
    ['a_b_c', 'up'],
    ['{__name__=~"a_b_c|up"}', 'none', 'up', 'a_b_c{host="h2"}', 'a_b_c', 'old'],
  ]) {
    t.same(await get(node, '/series', match(...selectors)), inOrder, `${selectors}: in order, each once`)
    for (const limit of [1, 2, 3])
      t.same(await get(node, '/series', [...match(...selectors), ['limit', String(limit)]]), inOrder.slice(0, limit), `${selectors}: the first ${limit}`)
  }
  const counts = await get(node, '/status/tsdb')
  t.equal(counts.headStats.numSeries, 9)
  t.same(
    counts.seriesCountByMetricName.find(({ name }: { name: string }) => name === 'a_b_c'),
    { name: 'a_b_c', value: 4 },
    'a name once',
  )
  const { result } = await get(node, '/query', [
    ['query', 'a_b_c'],
    ['time', String(base / 1000)],
  ])
  t.same(
    result.map(({ metric, value }: { metric: { host: string }; value: [number, string] }) => `${metric.host} ${value[1]}`).sort(),
    ['h1 1', 'h2 3', 'h3 4'],
    'series of one name and labels are one',
  )
}

for (const storage of ['memory', 'embedded']) {
  t.test(storage, async (t) => {
    const node = await boot({ plugins: [native, plugin], storage })
    t.teardown(() => node.stop())
    const body = points.map(({ measurement, tags, at, fields }) => ({ measurement, tags, timestamp: `${base + at}000000`, fields }))
    const payload = JSON.stringify(body).replaceAll(/"timestamp":"(\d+)"/g, '"timestamp":$1')
    const written = await node.inject({ method: 'POST', url: '/api/v1/write', payload, headers: { 'content-type': 'application/json' } })
    t.equal(written.statusCode, 204, written.body)
    await discovers(t, node)
    if (storage === 'memory') return
    // The engine thread tells it after the answer.
    let kept = 0
    for (let tries = 0; tries < 200 && kept === 0; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      const { body } = await node.inject('/metrics')
      kept = Number(/^svc_sample_cache_bytes (\d+)$/m.exec(body)?.[1])
    }
    t.ok(kept > 0, 'samples are kept, and counted')
  })
}

for (const storage of ['memory', 'embedded']) {
  t.test(`the earliest times there are, ${storage}`, async (t) => {
    const node = await boot({ plugins: [native, plugin], storage })
    t.teardown(() => node.stop())
    const payload = '[{"measurement": "first", "timestamp": -9223372036854775806, "fields": {"value": 1}}]'
    const written = await node.inject({ method: 'POST', url: '/api/v1/write?backfill=true', payload, headers: { 'content-type': 'application/json' } })
    t.equal(written.statusCode, 204, written.body)
    const range: [string, string][] = [
      ['start', '-9223372036.855'],
      ['end', '-9223372036'],
    ]
    t.same(await get(node, '/series', [...range, ...match('first')]), [{ __name__: 'first' }])
    t.same(await get(node, '/label/__name__/values', [['start', '-9223372036854.775'], ...range.slice(1)]), ['first'], 'where a client has its own first time')
    const { result } = await get(node, '/query', [
      ['query', 'last_over_time(first[1m])'],
      ['time', '-9223372036'],
    ])
    t.equal(result.length, 1)
  })
}

t.test('a measurement that is dropped meanwhile is left out', async (t) => {
  const gone = async () => {
    throw new SvcError('NOT_FOUND', 'cannot read measurement "m": it does not exist in namespace "default"')
  }
  const schema = [{ name: 'm', fields: [{ name: 'value', type: 'float64' }] }]
  const reader = { schema: () => schema, samples: gone, activeSeries: gone } as unknown as Reader
  const { signal } = new AbortController()
  const discovery = storageDiscovery(reader, 'default')
  t.same(await discovery.labelNames({ selectors: [], start: 0, end: 1, limit: 0, signal }), [])
  t.match(await discovery.counts(10, signal), { series: 0, seriesByMetric: [] })
  const { labels } = await storageSource(reader, 'default', signal, 1000).select({ matchers: [{ name: '__name__', op: '=', value: 'm' }], after: 0, upTo: 1 })
  t.equal(labels.length, 0)
})

t.test('other failures are told', async (t) => {
  const failing = async () => {
    throw new SvcError('DATABASE_ERROR', 'the disk is gone')
  }
  const schema = [{ name: 'm', fields: [{ name: 'value', type: 'float64' }] }]
  const reader = { schema: () => schema, samples: failing, activeSeries: failing } as unknown as Reader
  const { signal } = new AbortController()
  await t.rejects(storageDiscovery(reader, 'default').labelNames({ selectors: [], start: 0, end: 1, limit: 0, signal }), { message: 'the disk is gone' })
  await t.rejects(storageSource(reader, 'default', signal, 1000).select({ matchers: [], after: 0, upTo: 1 }), { message: 'the disk is gone' })
})

t.test('the lists of metrics that selectors have count to what is held', async (t) => {
  const schema = Array.from({ length: 1000 }, (_, i) => ({ name: `m${i}`, fields: [{ name: 'value', type: 'float64' }] }))
  const none = async () => ({ series: new Int32Array(0), tags: { keys: () => [] } })
  const reader = { schema: () => schema, samples: none, activeSeries: none } as unknown as Reader
  const { signal } = new AbortController()
  const all = { name: '__name__', op: '=~', value: '.+' } as const
  const other = { name: 'host', op: '=', value: 'h' } as const
  const told: number[] = []
  const discovery = storageDiscovery(reader, 'default', async (bytes) => void told.push(bytes))
  for (let times = 0; times < 2; times++)
    await discovery.labelNames({ selectors: [[all], [other], [all], [{ ...all, op: '=', value: 'm1' }]], start: 0, end: 1, limit: 0, signal })
  t.same(told, [8000, 8000, 16_000, 16_008, 8000, 8000, 16_000, 16_008])
})

t.test('what a listing holds is told before it is made', async (t) => {
  const count = 1000
  const series = Int32Array.from({ length: count }, (_, i) => i)
  const texts = Array.from(series, (i) => `h${i}`)
  const column = { codes: series, texts }
  const tags = { keys: () => ['host'], column: () => column, at: (i: number) => ['host', texts[i]] }
  const set = async () => ({ series, tags })
  const schema = [{ name: 'm', fields: [{ name: 'value', type: 'float64' }] }]
  const reader = { schema: () => schema, samples: set, activeSeries: set } as unknown as Reader
  const { signal } = new AbortController()
  const request = { selectors: [], start: 0, end: 1, limit: 0, signal }
  const asked: Record<string, (discovery: ReturnType<typeof storageDiscovery>) => Promise<unknown>> = {
    values: (discovery) => discovery.labelValues('host', request),
    series: async (discovery) => {
      for await (const labels of discovery.series(request)) return labels
    },
    counts: (discovery) => discovery.counts(10, signal),
  }
  for (const [name, ask] of Object.entries(asked)) {
    let told = 0
    await ask(storageDiscovery(reader, 'default', async (bytes) => void (told = bytes)))
    t.ok(told > 50 * count && told < 500 * count, `${name}: ${told} bytes`)
    await t.rejects(ask(storageDiscovery(reader, 'default', () => Promise.reject(new Error('no room')))), { message: 'no room' })
  }
})
