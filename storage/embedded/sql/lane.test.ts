import t from 'tap'
import { lane } from '../read/lane.ts'
import { EngineReader } from '../read/reader.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import type { Snapshot } from '../threads/state.ts'
import { LaneHarness, type Tried } from './testing/lane.ts'

const { SVC_SEED } = process.env
const first = SVC_SEED === undefined ? Date.now() % 1e9 : Number(SVC_SEED)

t.test('statements are answered from samples as DuckDB answers them', { timeout: 60_000 }, async (t) => {
  const counts: Record<Tried['outcome'], number> = { samples: 0, duckdb: 0, refused: 0 }
  for (let seed = first; seed < first + 3; seed++) {
    const harness = new LaneHarness(seed)
    try {
      await harness.change()
      for (let i = 0; i < 15; i++) {
        const { problem, sql, namespace, outcome } = await harness.tryOne()
        counts[outcome]++
        if (problem !== undefined) return t.fail(`SVC_SEED=${seed} in "${namespace}", ${outcome}: ${problem}\n${sql}`)
      }
    } finally {
      harness.close()
    }
  }
  t.ok(counts.samples > 0, `SVC_SEED=${first} ${JSON.stringify(counts)}`)
})

t.test('EXPLAIN says which way a statement goes, and parameters are constants', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { value: 'float64', state: 'string' })
  db.write(m, [
    { tags: { host: 'a' }, time: 1_700_000_000_000_000_000n, fields: { value: 3, state: 'x' } },
    { tags: { host: 'b' }, time: 1_700_000_060_000_000_000n, fields: { value: 5, state: 'y' } },
  ])
  const reader = await EngineReader.open(await db.context())
  t.teardown(() => reader.close())
  const read = async (query: string, parameters?: string[]): Promise<unknown[][]> => {
    const rows: unknown[][] = []
    for await (const { rows: count, columns } of await reader.sql({ namespace: 'default', query, parameters }))
      for (let i = 0; i < count; i++) rows.push(columns.map(({ values }) => values[i]))
    return rows
  }
  const path = async (query: string): Promise<string> => String((await read(`EXPLAIN ${query}`)).at(-1))
  t.match(await path("SELECT max(value) FROM m WHERE host = 'a'"), /^path,Samples/)
  t.match(await path('SELECT _time, value FROM m ORDER BY _time'), /^path,Samples/)
  for (const query of ['SELECT max(state) FROM m', 'SELECT max(value) FROM m HAVING count(*) > 1', 'SELECT DISTINCT value FROM m', "SELECT 'a'"])
    t.equal(await path(query), 'path,DuckDB', query)
  t.same(await read('SELECT max(value) AS v, count(*) FROM m WHERE host = $1', ['b']), [[5, 1n]])
  t.same(await read('SELECT _time, host FROM m WHERE value > 2 AND host <> ? ORDER BY 1 DESC', ['a']), [[1_700_000_060_000_000_000n, 'b']])
  await t.rejects(read('SELECT max(value) FROM m WHERE host = $1', ['b', 'c']), /2 values were given/)
})

t.test('what is known of values that are not kept does not outlive them', async (t) => {
  const db = new TestDatabase({ sampleCacheBytes: 400_000, rowGroupRows: 2048 })
  t.teardown(() => db.close())
  const hosts = Array.from({ length: 30 }, (_, i) => `h${i}`)
  const sums = new Map<string, number>()
  const points = hosts.flatMap((host, h) =>
    Array.from({ length: 2048 }, (_, i) => {
      const value = h * 1000 + Math.sqrt(i)
      sums.set(host, (sums.get(host) ?? 0) + value)
      return { tags: { host }, time: 1_700_000_000_000_000_000n + BigInt(i) * 1_000_000_000n, fields: { value } }
    }),
  )
  db.write(db.measurement('m', { value: 'float64' }), points)
  await db.flush()
  const context = await db.context()
  for (let round = 0; round < 3; round++) {
    const cursor = await lane(
      context,
      db.state.snapshotNow() as Snapshot,
      { namespace: 'default', query: 'SELECT host, sum(value) FROM m GROUP BY host' },
      undefined,
      () => {
        throw new Error('left to DuckDB')
      },
    )
    for await (const { rows, columns } of cursor)
      for (let i = 0; i < rows; i++) {
        const host = String(columns[0].values[i])
        t.ok(Math.abs((columns[1].values[i] as number) - (sums.get(host) as number)) < 1e-3, `round ${round}, ${host}`)
      }
  }
})
