/** Columns of native histograms on every way that data takes: SQL, scans, flush, merge, replay, backup, encryption. */
import { join } from 'node:path'
import { emptyHistogram, encodeHistogramInto, staleHistogram, storedHistogramJson } from 'svcdb/lib/histogram'
import t, { type Test } from 'tap'
import type { EmbeddedEngine } from './engine.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, tempDir } from './testing/harness.ts'

t.setTimeout(120_000)
const MARKER = staleHistogram()

/** n observations between 1 and 2, twice as many between 2 and 4; 'stale' ends the series. */
async function put(engine: EmbeddedEngine, host: string, time: bigint, n: number | 'stale', other?: number): Promise<void> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', 'latency')
  const table = batch.table(ref)
  const row = table.addRow(engine.resolver.series(ref, ['host', host]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
  let at: number
  if (n === 'stale') {
    at = batch.heap.reserve(MARKER.length)
    batch.heap.bytes.set(MARKER, at)
  } else {
    at = encodeHistogramInto(batch.heap, {
      ...emptyHistogram(),
      count: n * 3,
      sum: n * 7.5,
      positiveSpans: [{ offset: 1, length: 2 }],
      positiveCounts: Float64Array.of(n, n * 2),
    })
  }
  table.column('value', 'histogram').setPair(row, at, batch.heap.length - at)
  if (other !== undefined) table.column('other', 'float64').setF64(row, other)
  await engine.write(batch)
}

async function sql(engine: EmbeddedEngine, query: string): Promise<unknown[][]> {
  const job = engine.run<void>(new URL('./testing/sql-rows-job.ts', import.meta.url), query)
  const rows: unknown[][] = []
  for await (const row of job.output) rows.push(JSON.parse(Buffer.from(row).toString()) as unknown[])
  await job.result
  return rows
}

async function scanned(engine: EmbeddedEngine): Promise<string[]> {
  const rows: string[] = []
  for await (const { tags, times, columns } of engine.scan({ namespace: '', measurement: 'latency' })) {
    for (let i = 0; i < times.length; i++) {
      const cells = columns.map(({ type, values, validity }) => {
        if (validity?.[i] === 0) return '-'
        return type === 'histogram' ? storedHistogramJson(values[i] as unknown as Uint8Array) : String(values[i])
      })
      rows.push(`${tags.host} ${times[i] - NOW} ${cells.join(' ')}`)
    }
  }
  return rows.sort()
}

const json = (n: number): string => `{"count":${n * 3},"sum":${n * 7.5},"schema":0,"buckets":[[1,2,${n}],[2,4,${n * 2}]]}`

/** What is written by `fill` reads like this, wherever it lies. */
async function check(t: Test, engine: EmbeddedEngine, what: string): Promise<void> {
  t.same(
    await sql(engine, 'SELECT host, value FROM latency ORDER BY host, _time'),
    [
      ['a', json(1)],
      ['a', json(20)],
      ['a', null],
      ['b', json(4)],
    ],
    `${what}: read as JSON`,
  )
  t.same(
    await sql(
      engine,
      'SELECT histogram_count(value), histogram_sum(value), histogram_avg(value), round(histogram_quantile(0.5, value), 3), other FROM latency ORDER BY host, _time',
    ),
    [
      [3, 7.5, 2.5, 2.378, 1],
      [60, 150, 2.5, 2.378, 2],
      [null, null, null, null, null],
      [12, 30, 2.5, 2.378, null],
    ],
    `${what}: functions`,
  )
  t.same(
    await sql(engine, 'SELECT count(*)::INTEGER, count(value)::INTEGER, sum(histogram_count(value)) FROM latency'),
    [[4, 3, 75]],
    `${what}: a staleness marker is no value`,
  )
  t.same(await scanned(engine), [`a 0 ${json(1)} 1`, `a 1 ${json(20)} 2`, `b 0 ${json(4)} -`], `${what}: scanned`)
}

async function fill(engine: EmbeddedEngine, between: () => Promise<unknown>): Promise<void> {
  await put(engine, 'a', NOW, 9, 1)
  await put(engine, 'a', NOW + 1n, 2, 2)
  await put(engine, 'b', NOW, 4)
  await between()
  await put(engine, 'a', NOW, 1)
  await put(engine, 'a', NOW + 1n, 20)
  await put(engine, 'a', NOW + 2n, 'stale')
}

t.test('in memory, in segments, in both, after a crash and from a backup', async (t) => {
  const [dir, root] = [tempDir(), tempDir()]
  const engine = await openEngine(dir)
  await fill(engine, async () => {})
  await check(t, engine, 'memtable')
  const replayed = await openEngine(crashCopy(dir))
  await check(t, replayed, 'log')
  await replayed.close()
  await engine.flush()
  await check(t, engine, 'segment')
  await engine.backup.create(join(root, 'backup'))
  await engine.backup.restore(join(root, 'backup'), join(root, 'restored'))
  await closeAndRemove(engine, dir)
  const restored = await openEngine(join(root, 'restored'))
  await check(t, restored, 'backup')
  await closeAndRemove(restored, root)
})

t.test('rows of several sources are merged field by field, when they are read and for good', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { maintenance_interval_secs: 1, compaction_fan_in: 2 })
  await fill(engine, () => engine.flush())
  await check(t, engine, 'segment and memtable')
  await engine.flush()
  await check(t, engine, 'two segments')
  for (let i = 0; i < 600 && (await engine.explain({ namespace: '', measurement: 'latency' })).segments.total > 1; i++)
    await new Promise((done) => setTimeout(done, 100))
  t.match(await engine.explain({ namespace: '', measurement: 'latency' }), { segments: { total: 1 } })
  await check(t, engine, 'merged')
  await closeAndRemove(engine, dir)
})

