/** Rows with large texts of which nearly all were written once more, and have not been merged: they are read within the memory that DuckDB has. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { f64, NOW, str, type TestPoint } from '../../conformance/points.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'
import { logLine, sqlRows, writePoints } from '../testing/log-lines.ts'

t.setTimeout(300_000)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const ROWS = 60_000
const BYTES = 1200

t.test(`nearly all lines of a log a second time: seed ${SEED}`, async (t) => {
  const random = seeded(SEED)
  const dir = tempDir()
  const engine = await openEngine(dir, { per_query_memory_limit: 64 << 20, query_threads: 1, query_parallelism: 1, maintenance_interval_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  const kept = new Map<number, { line?: string; level?: string; number?: number }>()
  for (let round = 0; round < 2; round++) {
    const points: TestPoint[] = []
    for (let place = 0; place < ROWS; place++) {
      if (round > 0 && random() < 0.05) continue
      const line = logLine(random, BYTES)
      // Of a few rows a write has some of the fields only, so that the row has those of both.
      const part = random()
      const row = part < 0.01 ? { level: 'warn' } : part < 0.02 ? { line } : part < 0.03 ? { number: place } : { line, level: 'info', number: place + round }
      kept.set(place, { ...kept.get(place), ...row })
      const fields = {
        ...('line' in row && { line: str(row.line as string) }),
        ...('level' in row && { level: str(row.level as string) }),
        ...('number' in row && { number: f64(row.number as number) }),
      }
      points.push({ measurement: 'logs', tags: { host: `h${place % 5}` }, time: NOW - BigInt(ROWS - place) * 1_000_000n, fields })
    }
    await writePoints(engine, points)
    await engine.flush()
  }
  const rows = [...kept.entries()]
  const sum = (of: (row: { line?: string; level?: string; number?: number }) => number): number => rows.reduce((all, [, row]) => all + of(row), 0)
  t.same(await sqlRows(engine, "SELECT count(*), sum(length(line)), sum(number), count(*) FILTER (level = 'info') FROM logs"), [
    [rows.length, sum(({ line }) => line?.length ?? 0), sum(({ number }) => number ?? 0), sum(({ level }) => (level === 'info' ? 1 : 0))],
  ])
  const found = await sqlRows(engine, "SELECT epoch_ns(_time), line, level, number FROM logs WHERE host = 'h1'")
  const some = rows.filter(([place]) => place % 5 === 1)
  const expected = new Map(
    some.map(([place, { line, level, number }]) => [String(NOW - BigInt(ROWS - place) * 1_000_000n), [line ?? null, level ?? null, number ?? null]]),
  )
  t.equal(found.length, some.length)
  t.same(found.filter(([time, ...values]) => JSON.stringify(expected.get(String(time))) !== JSON.stringify(values)).slice(0, 3), [])
  // A column that no write of some rows has.
  t.same(await sqlRows(engine, 'SELECT count(*), count(line), count(level) FROM (SELECT line, level FROM logs)'), [
    [rows.length, sum(({ line }) => (line === undefined ? 0 : 1)), sum(({ level }) => (level === undefined ? 0 : 1))],
  ])
})
