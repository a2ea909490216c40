import { nextTurn } from 'svcdb/lib/event-loop'
import { encodeSnappy } from 'svcdb/lib/snappy'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { familyOf, MetadataStore, type MetricRecord } from './metadata.ts'
import { MetadataKeeper } from './metadata-keeper.ts'
import { writeRequest } from './testing-wire.ts'

const limits = { metrics: 3, bytes: 1e6, perMetric: 2, textBytes: 16 }
const entry = (metric: string, help = 'h', type = 'gauge') => ({ metric, type, help, unit: '' })

t.test('different things said of a metric are kept, the newest first, each once', async (t) => {
  const store = new MetadataStore(limits)
  for (const help of ['one', 'two', 'one', 'three']) store.note('a', entry('m', help))
  store.note('b', entry('m', 'elsewhere'))
  t.same(
    [...store.list('a')].map(({ metric, help }) => [metric, help]),
    [
      ['m', 'three'],
      ['m', 'two'],
    ],
  )
  t.same([...store.list('b')], [{ metric: 'm', type: 'gauge', help: 'elsewhere', unit: '' }])
  t.same([...store.list('c')], [])
})

t.test('it is bounded: in metrics, in their names, in texts', async (t) => {
  const store = new MetadataStore(limits)
  for (const metric of ['a', 'b', 'c', 'd', 'a', 'x'.repeat(2000), '', 'with\u0001inside']) store.note('', entry(metric))
  t.same(
    [...store.list('')].map(({ metric }) => metric),
    ['a', 'b', 'c'],
  )
  t.equal(store.dropped, 2)
  store.note('', entry('a', 'é'.repeat(20)))
  t.equal([...store.list('')][0].help, 'é'.repeat(8), 'cut between characters')
})

t.test('it is bounded in bytes, and what is new of a metric takes the place of what is old', async (t) => {
  const store = new MetadataStore({ metrics: 1000, bytes: 9900, perMetric: 4, textBytes: 1024 })
  const helps = (namespace: string) => [...store.list(namespace)].map(({ metric, help }) => `${metric} ${help[0]}`)
  for (let i = 0; i < 100; i++) store.note('a', entry(`m${i}`, 'h'.repeat(1000)))
  t.same(helps('a'), ['m0 h', 'm1 h', 'm2 h', 'm3 h', 'm4 h', 'm5 h', 'm6 h'])
  t.equal(store.dropped, 93)
  for (const text of ['1', '2', '3']) store.note('a', entry('m3', text.repeat(1000)))
  t.same(helps('a'), ['m0 h', 'm1 h', 'm2 h', 'm3 3', 'm4 h', 'm5 h', 'm6 h'])
  t.equal(store.dropped, 93)
  for (const help of [`漢${'h'.repeat(500)}`, 'x']) store.note('a', entry('m3', help))
  t.same(helps('a').slice(3, 5), ['m3 x', 'm3 漢'], 'a text with one wide character takes two bytes for each')
  // Half of it is the share of another namespace.
  for (let i = 0; i < 100; i++) store.note('b', entry(`m${i}`, 'h'.repeat(1000)))
  t.same(
    [helps('a'), helps('b')].map((said) => said.length),
    [5, 3],
  )
  t.same(helps('a').slice(-1), ['m6 h'], 'the oldest went')
  t.same(store.takeChanged().filter(({ record }) => record === undefined).length, 3, 'also from the disk')
  store.forget('b')
  store.take('a\u0001m6', undefined)
  for (let i = 0; i < 100; i++) store.note('c', entry(`m${i}`, 'h'.repeat(1000)))
  t.same(
    [helps('a'), helps('c')].map((said) => said.length),
    [4, 4],
    'what was forgotten is room again',
  )
})

t.test('requests with more of it are taken, and what finds no room is counted', async (t) => {
  const node = await boot({ plugins: ['remote_write', 'promql'], config: { remote_write: { max_metadata_bytes: 65_536 } } })
  t.teardown(() => node.stop())
  const said = Array.from({ length: 100 }, (_, i) => ({ type: 2, metric: `m${i}`, help: 'h'.repeat(2000), unit: '' }))
  const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy' }
  const answer = await fetch(`${node.url}/api/v1/prom/write`, { method: 'POST', headers, body: new Uint8Array(await encodeSnappy(writeRequest([], said))) })
  t.equal(answer.status, 204)
  const kept = (await (await fetch(`${node.url}/api/v1/metadata`)).json()) as { data: object }
  t.equal(Object.keys(kept.data).length, 50)
  t.match(await (await fetch(`${node.url}/metrics`)).text(), /^svc_remote_write_metadata_dropped_total 50$/m)
})

