import { nextTurn } from 'svcdb/lib/event-loop'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { familyOf, MetadataStore, type MetricRecord } from './metadata.ts'
import { MetadataKeeper } from './metadata-keeper.ts'

const limits = { metrics: 3, perMetric: 2, textBytes: 16 }
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
