/** The newest rows of a measurement of very many fields, within little memory: for the first rows of an order DuckDB keeps many more, of whatever width. */
import t from 'tap'
import { at, type Point, write } from '../testing/archiving.ts'
import type { Decoded } from '../testing/decoded-job.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

const JOB = new URL('../testing/decoded-job.ts', import.meta.url)
const FIELDS = 600
const ROWS = 3000

t.test('rows of 600 fields by time', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { per_query_memory_limit: 128 << 20 })
  t.teardown(() => closeAndRemove(engine, dir))
  const point = (row: number, fields: Record<string, number>): Point => ({
    measurement: 'm',
    tags: ['host', `h${row % 3}`],
    time: at(1) + BigInt(row) * 1_000_000n,
    fields,
  })
  await write(engine, [point(0, Object.fromEntries(Array.from({ length: FIELDS }, (_, f) => [`f${f}`, f])))])
  await write(
    engine,
    Array.from({ length: ROWS - 1 }, (_, i) => point(i + 1, { [`f${i % FIELDS}`]: i, number: i + 1 })),
  )
  const numbers = async (rest: string): Promise<unknown[]> => {
    const { rows, columns } = await engine.run<Decoded>(JOB, { namespace: '', query: `SELECT * FROM m ${rest}`, parameters: [] }).result
    const place = columns.findIndex(({ name }) => name === 'number')
    return rows.map((row) => (row as unknown[])[place])
  }
  for (const flushed of [false, true]) {
    if (flushed) await engine.flush()
    t.same(await numbers('ORDER BY _time DESC LIMIT 3'), [ROWS - 1, ROWS - 2, ROWS - 3])
    t.same(await numbers("WHERE host = 'h1' ORDER BY _time DESC LIMIT 2 OFFSET 1"), [ROWS - 5, ROWS - 8])
    t.same(await numbers('ORDER BY _time LIMIT 3'), [null, 1, 2])
  }
})
