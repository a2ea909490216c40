/** A merge in slices gives the same rows in the same order as one that sorts all at once, and says so of row groups. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import t, { type Test } from 'tap'
import { readSql } from '../read/sources.ts'
import { TestDatabase, type TestMeasurement, type TestPoint } from '../testing/engine-state.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { type CompactRequest, compactSegments } from './compactor.ts'
import { mergeSlices } from './merge-slices.ts'

t.setTimeout(120_000)

const ROW_GROUP_ROWS = 2048
/** So little that a slice has about three row groups. */
const LITTLE = 1 << 20

async function merged(db: TestDatabase, inputs: readonly SegmentMeta[], owner: number | undefined, segment: number, memoryLimitBytes: number) {
  const target = await db.target()
  const request: CompactRequest = {
    ...{ table: inputs[0].table, segments: inputs.map(({ id }) => id), segment, sequence: inputs.at(-1)!.sequence, level: 1 },
    ...{ deduplicate: true, dirty: null, cleared: 1000 },
  }
  const limited = { ...target, config: { ...target.config, memoryLimitBytes, rowGroupRows: ROW_GROUP_ROWS } }
  const meta = (await compactSegments(inputs, request, limited, { measurement: owner, removals: db.state, measurements: db.state.measurements }))!
  const file = join(db.dataDir, meta.file)
  const { duck } = target
  const [digest] = await duck.run(
    `SELECT count(*)::DOUBLE AS n, md5(string_agg(r::VARCHAR, ';' ORDER BY file_row_number)) AS rows FROM (SELECT file_row_number, p AS r FROM (SELECT * REPLACE (epoch_ns(_time) AS _time) FROM read_parquet('${file}', file_row_number = true)) p)`,
  )
  const [ordered] = await duck.run(
    `SELECT count(*)::DOUBLE AS bad FROM (SELECT row(${owner === undefined ? '_measurement, ' : ''}_series, _time) AS k, lag(k) OVER (ORDER BY file_row_number) AS before FROM read_parquet('${file}', file_row_number = true)) WHERE before > k`,
  )
  const { id: _id, file: _file, bytes: _bytes, crc: _crc, ...rest } = meta
  rmSync(file)
  return { rest, digest, bad: ordered.bad }
}

const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 32))

async function compare(t: Test, db: TestDatabase, table: number, owner: number | undefined): Promise<void> {
  const inputs = db.state.snapshotNow()!.table(table).segments
  const rows = inputs.reduce((sum, { rows }) => sum + rows, 0)
  const { duck, dataDir } = await db.target()
  const { slices } = mergeSlices(dataDir, inputs, owner === undefined, { rows: 6000, bytes: Number.POSITIVE_INFINITY })
  t.ok(slices.length >= rows / 20_000 && slices.length > 3, `${slices.length} slices of ${rows} rows`)
  const whole = await merged(db, inputs, owner, 900, 1 << 30)
  const sliced = await merged(db, inputs, owner, 901, LITTLE)
  t.same(sliced, whole)
  t.equal(whole.bad, 0, 'in order')
  const [{ n }] = await duck.run(`SELECT count(*)::DOUBLE AS n FROM ${readSql(inputs.map(({ file }) => join(dataDir, file)))}`)
  t.ok(Number(whole.digest.n) < Number(n), 'some rows were repeated or deleted')
}

/** Many series of a few rows, and one that has more than a slice holds; late rows, repeated ones, missing fields. */
function points(rnd: () => number, rows: number, round: number, names: readonly string[], start = 0n): TestPoint[] {
  return Array.from({ length: rows }, () => {
    const host = rnd() < 0.4 ? 'h0' : `h${Math.floor(rnd() * 900)}`
    const at = Math.floor(round * 20_000 + rnd() * 30_000)
    const fields: TestPoint['fields'] = {}
    for (const [i, name] of names.entries()) if (i === 0 || rnd() < 0.7) fields[name] = Math.floor(rnd() * 1000) / (i === 0 ? 1 : 7)
    return { tags: { host }, time: start + BigInt(at) * 1_000_000_007n, fields }
  })
}

function remove(db: TestDatabase, measurement: TestMeasurement, id: number): void {
  const series = Int32Array.from([1, 5, 9].map((n) => db.series(measurement, { host: `h${n}` }))).sort()
  const tombstone = { id, measurement: measurement.def.id, sequence: 1000, series, start: 0n, end: 30_000n * 1_000_000_007n }
  db.publish({ kind: 'tombstones', added: [tombstone], removed: [] })
}