t.test('in SQL', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  await fill(engine, async () => {})
  const rows = (query: string) => sql(engine, query)
  t.same(
    await rows("SELECT * EXCLUDE (_time) FROM latency WHERE host = 'b'"),
    [['b', json(4), null]].map(([host, value, other]) => [host, value, other]),
    'a star',
  )
  t.same(await rows("SELECT histogram_json(value) AS j FROM latency WHERE host = 'b'"), [[json(4)]])
  t.same(await rows("SELECT j->'buckets'->1->>2 FROM (SELECT histogram_json(value)::JSON AS j FROM latency WHERE host = 'b')"), [['8']])
  t.same(
    await rows('SELECT last(value, _time) FROM latency WHERE value IS NOT NULL GROUP BY host ORDER BY host'),
    [[json(20)], [json(4)]],
    'through an aggregate',
  )
  t.same(await rows("SELECT histogram_fraction(2, 4, value), histogram_stddev(value) > 0, histogram_stdvar(value) > 0 FROM latency WHERE host = 'b'"), [
    [2 / 3, true, true].map((v) => (v === true ? 1 : v)),
  ])
  t.same(
    await rows("SELECT histogram_quantile(NULL, value), histogram_quantile(0.5, NULL), histogram_count('abc'::BLOB) FROM latency WHERE host = 'b'"),
    [[null, null, null]],
    'what is no histogram',
  )
  t.same(await rows("SELECT value, 'abc'::BLOB FROM latency WHERE host = 'b'"), [[json(4), 'YWJj']], 'other bytes stay what they are')
  t.same(await rows('SELECT histogram_count(value) AS n, max(_time) IS NOT NULL FROM latency WHERE histogram_count(value) > 5 GROUP BY ALL ORDER BY n'), [
    [12, 1],
    [60, 1],
  ])
  await t.rejects(rows('SELECT histogram_quantile(value) FROM latency'), { code: 'SQL_ERROR' })
  await closeAndRemove(engine, dir)
})
