/** Rows that take more than flushes and merges have memory for are written all the same: many fields of the longest texts, in a few writes of usual size. */
import { seeded } from 'svcdb/lib/random'
import t, { type Test } from 'tap'
import { fill, NOW, str } from '../../conformance/points.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { inside } from '../testing/catalog-faults.ts'
import type { Decoded } from '../testing/decoded-job.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

t.setTimeout(300_000)
const JOB = new URL('../testing/decoded-job.ts', import.meta.url)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
/** As little as may be set. */
const LIMIT = 64 << 20
/** The longest text by default. */
const BYTES = 65_536
const POOL = Array.from({ length: 1 << 17 }, (_, i) => ((i * 2_654_435_761) >>> 0).toString(36).padStart(7, '0')).join('')

/** One row: a write for each hundred of its fields. */
async function writeRow(engine: EmbeddedEngine, row: number, fields: number, random: () => number): Promise<void> {
  for (let from = 0; from < fields; from += 100) {
    const names = Array.from({ length: Math.min(100, fields - from) }, (_, i) => `text${from + i}`)
    const texts = names.map((name) => {
      const at = Math.floor(random() * (POOL.length - BYTES))
      return [name, str(POOL.slice(at, at + BYTES - 20).padEnd(BYTES, `-${name}-${row}`))] as const
    })
    const { batch, refused } = fill(engine, [{ measurement: 'm', tags: { host: 'a' }, time: NOW + BigInt(row), fields: Object.fromEntries(texts) }])
    if (refused.length > 0) throw new Error(JSON.stringify(refused[0]))
    await engine.write(batch, { backfill: true })
  }
}

const query = (fields: number): string => {
  const last = `text${fields - 1}`
  return `SELECT count(*)::DOUBLE, sum(length(text0) + length(text99) + length(${last}))::DOUBLE, right(max(text99), 20), right(min(${last}), 20) FROM m`
}

const answer = async (engine: EmbeddedEngine, fields: number): Promise<unknown> =>
  (await engine.run<Decoded>(JOB, { namespace: 'default', query: query(fields), parameters: [] }, { timeoutMs: 60_000 }).result).rows

async function flushAndMerge(t: Test, fields: number, rows: number): Promise<void> {
  const random = seeded(SEED)
  const dir = tempDir()
  const engine = await openEngine(dir, { merge_memory_limit: LIMIT, compaction_fan_in: 2, maintenance_interval_secs: 3600, query_threads: 1 })
  t.teardown(() => closeAndRemove(engine, dir))
  for (let row = 0; row < rows; row++) await writeRow(engine, row, fields, random)
  const first = await answer(engine, fields)
  await engine.flush()
  t.same(await answer(engine, fields), first, 'flushed')
  // The same rows once more, and other texts.
  for (let row = 0; row < rows; row++) await writeRow(engine, row, fields, random)
  const second = await answer(engine, fields)
  await engine.flush()
  t.same(await answer(engine, fields), second, 'flushed again')
  await engine.tidy()
  await inside(engine).maintenance.settled()
  t.match(inside(engine).segments.all(), [{ rows }], 'merged')
  t.same(await answer(engine, fields), second, 'merged')
}

t.test(`rows of 23 MB: seed ${SEED}`, (t) => flushAndMerge(t, 350, 2))