t.test(`a table of one measurement, seed ${seed}`, async (t) => {
  const rnd = seeded(seed)
  const db = new TestDatabase()
  db.config.rowGroupRows = ROW_GROUP_ROWS
  t.teardown(() => db.close())
  const m = db.measurement('m', { a: 'float64', b: 'float64' })
  for (let round = 0; round < 4; round++) {
    db.write(m, points(rnd, 12_000, round, ['a', 'b']))
    await db.flush()
  }
  remove(db, m, 1)
  await compare(t, db, m.table.id, m.def.id)
})

t.test(`times that DuckDB has no constants of, seed ${seed}`, async (t) => {
  const rnd = seeded(seed + 2)
  const db = new TestDatabase()
  db.config.rowGroupRows = ROW_GROUP_ROWS
  t.teardown(() => db.close())
  const m = db.measurement('m', { a: 'float64' })
  for (let round = 0; round < 4; round++) {
    db.write(m, points(rnd, 12_000, round, ['a'], -(2n ** 63n) + 2n))
    await db.flush()
  }
  await compare(t, db, m.table.id, m.def.id)
})

t.test(`a shared table, seed ${seed}`, async (t) => {
  const rnd = seeded(seed + 1)
  const db = new TestDatabase()
  db.config.rowGroupRows = ROW_GROUP_ROWS
  t.teardown(() => db.close())
  const measurements = Array.from({ length: 30 }, (_, i) => db.measurement(`m${i}`, { value: 'float64' }, { shared: 7 }))
  for (let round = 0; round < 4; round++) {
    // The first has most rows, so that slices divide it by series and by time.
    for (const m of measurements) db.write(m, points(rnd, m === measurements[0] ? 8000 : 200, round, ['value']))
    await db.flush()
  }
  remove(db, measurements[0], 1)
  await compare(t, db, 7, undefined)
})

t.test('a slice has room for its texts beside the memory that its columns take', async (t) => {
  const db = new TestDatabase()
  db.config.rowGroupRows = ROW_GROUP_ROWS
  t.teardown(() => db.close())
  const m = db.measurement('m', { a: 'string', b: 'float64' })
  for (let round = 0; round < 2; round++) {
    const rows = Array.from({ length: 100 }, (_, i) => ({ tags: {}, time: BigInt(i * 2 + round), fields: { a: `${round} ${i}`.padEnd(1000, '.'), b: i } }))
    db.write(m, rows)
    await db.flush()
  }
  const inputs = db.state.snapshotNow()!.table(m.table.id).segments
  const target = await db.target()
  const { slices, sliceBytes } = mergeSlices(target.dataDir, inputs, false, { rows: 6000, bytes: Number.POSITIVE_INFINITY })
  t.equal(slices.length, 1)
  t.ok(sliceBytes >= 200_000, `${sliceBytes} bytes`)
  const asked: number[] = []
  const { duck } = target
  const withRoom = duck.withRoom.bind(duck)
  duck.withRoom = (columns, bytes, body) => {
    asked.push(bytes)
    return withRoom(columns, bytes, body)
  }
  const { digest } = await merged(db, inputs, m.def.id, 900, 1 << 30)
  t.equal(digest.n, 200)
  t.ok(Math.max(...asked) >= 200_000, `${asked} bytes`)
})

t.test('large texts make slices of few rows, those too that lie beside a segment, encrypted', async (t) => {
  const db = new TestDatabase()
  db.config.rowGroupRows = ROW_GROUP_ROWS
  t.teardown(() => db.close())
  const m = db.measurement('m', { text: 'string' })
  for (let round = 0; round < 2; round++) {
    db.write(
      m,
      Array.from({ length: 6000 }, (_, i) => ({ tags: { host: `h${i}` }, time: BigInt(round), fields: { text: `${round} ${i} `.padEnd(500, 'x') } })),
    )
    await db.flush()
  }
  const { segments } = db.state.snapshotNow()!.table(m.table.id)
  const { dataDir } = await db.target()
  const size = { rows: 1_000_000, bytes: 4_500_000 }
  const plan = mergeSlices(dataDir, segments, false, size)
  t.equal(plan.slices.length, 2, 'of six row groups of a megabyte, two of which begin at one key')
  t.ok(plan.rowBytes > 450 && plan.rowBytes < 550, `${plan.rowBytes} bytes a row`)
  t.ok(plan.keyBytes > 1_900_000 && plan.keyBytes < 2_300_000, `${plan.keyBytes} bytes of one row group of each segment`)
  const beside = mergeSlices(dataDir, segments, false, size, undefined, () => 3_000_000)
  t.equal(beside.slices.length, 3)
  t.ok(Math.abs(beside.rowBytes - plan.rowBytes - 500) < 1, `${beside.rowBytes} bytes a row`)
  t.ok(beside.keyBytes > plan.keyBytes + 2_000_000)
  const late = mergeSlices(dataDir, segments, false, size, [1n, 1n])
  t.ok(late.keyBytes < plan.keyBytes * 0.6, 'of what is not merged nothing is counted')
})
