import type { Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import type { RollupsConfig } from './config.ts'
import { definitionOf } from './definition.ts'
import { Materialiser } from './materialiser.ts'
import type { RollupMetrics } from './metrics.ts'
import type { RecomputeArgs, Recomputed } from './recompute-job.ts'
import { Rollup } from './rollup.ts'

/** What jobs are asked for, and what comes of them. */
function stage(answer: (args: RecomputeArgs) => Recomputed | Error, msOfJob = 10) {
  const asked: string[] = []
  let now = 0
  const run = (_: URL, args: RecomputeArgs) => {
    now += msOfJob
    asked.push(args.parts.map(({ definition, maxBuckets }) => `${definition.name} ${maxBuckets}`).join(', '))
    const given = answer(args)
    return { result: given instanceof Error ? Promise.reject(given) : Promise.resolve(given) }
  }
  const svc = { storage: { run, capabilities: new Set() }, clock: { monotonic: () => now } } as unknown as Svc
  const config = { max_slice_bytes: 1000, job_timeout_secs: 1, max_series_per_rollup: 10, max_buckets_per_slice: 100 } as RollupsConfig
  const materialiser = new Materialiser(svc, config, { rows: { inc() {} } } as unknown as RollupMetrics)
  const works = ['a', 'b', 'c', 'd'].map((name) => {
    const body = { name, source_measurement: 's', target_measurement: name, every: '1m', aggregations: ['avg'] }
    return { rollup: new Rollup(definitionOf(body, '', 0n), 64), start: 0n, end: 60_000_000_000_000n }
  })
  const compute = async (): Promise<string> => (await materialiser.compute(works, new AbortController().signal)).map(({ state }) => state).join()
  return { asked, works, compute }
}

const done = (args: RecomputeArgs, sourceRows = 1, weight = 0): Recomputed => {
  const rows = { sourceRows, groups: [], group: new Int32Array(0), times: new BigInt64Array(0), columns: [] }
  const part = { state: 'done' as const, start: 0n, end: 1n, buckets: 4, rows, unchanged: new Uint8Array(0), stale: [] }
  return { state: 'done', parts: args.parts.map(() => part), rowsRead: sourceRows, weight, plain: [] }
}

t.test('where there is no room for all at once, fewer are done, and later more again', async (t) => {
  const { asked, compute } = stage((args) => (args.parts.length > 1 ? { state: 'too much' } : done(args)))
  t.equal(await compute(), 'done,apart,apart,apart')
  t.same(asked, ['a 4, b 100, c 100, d 100', 'a 4, b 100', 'a 4'])
  t.equal(await compute(), 'done,apart,apart,apart')
  t.same(asked.slice(3), ['a 16, b 100', 'a 16'], 'not all at once')
})

t.test('one that is alone and has no room has smaller slices, and then fails with the setting', async (t) => {
  const { asked, compute } = stage(() => ({ state: 'too much' }))
  t.equal(await compute(), 'failed,apart,apart,apart')
  t.same(asked.slice(2), ['a 4', 'a 1'])
})

t.test('a job that fails as a whole is the fault of one at most: the first is tried alone', async (t) => {
  const { asked, compute } = stage((args) => (args.parts.some(({ definition }) => definition.name === 'c') ? new Error('c is broken') : done(args)))
  t.equal(await compute(), 'done,apart,apart,apart')
  t.same(asked, ['a 4, b 100, c 100, d 100', 'a 4'])
})

t.test('while the storage has no room nobody goes on, and the next slices are shorter', async (t) => {
  const { asked, works, compute } = stage(() => new SvcError('BACKPRESSURE', 'no room'))
  t.equal(await compute(), 'failed,failed,failed,failed')
  t.equal(asked.length, 1)
  t.same(
    works.map(({ rollup }) => rollup.slice),
    [2, 2, 2, 2],
  )
})

t.test('slices grow while they have few rows and are quick, and shrink when they take long', async (t) => {
  const quick = stage((args) => done(args))
  await quick.compute()
  t.equal(quick.works[1].rollup.slice, 16)
  const slow = stage((args) => done(args), 5000)
  await slow.compute()
  t.equal(slow.works[1].rollup.slice, 2)
  const large = stage((args) => done(args, 10_000_000))
  await large.compute()
  t.equal(large.works[1].rollup.slice, 2)
  const heavy = stage((args) => done(args, 1, 1_000_000))
  await heavy.compute()
  t.equal(heavy.works[1].rollup.slice, 2, 'few rows may have much in them')
})
