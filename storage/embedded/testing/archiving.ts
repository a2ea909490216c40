/** Engines with an archive, days of points to put there, and answers to compare before and after; for the archive's tests. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { ArchiveResult, ObjectStore } from 'svcdb'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { NOW, NOW_MS, rowsOf } from './harness.ts'

const DAY = 86_400_000_000_000n
export const COLD = { coldAfterSecs: 10 * 86_400, maxObjects: 100 }
const SQL_JOB = new URL('./table-job.ts', import.meta.url)
export const NONE = { objects: 0, rows: 0, awaitingRollup: 0, incomplete: 0 }

export async function opened(dir: string, store: ObjectStore | undefined, config: Record<string, unknown> = {}, nowMs = NOW_MS): Promise<EmbeddedEngine> {
  const engine = new EmbeddedEngine(testContext({ ooo_shard_tolerance: 1_000_000, compaction_fan_in: 64, data_dir: dir, ...config }, () => nowMs))
  await engine.open()
  if (store !== undefined) engine.archive.attach(store)
  return engine
}

export interface Point {
  measurement: string
  tags: string[]
  time: bigint
  fields: Record<string, number | string>
}

export async function write(engine: EmbeddedEngine, points: readonly Point[]): Promise<void> {
  const batch = engine.batch('')
  for (const [i, { measurement, tags, time, fields }] of points.entries()) {
    const ref = engine.resolver.measurement('', measurement)
    const table = batch.table(ref)
    const row = table.addRow(engine.resolver.series(ref, tags), Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    for (const [name, value] of Object.entries(fields)) {
      if (typeof value === 'number') table.column(name, 'float64').setF64(row, value)
      else {
        const bytes = Buffer.from(value)
        const place = batch.heap.reserve(bytes.length)
        batch.heap.bytes.set(bytes, place)
        table.column(name, 'string').setPair(row, place, bytes.length)
      }
    }
  }
  const { rejected, rejections } = await engine.write(batch, { backfill: true })
  if (rejected > 0) throw new Error(rejections[0].message)
}

export const at = (daysAgo: number, i = 0): bigint => NOW - BigInt(daysAgo) * DAY + BigInt(i) * 60_000_000_000n

/** A measurement with a table of its own, one day each flush, oldest first; and the newest row of all, now. */
export async function writeDays(engine: EmbeddedEngine, from: number, to: number, rows = 20): Promise<void> {
  for (let day = from; day >= to; day--) {
    await write(
      engine,
      Array.from({ length: rows }, (_, i) => ({
        measurement: 'cpu',
        tags: i % 4 === 0 ? ['host', `h${i % 3}`, 'date', 'x'] : ['host', `h${i % 3}`],
        time: at(day, i),
        fields: { a: i / 4 + day, b: i % 5 === 0 ? -0 : i / 3, note: `n${i}` },
      })),
    )
    await engine.flush()
  }
}

export const objectsIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.parquet'))
    .sort()
export const segmentsIn = (dir: string): string[] => objectsIn(join(dir, 'segments'))

export async function sql(engine: EmbeddedEngine, query: string): Promise<unknown> {
  const job = engine.run<unknown>(SQL_JOB, { namespace: '', query })
  for await (const _ of job.output) throw new Error('the job emits nothing')
  return job.result
}

const QUERIES = [
  // Text tells -0 from 0.
  'SELECT CAST(b AS VARCHAR) AS b, count(*) AS n FROM cpu GROUP BY 1 ORDER BY 1',
  'SELECT * FROM cpu ORDER BY ALL',
  'SELECT host, count(*) AS n, sum(a) AS a, min(b) AS b, max(note) AS note FROM cpu GROUP BY host ORDER BY host',
  `SELECT time_bucket('1 day', _time) AS day, count(*) AS n FROM cpu GROUP BY 1 ORDER BY 1`,
  `SELECT a, b, "date" FROM cpu WHERE host = 'h1' AND _time < '${new Date(NOW_MS - 20 * 86_400_000).toISOString()}' ORDER BY ALL`,
]

export async function answers(engine: EmbeddedEngine): Promise<unknown[]> {
  const out: unknown[] = [await rowsOf(engine, 'cpu')]
  for (const query of QUERIES) out.push(await sql(engine, query))
  return out
}

export async function archived(engine: EmbeddedEngine, options = COLD): Promise<ArchiveResult> {
  const result = await engine.archive.run(options)
  if (result.failure !== undefined) throw result.failure
  return result
}
