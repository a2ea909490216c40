/** Rows with large texts get to an engine process in chunks that it has memory for, from the memtable and from segments. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { f64, fill, NOW, str, type TestPoint } from '../../conformance/points.ts'
import type { EmbeddedEngine } from '../engine.ts'
import type { Decoded } from '../testing/decoded-job.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

t.setTimeout(300_000)
const JOB = new URL('../testing/decoded-job.ts', import.meta.url)
/** True, and on no list of what is bounded. */
const APART = 'len([1]) = 1'
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const POOL = Array.from({ length: 1 << 17 }, (_, i) => ((i * 2_654_435_761) >>> 0).toString(36).padStart(7, '0')).join('')
const SERIES = 30

const CASES = [
  { name: 'lines of a log', rows: 32_000, bytes: 1200, step: 2000, limit: 128 << 20 },
  { name: 'the longest texts', rows: 900, bytes: 60_000, step: 50, limit: 192 << 20 },
]

/** None comes twice. */
function text(random: () => number, bytes: number): string {
  const at = Math.floor(random() * (POOL.length - bytes))
  return POOL.slice(at, at + bytes - 12) + random().toFixed(10)
}

const run = async (engine: EmbeddedEngine, query: string): Promise<unknown[][]> =>
  (await engine.run<Decoded>(JOB, { namespace: 'default', query, parameters: [] }, { timeoutMs: 60_000 }).result).rows

for (const { name, rows, bytes, step, limit } of CASES)
  t.test(`${name}: seed ${SEED}`, async (t) => {
    const random = seeded(SEED)
    const dir = tempDir()
    const engine = await openEngine(dir, { per_query_memory_limit: limit, query_threads: 1, query_parallelism: 2, maintenance_interval_secs: 3600 })
    t.teardown(() => closeAndRemove(engine, dir))
    const sums = Array.from({ length: SERIES }, () => ({ texts: 0, bytes: 0, number: 0 }))
    for (let from = 0; from < rows; from += step) {
      const points = Array.from({ length: Math.min(step, rows - from) }, (_, i): TestPoint => {
        const row = from + i
        const number = random() < 0.5 ? Math.floor(random() * 1000) : undefined
        // Where a row has none the others must not move.
        const line = row === 0 || random() < 0.9 ? text(random, bytes) : undefined
        const of = sums[row % SERIES]
        of.number += number ?? 0
        of.texts += line === undefined ? 0 : 1
        of.bytes += line?.length ?? 0
        const fields: TestPoint['fields'] = { row: f64(row) }
        if (line !== undefined) fields.line = str(line)
        if (number !== undefined) fields.number = f64(number)
        return { measurement: 'm', tags: { host: `h${row % SERIES}` }, time: NOW + BigInt(row) * 1_000_000n, fields }
      })
      const { batch, refused } = fill(engine, points)
      t.same(refused, [])
      await engine.write(batch, { backfill: true })
    }
    const columns = 'count(line)::DOUBLE, sum(length(line))::DOUBLE, sum(number)'
    const expected = (of: typeof sums): number[] => [
      of.reduce((sum, { texts }) => sum + texts, 0),
      of.reduce((sum, { bytes }) => sum + bytes, 0),
      of.reduce((sum, { number }) => sum + number, 0),
    ]
    for (const where of ['in memory', 'flushed']) {
      t.same(await run(engine, `SELECT ${columns} FROM m WHERE ${APART}`), [expected(sums)], where)
      t.same(await run(engine, `SELECT ${columns} FROM m WHERE host = 'h3' AND ${APART}`), [expected([sums[3]])], `one series, ${where}`)
      t.same(await run(engine, `SELECT ${columns} FROM m`), [expected(sums)], `on the engine's thread, ${where}`)
      t.equal((await run(engine, `SELECT line FROM m WHERE ${APART} ORDER BY _time DESC LIMIT 3`)).length, 3, `the newest, ${where}`)
      await engine.flush()
    }
  })
