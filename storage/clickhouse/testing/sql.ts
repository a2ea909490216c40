/** Statements on the embedded engine and on ClickHouse, over the same points: both must answer the same. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { DeclaredSqlFunction, SqlParameter, StorageEngine } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { testContext } from '../../conformance/index.ts'
import { bits, bool, dec, f64, HOUR, INFINITE, i64, MINUTE, NOW, NOW_MS, STALE, str, type TestPoint, u64, write } from '../../conformance/points.ts'
import { createEngine } from '../../embedded/index.ts'
import { ClickHouseEngine } from '../engine.ts'

const JOB = moduleUrl('./sql-job.ts', import.meta.url)

export interface Answer {
  columns: [name: string, type: string][]
  rows: unknown[][]
}

export interface Both {
  embedded: StorageEngine
  clickhouse: ClickHouseEngine
  close(): Promise<void>
}

/** Points of several kinds: with gaps, missing fields and tags, NaNs, the largest numbers, and text that means something to a parser. */
export function samplePoints(): TestPoint[] {
  const points: TestPoint[] = []
  for (let i = 0; i < 60; i++)
    for (const [h, host] of ['a', 'b', 'it\'s \\ "q" %_'].entries()) {
      const time = NOW - 50n * HOUR + BigInt(i) * 47n * MINUTE + BigInt(h)
      points.push({
        measurement: 'cpu',
        tags: { host, ...(h === 1 ? {} : { region: h === 0 ? 'eu' : 'us' }) },
        time,
        fields: {
          usage: f64(((i * 37 + h * 11) % 100) / 4),
          ...(i % 3 === 0 ? {} : { idle: f64(100 - i * 1.5) }),
          procs: i64(BigInt(i * (h === 1 ? -1 : 1))),
          big: u64(2n ** 63n + BigInt(i)),
          up: bool(i % 4 !== 0),
          price: dec(`${i * h}.${String(i % 7).padStart(3, '0')}`),
          ...(i % 5 === 0 ? {} : { note: str(i % 2 === 0 ? `n${i % 6}` : `Ünï\n${i % 3}`) }),
        },
      })
    }
  for (let i = 0; i < 30; i++)
    points.push({
      measurement: 'hits',
      tags: { host: i % 2 === 0 ? 'a' : 'b', code: String(200 + (i % 3)) },
      time: NOW - BigInt(i) * 10n * MINUTE,
      fields: { value: f64(i * i) },
    })
  points.push({ measurement: 'hits', tags: { host: 'a', code: '200' }, time: NOW - HOUR * 7n, fields: { value: bits(STALE) } })
  points.push({ measurement: 'cpu', tags: { host: 'z' }, time: NOW - HOUR * 7n, fields: { usage: bits(INFINITE) } })
  points.push({ measurement: 'cpu', tags: { host: 'z' }, time: NOW - HOUR * 6n, fields: { usage: bits(STALE), procs: i64(7n) } })
  points.push({ measurement: 'mixed "x"', tags: { a: 'b' }, time: NOW - HOUR, fields: { value: f64(1) } })
  return points
}

export async function openBoth(section: Record<string, unknown>, prefix: string, functions: readonly DeclaredSqlFunction[] = []): Promise<Both> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-sql-'))
  const context = (config: Record<string, unknown>) => ({ ...testContext(config, () => NOW_MS), sqlFunctions: functions })
  const embedded = createEngine(context({ data_dir: join(folder, 'data') }))
  const clickhouse = new ClickHouseEngine(context({ clickhouse: { ...section, prefix } }))
  for (const engine of [embedded, clickhouse]) {
    await engine.open()
    const points = samplePoints()
    for (const batch of [
      points,
      [
        { measurement: 'mixed "x"', tags: { a: 'b' }, time: NOW - HOUR, fields: { other: i64(4n), host: str('f') } },
        { measurement: 'mixed "x"', tags: { a: 'c', other: 't' }, time: NOW, fields: { value: f64(2) } },
      ],
    ]) {
      const { rejected, rejections } = await write(engine, batch, { backfill: true, nonFinite: true })
      if (rejected > 0) throw new Error(JSON.stringify(rejections))
    }
  }
  return {
    embedded,
    clickhouse,
    async close() {
      await embedded.close()
      await clickhouse.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export async function ask(
  engine: StorageEngine,
  query: string,
  options: { namespace?: string; parameters?: readonly SqlParameter[]; textBytes?: boolean } = {},
): Promise<Answer> {
  const job = engine.run<Answer>(JOB, { namespace: 'default', query, ...options }, { timeoutMs: 20_000 })
  for await (const _ of job.output);
  return job.result
}

/** What is not the same; undefined when all is. @param ordered whether the statement says the order of all rows. */
export function differenceOf(expected: Answer, found: Answer, ordered: boolean): string | undefined {
  if (!isDeepStrictEqual(expected.columns, found.columns)) return `columns ${JSON.stringify(expected.columns)} are ${JSON.stringify(found.columns)}`
  if (expected.rows.length !== found.rows.length) return `${expected.rows.length} rows are ${found.rows.length}`
  const [a, b] = [expected, found].map(({ rows }) => (ordered ? rows : rows.toSorted((x, y) => (shown(x) < shown(y) ? -1 : 1))))
  const at = a.findIndex((row, i) => !row.every((cell, k) => same(cell, b[i][k])))
  return at < 0 ? undefined : `row ${at}, ${shown(a[at])}, is ${shown(b[at])}`
}

/** Sums of floats depend on their order in the last digits. */
function same(a: unknown, b: unknown): boolean {
  // Less, and not as much: infinity is as much as a share of infinity.
  if (typeof a === 'number' && typeof b === 'number') return Object.is(a, b) || a === b || Math.abs(a - b) < 1e-9 * Math.max(Math.abs(a), Math.abs(b), 1e-3)
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => same(item, b[i]))
  return isDeepStrictEqual(a, b)
}

const shown = (row: unknown): string =>
  JSON.stringify(row, (_, value) =>
    typeof value === 'bigint' ? `${value}n` : typeof value === 'number' ? (Number.isFinite(value) ? Number(value.toPrecision(10)) : String(value)) : value,
  )
