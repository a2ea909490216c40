/** What is kept of derived series, and of the rows that they have written, when something comes between. */
import type { Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { ManualClock, mapState } from 'svcdb/testkit'
import t from 'tap'
import type { AnalyticsConfig } from '../config.ts'
import type { DerivedMetrics } from '../models/metrics.ts'
import { DerivedSeries, type KeptDerived } from './derived-series.ts'

const config = { max_derived_rows: 1000, max_derived_series: 1000, derived_timeout_secs: 30, derived_memory_mb: 32 } as AnalyticsConfig
const metrics = { seconds: { observe() {} }, points: { inc() {} }, failures: { inc() {} } } as unknown as DerivedMetrics
const keptOf = (name: string, more: Partial<KeptDerived> = {}): KeptDerived => ({
  ...{ namespace: '', name, query: 'SELECT 1', target: `${name}_target`, every_secs: 60, lookback_secs: 3600, created_at: 1 },
  ...more,
})

/** @param write called before each write. */
async function node(kept: readonly KeptDerived[], write: () => unknown = () => {}) {
  const state = Object.assign(mapState(), { watch: async () => () => {} })
  for (const one of kept) await state.transaction((tx) => tx.put(`derived//${one.name}`, one))
  let writes = 0
  const points = () => {
    let length = 0
    return {
      add: () => void length++,
      get length() {
        return length
      },
      async write() {
        writes++
        await write()
        return { written: length }
      },
    }
  }
  const rows = { times: BigInt64Array.of(5n), tags: [], fields: [{ name: 'v', values: Float64Array.of(1) }] }
  const clock = new ManualClock()
  /** Where evaluations began. */
  const starts: bigint[] = []
  const run = (_job: URL, { start }: { start: bigint }) => {
    starts.push(start)
    return { result: Promise.resolve(rows) }
  }
  const storage = { capabilities: new Set(), run }
  const server = { multi_tenancy: false }
  const svc = { clock, server, storage, find() {}, ingest: { points }, systemContext: async () => ({}), log: { warn() {} } } as unknown as Svc
  const series = new DerivedSeries({ svc, config, metrics })
  await series.open(state, (error) => {
    throw error
  })
  const pass = async (): Promise<number> => {
    const before = writes
    await series.pass(new AbortController().signal)
    clock.skip(60_000)
    return writes - before
  }
  return { state, series, pass, clock, starts }
}

t.test('all are read at a start, however many', async (t) => {
  const { series } = await node(Array.from({ length: 450 }, (_, i) => keptOf(`d${i}`)))
  t.equal(series.list('').length, 450)
})

t.test('one that another node has made meanwhile is not overwritten', async (t) => {
  const { state, series } = await node([])
  await state.transaction((tx) => tx.put('derived//d', keptOf('d', { query: 'SELECT 2' })))
  await t.rejects(series.create(keptOf('d'), new AbortController().signal), { code: 'CONFLICT', message: /made by another node/ })
  t.match(await state.get('derived//d'), { query: 'SELECT 2' })
})

t.test('one that is deleted while its rows are written does not come back', async (t) => {
  const { state, series, pass } = await node([keptOf('d')], async () => {
    const derived = series.get('', 'd')
    if (derived !== undefined) await series.delete(derived)
  })
  t.equal(await pass(), 1)
  t.equal(await state.get('derived//d'), undefined)
})

t.test('rows are written again after some were refused, and not once all are written', async (t) => {
  let refused = true
  const { series, pass } = await node([keptOf('d')], () => {
    if (refused) throw new SvcError('PARTIAL_WRITE', '1 rejected', { detail: { written: 0, rejected: 1 } })
  })
  t.equal(await pass(), 1)
  t.match(series.get('', 'd'), { lastError: '1 rejected' })
  refused = false
  t.equal(await pass(), 1)
  t.match(series.get('', 'd'), { lastError: undefined })
  t.equal(await pass(), 0)
})

t.test('a time whose rows found no room is not gone past', async (t) => {
  let full = true
  const { state, pass } = await node([keptOf('d')], () => {
    if (full) throw new SvcError('STORAGE_FULL', 'full')
  })
  t.equal(await pass(), 1)
  t.notOk((await state.get<KeptDerived>('derived//d'))?.evaluated_until)
  full = false
  t.equal(await pass(), 1)
  t.ok((await state.get<KeptDerived>('derived//d'))?.evaluated_until)
})

t.test('the time since it was made is gone over although nothing could be written for longer than the lookback', async (t) => {
  let full = true
  const made = new ManualClock().now()
  const { pass, clock, starts } = await node([keptOf('d', { created_at: made })], () => {
    if (full) throw new SvcError('STORAGE_FULL', 'full')
  })
  await pass()
  clock.skip(2 * 3_600_000)
  full = false
  await pass()
  const first = BigInt(made - 3_600_000) * 1_000_000n
  t.same(starts, [first, first])
})

t.test('a clock that was ahead does not hold one up', async (t) => {
  const { pass } = await node([keptOf('d', { evaluated_until: String(2n ** 62n) })])
  t.equal(await pass(), 1)
})
