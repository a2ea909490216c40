/** Statements of several engine threads that need scratch space at the same time do not get at each other's. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { at, type Point, write } from '../testing/archiving.ts'
import type { Decoded } from '../testing/decoded-job.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

t.setTimeout(300_000)
const JOB = new URL('../testing/decoded-job.ts', import.meta.url)
const ROWS = 500_000
const AT_ONCE = 20_000
const THREADS = 3
/** A third of what is sorted. */
const LIMIT = 64 << 20

const files = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)

t.test('large sorts on all query threads', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { per_query_memory_limit: LIMIT, query_threads: THREADS, query_parallelism: 1 })
  t.teardown(() => closeAndRemove(engine, dir))
  let bytes = 0
  for (let from = 0; from < ROWS; from += AT_ONCE) {
    const point = (row: number): Point => {
      const text = `text ${row} `.repeat(10)
      if (row < ROWS - THREADS) bytes += text.length
      return { measurement: 'm', tags: ['host', `h${row % 3}`], time: at(1) + BigInt(row) * 1_000_000n, fields: { a: row, text } }
    }
    await write(
      engine,
      Array.from({ length: AT_ONCE }, (_, i) => point(from + i)),
    )
  }
  await engine.flush()
  // Not in the order of the rows, but for the last ones.
  const order = `CASE WHEN a < ${ROWS - THREADS} THEN a % 1000 ELSE 1001 END`
  const query = `SELECT count(*)::DOUBLE, sum(length(text))::DOUBLE, sum(CASE WHEN text LIKE 'text %' THEN 0 ELSE 1 END)::DOUBLE FROM (SELECT text FROM m ORDER BY ${order} LIMIT ${ROWS - THREADS})`
  const run = async (): Promise<unknown> => (await engine.run<Decoded>(JOB, { namespace: '', query, parameters: [] }, { timeoutMs: 120_000 }).result).rows
  const expected = [[ROWS - THREADS, bytes, 0]]
  let spilled = false
  const look = setInterval(() => {
    spilled ||= files(join(dir, 'tmp')).some((name) => name.startsWith('duckdb_temp'))
  }, 50)
  for (let round = 0; round < 2; round++) for (const rows of await Promise.all(Array.from({ length: THREADS }, run))) t.same(rows, expected, `round ${round}`)
  clearInterval(look)
  t.ok(spilled, 'they have used scratch space')
})