t.test('what is loaded is bounded, too', async (t) => {
  const store = new MetadataStore({ metrics: 1000, bytes: 9900, perMetric: 2, textBytes: 1024 })
  const said = [1, 2, 3].map((i) => ({ type: 'gauge', help: `${i}`.repeat(1000), unit: '' }))
  store.load(Array.from({ length: 100 }, (_, i) => ({ namespace: 'a', metric: `m${i}`, said })))
  t.equal([...store.list('a')].length, 8)
  store.take('a\u0001m0', { namespace: 'a', metric: 'm0', said: said.slice(0, 1) })
  store.take('b\u0001m0', { namespace: 'b', metric: 'm0', said })
  t.same([[...store.list('a')].length, [...store.list('b')].length], [6, 2])
})

t.test('families of classic histograms and summaries', async (t) => {
  t.same(
    [
      ['d_bucket', 'histogram'],
      ['d_sum', 'summary'],
      ['d_bucket', 'counter'],
      ['_sum', 'summary'],
      ['d_gcount', 'gaugehistogram'],
      ['d', 'histogram'],
    ].map(([name, type]) => familyOf(name, type)),
    ['d', 'd', 'd_bucket', '_sum', 'd', 'd'],
  )
})

t.test('it outlives a restart, and a disk that fails for a while', async (t) => {
  const node = await boot({ plugins: ['remote_write'] })
  t.teardown(() => node.stop())
  const state = node.storage.state('test')
  let failing = true
  const flaky = {
    get: state.get.bind(state),
    list: state.list.bind(state),
    transaction: (body: Parameters<typeof state.transaction>[0]) => (failing ? Promise.reject(new Error('no space')) : state.transaction(body)),
  }
  const log = node.node.logs.child('test')
  const store = new MetadataStore(limits)
  const keeper = new MetadataKeeper(store, 1, log)
  await keeper.start(flaky as never)
  store.note('n', entry('m', 'first'))
  await keeper.save()
  t.equal(store.changed.size, 1, 'what could not be saved is tried again')
  failing = false
  keeper.schedule()
  keeper.schedule()
  store.note('n', entry('k'))
  const long = 'prometheus_http_request_duration_seconds'
  store.note('n', entry(long))
  await keeper.stop()
  t.same((await state.list<MetricRecord>()).map(({ value }) => value.metric).sort(), ['k', 'm', long])
  const later = new MetadataStore(limits)
  await new MetadataKeeper(later, 1, log).start(state)
  t.same([...later.list('n')].map(({ metric, help }) => [metric, help]).sort(), [
    ['k', 'h'],
    ['m', 'first'],
    [long, 'h'],
  ])
  t.equal(later.changed.size, 0)
})

t.test('a namespace that another node has removed is forgotten here alone', async (t) => {
  const node = await boot({ plugins: ['remote_write'] })
  t.teardown(() => node.stop())
  const state = node.storage.state('test')
  const store = new MetadataStore(limits)
  const keeper = new MetadataKeeper(store, 1, node.node.logs.child('test'))
  await keeper.start(state)
  for (const namespace of ['n', 'other']) store.note(namespace, entry('m', 'former'))
  const next: MetricRecord = { namespace: 'n', metric: 'm', said: [{ type: 'gauge', help: 'next', unit: '' }] }
  await state.transaction((tx) => tx.put('metadata/n\u0001m', next))
  await keeper.forgetHere('n')
  const helps = (namespace: string) => [...store.list(namespace)].map(({ metric, help }) => [metric, help])
  t.same([helps('n'), helps('other')], [[['m', 'next']], [['m', 'former']]], 'what the next of that name has put away is known')
  await keeper.stop()
  t.same(
    (await state.list<MetricRecord>()).map(({ key, value }) => [key, value.said[0].help]),
    [
      ['metadata/n\u0001m', 'next'],
      ['metadata/other\u0001m', 'former'],
    ],
  )
})

t.test('what is being saved of a namespace that is forgotten does not come back', async (t) => {
  const node = await boot({ plugins: ['remote_write'] })
  t.teardown(() => node.stop())
  const state = node.storage.state('test')
  const underWay = Promise.withResolvers<void>()
  let first = true
  const slow = {
    get: state.get.bind(state),
    list: state.list.bind(state),
    transaction: async (body: Parameters<typeof state.transaction>[0]) => {
      if (first) {
        first = false
        underWay.resolve()
        await nextTurn()
      }
      return state.transaction(body)
    },
  }
  const store = new MetadataStore(limits)
  const keeper = new MetadataKeeper(store, 1, node.node.logs.child('test'))
  await keeper.start(slow as never)
  t.teardown(() => keeper.stop())
  store.note('n', entry('m'))
  const saved = keeper.save()
  await underWay.promise
  await keeper.forget('n')
  await saved
  t.same(await state.list(), [])
})
