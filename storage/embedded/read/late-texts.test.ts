/** Rows with texts that came out of order, and have not been merged: they are read within the memory that DuckDB has, and the last write of each field wins. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { f64, NOW, str, type TestPoint } from '../../conformance/points.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'
import { logLine, sqlRows, writePoints } from '../testing/log-lines.ts'

t.setTimeout(300_000)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const ROUNDS = 3
const ROWS = 25_000
const BYTES = 1200
const SERIES = 5

interface Row {
  line?: string
  level?: string
  number?: number
}

t.test(`lines of a log, the newest first: seed ${SEED}`, async (t) => {
  const random = seeded(SEED)
  const dir = tempDir()
  const engine = await openEngine(dir, { per_query_memory_limit: 64 << 20, query_threads: 1, query_parallelism: 1, maintenance_interval_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  const kept = new Map<number, Row>()
  for (let round = 0; round < ROUNDS; round++) {
    const points = Array.from({ length: ROWS }, (_, i): TestPoint => {
      // One of fifty writes over some of an earlier row, or all of it.
      const old = round > 0 && random() < 0.02
      const place = i * ROUNDS + (old ? Math.floor(random() * round) : round)
      const row: Row = {}
      if (!old || random() < 0.6) row.line = logLine(random, BYTES)
      if (random() < 0.7) row.level = random() < 0.5 ? 'info' : 'warn'
      if (random() < 0.5 || row.line === undefined) row.number = Math.floor(random() * 1000)
      kept.set(place, { ...kept.get(place), ...row })
      const { line, level, number } = row
      const fields = { ...(line && { line: str(line) }), ...(level && { level: str(level) }), ...(number !== undefined && { number: f64(number) }) }
      return { measurement: 'logs', tags: { host: `h${place % SERIES}` }, time: NOW - BigInt(place) * 1_000_000n, fields }
    })
    await writePoints(engine, points)
    // The last round stays in memory.
    if (round < ROUNDS - 1) await engine.flush()
  }
  const rows = [...kept.entries()]
  const sum = (of: (row: Row) => number): number => rows.reduce((all, [, row]) => all + of(row), 0)
  t.same(await sqlRows(engine, "SELECT count(*), sum(length(line)), sum(number), count(*) FILTER (level = 'info') FROM logs"), [
    [rows.length, sum(({ line }) => line?.length ?? 0), sum(({ number }) => number ?? 0), sum(({ level }) => (level === 'info' ? 1 : 0))],
  ])
  const some = rows.filter(([place]) => place % SERIES === 1)
  const found = await sqlRows(engine, `SELECT epoch_ns(_time), line, level, number FROM logs WHERE host = 'h1'`)
  const expected = new Map(
    some.map(([place, { line, level, number }]) => [String(NOW - BigInt(place) * 1_000_000n), [line ?? null, level ?? null, number ?? null]]),
  )
  t.equal(found.length, some.length)
  t.same(found.filter(([time, ...values]) => JSON.stringify(expected.get(String(time))) !== JSON.stringify(values)).slice(0, 3), [])
})
