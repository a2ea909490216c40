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

/** Brings buckets of these times to the target. @param refused whether a write is. @returns how many rows each write had. */
async function bring({ times, keptFrom, refused = () => false, gone = () => false }: Bringing): Promise<number[]> {
  const writes: number[] = []
  const body = { name: 'r', source_measurement: 's', target_measurement: 'r', every: '1m', aggregations: ['avg'] }
  const rollup = new Rollup(definitionOf(body, '', 0n), 64)
  const table = { measurement: undefined, rows: 0, addRow: () => table.rows++ }
  const batch = () => ({ namespace: '', resolver: { measurement() {}, series: () => 0 }, table: () => table })
  const write = async (_context: object, _options: object, fill: (target: object) => void) => {
    table.rows = 0
    fill(batch())
    writes.push(table.rows)
    rollup.deleted = gone(writes.length)
    const failed = refused(writes.length)
    const rejections = failed ? [{ position: 0, code: 'INVALID_POINT', message: 'it is too old' }] : []
    return { written: table.rows - rejections.length, rejected: rejections.length, rejections }
  }
  const svc = { storage: { admission: async () => ({ keptFrom }) }, systemContext: async () => ({}), ingest: { write } } as unknown as Svc
  const materialiser = new Materialiser(svc, {} as RollupsConfig, { points: { inc() {} } } as unknown as RollupMetrics)
  const rows = { sourceRows: 1, groups: [{}], group: new Int32Array(times.length), times: BigInt64Array.from(times), columns: [] }
  const part = { state: 'done' as const, start: 0n, end: 100n, buckets: 1, rows, unchanged: new Uint8Array(times.length), stale: [] }
  await materialiser.bring(rollup, part, new AbortController().signal)
  return writes
}

interface Bringing {
  times: readonly bigint[]
  keptFrom?: bigint
  refused?(write: number): boolean
  /** Whether the rollup is deleted by now. */
  gone?(write: number): boolean
}

t.test('a slice of which a point is refused has failed', async (t) => {
  t.same(await bring({ times: [1n, 2n] }), [2])
  const cause = /^cannot materialise rollup "r": 1 of its points were refused, the first: it is too old$/
  await t.rejects(bring({ times: [1n, 2n], refused: () => true }), { code: 'INVALID_POINT', message: cause })
})

t.test('what retention of the target has taken is not written', async (t) => {
  t.same(await bring({ times: [9n, 10n, 11n], keptFrom: 10n }), [2])
  t.same(await bring({ times: [9n], keptFrom: 10n }), [])
})

t.test('once a rollup is deleted nothing more of it is written', async (t) => {
  const times = Array.from({ length: 5000 }, (_, i) => BigInt(i))
  t.same(await bring({ times }), [4096, 904], 'in parts')
  await t.rejects(bring({ times, gone: (write) => write === 1 }), { message: /it was deleted meanwhile/ })
})
