/** NaN and infinities through a whole engine: log, crash, segments, merges, backup, archive; and what SQL makes of them. */
import { cpSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Duck } from './duckdb/duckdb.ts'
import { streamSql } from './duckdb/stream.ts'
import type { EmbeddedEngine } from './engine.ts'
import { sql } from './testing/archiving.ts'
import { folderStore } from './testing/folder-store.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir } from './testing/harness.ts'

t.setTimeout(120_000)
const STALE = 0x7ff0000000000002n
const NAN = 0x7ff8000000000001n
const INFINITE = 0x7ff0000000000000n
const NEGATIVE_INFINITE = 0xfff0000000000000n
const UNUSUAL = [STALE, NAN, INFINITE, NEGATIVE_INFINITE]
const DAY = 86_400_000_000_000n
const ONE = 0x3ff0000000000000n

async function write(engine: EmbeddedEngine, measurement: string, rows: readonly [time: bigint, bits: bigint][]): Promise<void> {
  const batch = engine.batch('')
  const ref = engine.resolver.measurement('', measurement)
  const table = batch.table(ref)
  const series = engine.resolver.series(ref, ['host', 'a'])
  for (const [i, [time, bits]] of rows.entries()) {
    const row = table.addRow(series, Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    table.column('value', 'float64').setPair(row, Number(BigInt.asIntN(32, bits)), Number(BigInt.asIntN(32, bits >> 32n)))
  }
  const { rejected, rejections } = await engine.write(batch, { nonFinite: true, backfill: true })
  if (rejected > 0) throw new Error(rejections[0].message)
}

/** Time and bits of every row in the Parquet files below a directory. */
async function bitsBelow(directory: string): Promise<[time: bigint, bits: bigint][]> {
  const dir = tempDir()
  const copies = join(dir, 'segments')
  mkdirSync(copies)
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.parquet'))
  for (const [i, name] of names.entries()) cpSync(join(directory, name), join(copies, `${i}.parquet`))
  const settings = {
    niceness: 0,
    duckdbThreads: 1,
    memoryLimitBytes: 64e6,
    sampleCacheBytes: 1 << 20,
    rowGroupRows: 2048,
    compression: 'zstd',
    zstdLevel: 1,
  } as const
  const duck = new Duck({ ...settings, tempDir: join(dir, 'tmp') }, dir)
  const out: [bigint, bigint][] = []
  for (const i of names.keys()) {
    const file = `read_parquet('${join(copies, `${i}.parquet`)}')`
    const apart = (await duck.run(`DESCRIBE FROM ${file}`)).some(({ column_name }) => column_name === 'value_bits')
    const value = apart ? 'coalesce(value::DOUBLE, value_bits::BIT::DOUBLE)' : 'value'
    for await (const { rows, columns } of streamSql(duck, `SELECT _time, ${value} FROM ${file}`, undefined)) {
      const { buffer, byteOffset } = columns[1].values as Float64Array
      const bits = new BigUint64Array(buffer, byteOffset, rows)
      for (let row = 0; row < rows; row++) out.push([(columns[0].values as BigInt64Array)[row], bits[row]])
    }
  }
  duck.close()
  return out.sort((a, b) => Number(a[0] - b[0]))
}

t.test('bits outlive a crash, a flush, a merge, a backup and a restart', async (t) => {
  const dir = tempDir()
  const rows = UNUSUAL.flatMap((bits, i): [bigint, bigint][] => [
    [NOW + BigInt(i * 2), ONE],
    [NOW + BigInt(i * 2 + 1), bits],
  ])
  const engine = await openEngine(dir)
  await write(engine, 'm', rows)
  const crashed = crashCopy(dir)
  await closeAndRemove(engine, dir)

  const replayed = await openEngine(crashed, { compaction_fan_in: 2, maintenance_interval_secs: 1 })
  t.equal((await rowsOf(replayed, 'm')).length, 4, 'a scan of replayed rows leaves out those without a value')
  await replayed.flush()
  t.same(await bitsBelow(join(crashed, 'segments')), rows, 'flushed')
  // Duplicates, so that the merge puts rows together: the ones become markers, the others ones.
  const turned = rows.map(([time, bits]): [bigint, bigint] => [time, bits === ONE ? STALE : ONE])
  await write(replayed, 'm', turned)
  await replayed.flush()
  const backup = join(tempDir(), 'backup')
  await replayed.backup.create(backup)
  const deadline = Date.now() + 30_000
  while ((await bitsBelow(join(crashed, 'segments'))).length > rows.length && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 100))
  t.same(await bitsBelow(join(crashed, 'segments')), turned, 'merged')
  t.equal((await rowsOf(replayed, 'm')).length, 4)

  const restored = join(tempDir(), 'restored')
  await replayed.backup.restore(backup, restored)
  const again = await openEngine(restored, { compaction_fan_in: 64 })
  const bits = (await bitsBelow(join(restored, 'segments'))).map(([, value]) => value).sort()
  // The merge may have come before the backup.
  const expected = bits.length === rows.length ? turned : [...rows, ...turned]
  t.same(bits, expected.map(([, value]) => value).sort(), 'restored')
  t.same(await rowsOf(again, 'm'), await rowsOf(replayed, 'm'))
  await closeAndRemove(again, restored)
  await closeAndRemove(replayed, crashed, backup)
})

t.test('SQL sees rows without a value, and so do its aggregates', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  await write(engine, 'm', [
    [NOW, ONE],
    [NOW + 1n, STALE],
    [NOW + 2n, INFINITE],
    [NOW + 3n, 0x4008000000000000n],
  ])
  for (const where of ['memtable', 'segment']) {
    t.same(await sql(engine, 'SELECT value FROM m ORDER BY _time'), [[1], [null], [null], [3]], where)
    t.same(await sql(engine, 'SELECT count(*), count(value), avg(value), max(value) FROM m'), [[4n, 2n, 2, 3]], where)
    t.same(await sql(engine, 'SELECT value FROM m WHERE value > 2'), [[3]], where)
    t.same(await sql(engine, 'SELECT host, last(value ORDER BY _time) FROM m GROUP BY host'), [['a', 3]], where)
    await engine.flush()
  }
  await closeAndRemove(engine, dir)
})

t.test('an archived segment keeps the bits, and readers of points do not see them', async (t) => {
  const dir = tempDir()
  const cold = tempDir()
  const engine = await openEngine(dir, { ooo_shard_tolerance: 1_000_000 })
  engine.archive.attach(folderStore(cold))
  const rows: [bigint, bigint][] = UNUSUAL.map((bits, i) => [NOW - 20n * DAY + BigInt(i), bits])
  await write(engine, 'm', [...rows, [NOW - 20n * DAY + 9n, ONE]])
  await engine.flush()
  await write(engine, 'm', [[NOW, ONE]])
  const { objects, failure } = await engine.archive.run({ coldAfterSecs: 10 * 86_400, maxObjects: 10 })
  t.same([objects, failure], [1, undefined])
  t.same(await bitsBelow(cold), [...rows, [NOW - 20n * DAY + 9n, ONE]])
  t.same(await sql(engine, 'SELECT count(*), count(value), sum(value) FROM m'), [[6n, 2n, 2]])
  t.equal((await rowsOf(engine, 'm')).length, 2)
  await closeAndRemove(engine, dir, cold)
})
