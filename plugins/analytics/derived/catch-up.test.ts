/** A node that was away for long: what one evaluation cannot do in its time or memory is done in parts. */
import type { StateStore, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { mapState, systemClock } from 'svcdb/testkit'
import t from 'tap'
import type { AnalyticsConfig } from '../config.ts'
import type { DerivedMetrics } from '../models/metrics.ts'
import { DerivedSeries, type KeptDerived } from './derived-series.ts'
import type { EvalArgs } from './eval-job.ts'

const HOUR = 3_600_000_000_000n
const NOW = 1_700_000_000_000_000_000n
const KEY = 'derived//d'
const NOTHING = { times: new BigInt64Array(0), tags: [], fields: [] }
const config = { max_derived_rows: 1000, derived_timeout_secs: 30, derived_memory_mb: 32 } as AnalyticsConfig
const metrics = { seconds: { observe() {} }, points: { inc() {} }, failures: { inc() {} } } as unknown as DerivedMetrics

/** Away for ten days, with a lookback of an hour. @param evaluate gets hours. */
async function away(
  evaluate: (from: number, to: number) => Promise<void>,
): Promise<{ series: DerivedSeries; kept(): Promise<KeptDerived>; state: StateStore }> {
  const state = mapState()
  const run = (_: string, { start, end }: EvalArgs) => ({ result: evaluate(Number((start - NOW) / HOUR), Number((end - NOW) / HOUR)).then(() => NOTHING) })
  const clock = { ...systemClock, nowNanos: () => NOW }
  const server = { multi_tenancy: false }
  const svc = { clock, server, storage: { run, capabilities: new Set() }, log: { warn() {} } } as unknown as Svc
  const first = { namespace: '', name: 'd', query: 'q', target: 'd', every_secs: 60, lookback_secs: 3600, created_at: 1 }
  await state.transaction((tx) => tx.put(KEY, { ...first, evaluated_until: String(NOW - 240n * HOUR) } satisfies KeptDerived))
  const series = new DerivedSeries({ svc, config, metrics })
  await series.open(state, (error) => {
    throw error
  })
  return { series, state, kept: async () => (await state.get<KeptDerived>(KEY)) as KeptDerived }
}

for (const error of [
  new SvcError('QUERY_TIMEOUT', 'the query did not end within 30 s'),
  new SvcError('SQL_ERROR', 'cannot run this query: it needs more memory than per_query_memory_limit allows'),
])
  t.test(`an evaluation that meets ${error.code} is done in shorter ones`, async (t) => {
    const done: [number, number][] = []
    const { series, kept } = await away(async (from, to) => {
      if (to - from > 50) throw error
      done.push([from, to])
    })
    await series.pass(new AbortController().signal)
    t.equal((await kept()).evaluated_until, String(NOW))
    t.equal(done[0][0], -241)
    t.ok(
      done.every(([from], i) => i === 0 || from === done[i - 1][1] - 1),
      `each begins a lookback before the end of the one before: ${done.join(' ')}`,
    )
    await series.close()
  })

t.test('what fails goes on where it came to, and a statement that is too slow for any part fails', async (t) => {
  let breaks = true
  const begun: number[] = []
  const { series, kept } = await away(async (from, to) => {
    begun.push(from)
    if (to - from > 50) throw new SvcError('QUERY_TIMEOUT', 'too long')
    if (breaks && from > -100) throw new SvcError('DATABASE_ERROR', 'a disk has gone')
  })
  const again = async () => {
    const one = series.get('', 'd')
    if (one !== undefined) one.triedAt = Number.NEGATIVE_INFINITY
    begun.length = 0
    await series.pass(new AbortController().signal)
    return one?.lastError
  }
  t.match(await again(), 'a disk has gone')
  const until = BigInt((await kept()).evaluated_until as string)
  t.ok(until > NOW - 150n * HOUR && until < NOW, 'what was done is done')
  breaks = false
  t.equal(await again(), undefined)
  t.equal(begun[0], Number((until - NOW) / HOUR) - 1)
  t.equal((await kept()).evaluated_until, String(NOW))
  await series.close()
  const slow = await away(async () => {
    throw new SvcError('QUERY_TIMEOUT', 'too long')
  })
  await slow.series.pass(new AbortController().signal)
  t.match(slow.series.get('', 'd')?.lastError, 'too long')
  await slow.series.close()
})
