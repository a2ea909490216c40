/** Rows with large texts are flushed, merged and read within the memory that DuckDB has, and lose nothing. */
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import t, { type Test } from 'tap'
import { f64, fill, NOW, str, type TestPoint } from '../../conformance/points.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { ParquetFile } from '../parquet/parquet-file.ts'
import { inside } from '../testing/catalog-faults.ts'
import type { Decoded } from '../testing/decoded-job.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

t.setTimeout(600_000)
const JOB = new URL('../testing/decoded-job.ts', import.meta.url)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
/** As little as may be set. */
const LIMIT = 64 << 20

interface Case {
  name: string
  series: number
  rows: number
  fields: number
  /** Of a text. */
  bytes: (random: () => number, row: number) => number
  /** Texts that there are; without it none comes twice. */
  texts?: number
  /** Of the numbers beside. */
  numbers?: number
}

const CASES: Case[] = [
  { name: 'one text of a kilobyte', series: 3, rows: 20_000, fields: 1, bytes: () => 1200 },
  { name: 'many texts of eight kilobytes', series: 1, rows: 180, fields: 15, bytes: () => 8400 },
  { name: 'a few texts, again and again', series: 20, rows: 5000, fields: 1, bytes: () => 5000, texts: 3 },
  { name: 'short ones, then long ones', series: 2, rows: 10_000, fields: 1, bytes: (_, row) => (row < 9200 ? 8 : 30_000) },
  { name: 'of any length', series: 50, rows: 10_000, fields: 3, bytes: (random) => Math.floor(2 ** (random() * 12)) },
  { name: 'a thousand numbers', series: 2, rows: 3000, fields: 1, bytes: () => 10, numbers: 600 },
]

/** Texts that do not compress to nothing. */
function text(random: () => number, bytes: number): string {
  const words: string[] = []
  for (let length = 0; length < bytes; length += 8)
    words.push(
      Math.floor(random() * 2 ** 40)
        .toString(36)
        .padStart(8, '0'),
    )
  return words.join('').slice(0, bytes)
}

async function run(engine: EmbeddedEngine, query: string): Promise<unknown[][]> {
  return (await engine.run<Decoded>(JOB, { namespace: 'default', query, parameters: [] }, { timeoutMs: 60_000 }).result).rows
}

/** @returns bytes of texts, by field. */
async function write(engine: EmbeddedEngine, of: Case, round: number, random: () => number): Promise<number[]> {
  const sums = new Array<number>(of.fields).fill(0)
  const texts = of.texts === undefined ? undefined : Array.from({ length: of.texts }, (_, i) => text(random, of.bytes(random, i)))
  const step = Math.max(1, Math.min(1000, Math.floor((4 << 20) / (of.fields * of.bytes(random, of.rows) + 8 * (of.numbers ?? 0)))))
  for (let from = 0; from < of.rows; from += step) {
    const points = Array.from({ length: Math.min(step, of.rows - from) }, (_, i): TestPoint => {
      const row = from + i
      const fields: TestPoint['fields'] = {}
      for (let f = 0; f < of.fields; f++) {
        const value = texts === undefined ? text(random, of.bytes(random, row)) : texts[Math.floor(random() * texts.length)]
        sums[f] += value.length
        fields[`text${f}`] = str(value)
      }
      for (let f = 0; f < (of.numbers ?? 0); f++) fields[`number${f}`] = f64(row + f / 7)
      return { measurement: 'm', tags: { host: `h${row % of.series}` }, time: NOW - BigInt(round * of.rows + row) * 1_000_000n, fields }
    })
    const { batch, refused } = fill(engine, points)
    if (refused.length > 0) throw new Error(JSON.stringify(refused[0]))
    await engine.write(batch, { backfill: true })
  }
  return sums
}

async function check(t: Test, engine: EmbeddedEngine, of: Case, rounds: number, sums: readonly number[], message: string): Promise<void> {
  const columns = sums.map((_, f) => `sum(length(text${f}))::DOUBLE`).join(', ')
  t.same(await run(engine, `SELECT count(*)::DOUBLE, ${columns} FROM m`), [[rounds * of.rows, ...sums]], message)
}

/** Bytes of the rows of the largest row group, as a reader has them. */
function largestGroup(engine: EmbeddedEngine, dir: string): number {
  let most = 0
  for (const { file, bytes, columns } of inside(engine).segments.all()) {
    const parquet = ParquetFile.open(join(dir, file), bytes)
    parquet.close()
    const { footer } = parquet
    const texts = columns.filter(({ type }) => type === 'string').map(({ name }) => footer.column(name))
    for (let group = 0; group < footer.groups; group++) {
      const sum = texts.reduce((all, column) => all + footer.unpacked[group * footer.columns.length + column], 0)
      most = Math.max(most, sum)
    }
  }
  return most
}

for (const of of CASES)
  t.test(`${of.name}: seed ${SEED}`, async (t) => {
    const random = seeded(SEED)
    const dir = tempDir()
    const engine = await openEngine(dir, { merge_memory_limit: LIMIT, compaction_fan_in: 2, maintenance_interval_secs: 3600, query_threads: 1 })
    t.teardown(() => closeAndRemove(engine, dir))
    const sums = await write(engine, of, 0, random)
    await check(t, engine, of, 1, sums, 'in memory')
    const before = inside(engine).segments.all().length
    await engine.flush()
    await check(t, engine, of, 1, sums, 'flushed')
    t.ok(largestGroup(engine, dir) <= LIMIT / 8, `${largestGroup(engine, dir)} bytes in a row group`)
    for (const [i, sum] of (await write(engine, of, 1, random)).entries()) sums[i] += sum
    await engine.flush()
    await engine.tidy()
    await inside(engine).maintenance.settled()
    t.ok(inside(engine).segments.all().length <= before + 1, 'merged')
    await check(t, engine, of, 2, sums, 'merged')
    t.ok(largestGroup(engine, dir) <= LIMIT / 4, `${largestGroup(engine, dir)} bytes in a row group`)
    const [[newest]] = await run(engine, `SELECT max(text0) FROM m WHERE _time = make_timestamp_ns(${NOW})`)
    t.type(newest, 'string')
  })
