/** A series that another node has deleted and made anew by the same name, with another statement and another target, before this one has heard of either. */
import type { Svc } from 'svcdb'
import { ManualClock, mapState } from 'svcdb/testkit'
import t from 'tap'
import type { AnalyticsConfig } from '../config.ts'
import type { DerivedMetrics } from '../models/metrics.ts'
import { DerivedSeries, type KeptDerived } from './derived-series.ts'
import type { EvalArgs } from './eval-job.ts'

const KEY = 'derived//d'
const rows = (v: number) => ({ times: BigInt64Array.of(5n), tags: [], fields: [{ name: 'v', values: Float64Array.of(v) }] })
const config = { max_derived_rows: 1000, derived_timeout_secs: 30, derived_memory_mb: 32 } as AnalyticsConfig
const metrics = { seconds: { observe() {} }, points: { inc() {} }, failures: { inc() {} } } as unknown as DerivedMetrics
const FIRST: KeptDerived = { namespace: '', name: 'd', query: 'old', target: 'old', every_secs: 60, lookback_secs: 3600, created_at: 1 }

/** @param values what statements come to. @param during called while the first one runs. */
async function node(values: Record<string, number>, during: () => Promise<void> = async () => {}) {
  const written: string[] = []
  let ran = 0
  let told = (_: readonly string[]): void => {}
  const state = Object.assign(mapState(), {
    async watch(_: readonly string[], tell: typeof told) {
      told = tell
      return () => {}
    },
  })
  const run = (_: string, { query }: EvalArgs) => {
    return { result: (ran++ === 0 ? during() : Promise.resolve()).then(() => rows(values[query])) }
  }
  const points = () => {
    const batch: string[] = []
    return {
      add: (target: string, _: object, { v }: { v: number }) => void batch.push(`${target} ${v}`),
      length: 1,
      write: async () => ({ written: written.push(...batch) }),
    }
  }
  const clock = new ManualClock()
  const server = { multi_tenancy: false }
  const svc = {
    clock,
    server,
    storage: { run, capabilities: new Set() },
    ingest: { points },
    systemContext: async () => ({}),
    log: { warn() {} },
  } as unknown as Svc
  await state.transaction((tx) => tx.put(KEY, FIRST))
  const series = new DerivedSeries({ svc, config, metrics })
  await series.open(state, (error) => {
    throw error
  })
  return {
    written,
    async pass() {
      await series.pass(new AbortController().signal)
      clock.skip(60_000)
    },
    async anew() {
      await state.transaction((tx) => tx.put(KEY, { ...FIRST, query: 'new', target: 'new', created_at: 2 } satisfies KeptDerived))
      told([KEY])
      while (series.get('', 'd')?.kept.created_at !== 2) await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

t.test('has all of its rows in its target, those too that the one before had', async (t) => {
  const { written, pass, anew } = await node({ old: 1, new: 1 })
  await pass()
  await anew()
  await pass()
  t.same(written, ['old 1', 'new 1'])
})

t.test('gets nothing of a statement of the one before that was under way', async (t) => {
  const parts: { anew?(): Promise<void> } = {}
  const { written, pass, anew } = await node({ old: 1, new: 2 }, async () => parts.anew?.())
  parts.anew = anew
  await pass()
  await pass()
  t.same(written, ['new 2'])
})
