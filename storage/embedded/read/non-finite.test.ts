/** NaN and infinities in engine threads: which bits come out of flushes, merges and archives, and who sees a value. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { archiveDay } from '../archive/archive-writer.ts'
import { compactSegments } from '../compaction/compactor.ts'
import { streamSql } from '../duckdb/stream.ts'
import { mergedKeys } from '../encryption/encrypted-write.ts'
import { exportMeasurement } from '../export/export.ts'
import { collect, TestDatabase, type TestMeasurement, type TestPoint } from '../testing/engine-state.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { relation, sourcesOf } from './relation.ts'
import { scanScope, scanSeries } from './scan.ts'
import { unionSql } from './sources.ts'

const ALL: [bigint, bigint] = [-(2n ** 63n), 2n ** 63n - 1n]
const START = 1_700_000_000_000_000_000n
const STALE = 0x7ff0000000000002n
const NAN = 0x7ff8000000000001n
/** Among them two NaNs, two zeros, and a NaN with a sign: DuckDB takes those of a kind for equal. */
const UNUSUAL = [STALE, NAN, 0xfff8000000000000n, 0x7ff0000000000000n, 0xfff0000000000000n, 0x8000000000000000n, 0n]

const bitsOf = (value: number | bigint): bigint => (typeof value === 'bigint' ? value : new BigUint64Array(Float64Array.of(value).buffer)[0])
const isFiniteBits = (bits: bigint): boolean => Number.isFinite(new Float64Array(BigUint64Array.of(bits).buffer)[0])

/** Bits of field v by host and time: what the last write of each has set. */
class Model {
  readonly bits = new Map<string, bigint>()

  add(points: readonly TestPoint[]): void {
    for (const { tags, time, fields } of points) if ('v' in fields) this.bits.set(`${tags!.host} ${time}`, bitsOf(fields.v as number | bigint))
  }

  get all(): [string, bigint][] {
    return [...this.bits].sort()
  }

  /** What readers of points see. */
  get shown(): [string, bigint][] {
    return this.all.filter(([, bits]) => isFiniteBits(bits))
  }
}

type Numbers = (i: number, round: number) => number
/** Nothing but fractions that no power of ten makes whole. */
const fractions: Numbers = (i) => (i % 10) / 7
const whole: Numbers = (i) => (i % 200) - 100

/** @param round later ones repeat a part of the rows of those before, and more. */
function points(round: number, finite = fractions, unusual: readonly bigint[] = UNUSUAL, count = 6000): TestPoint[] {
  return Array.from({ length: count }, (_, i) => {
    const at = i + round * (count / 2)
    const v = (i + round) % 3 === 0 ? unusual[(i + round * 2) % unusual.length] : finite(i, round)
    return { tags: { host: `h${at % 3}` }, time: START + BigInt(at), fields: { v, other: i } }
  })
}

/** Field v as it is stored. */
async function stored(db: TestDatabase, m: TestMeasurement): Promise<[string, bigint][]> {
  const { state, duck, dataDir } = await db.context()
  const calls: string[] = []
  const sources = sourcesOf(state, state.snapshotNow()!, m.def, ALL, undefined)
  const { sql } = unionSql({ duck, dataDir, sources, time: ALL, fields: m.def.fields.filter(({ name }) => name === 'v'), calls, raw: true })
  const out: [string, bigint][] = []
  for await (const { rows, columns } of streamSql(duck, sql, undefined)) {
    const [series, times, { values, validity }] = columns
    const { buffer, byteOffset } = values as Float64Array
    const bits = new BigUint64Array(buffer, byteOffset, rows)
    for (let i = 0; i < rows; i++) {
      if (validity?.[i] === 0) continue
      out.push([`${state.series.tags((series.values as Int32Array)[i]).host} ${(times.values as BigInt64Array)[i]}`, bits[i]])
    }
  }
  for (const call of calls) duck.removeSource(call)
  return out.sort()
}

async function scanned(db: TestDatabase, name = 'm'): Promise<[string, bigint][]> {
  const context = await db.context()
  const scope = scanScope(context, { namespace: 'default', measurement: name, fields: ['v'] })
  const rows = await collect(scanSeries(context, db.state.snapshotNow()!, scope, undefined))
  return rows.map(({ tags, time, fields }): [string, bigint] => [`${tags.host} ${time}`, bitsOf(fields.v as number)]).sort()
}

async function sql(db: TestDatabase, m: TestMeasurement, query: string): Promise<Record<string, unknown>[]> {
  const context = await db.context()
  const { sql, calls } = relation(context, db.state.snapshotNow()!, { measurement: m.def, time: ALL })
  try {
    return await context.duck.run(query.replace('$m', `(${sql})`))
  } finally {
    for (const call of calls) context.duck.removeSource(call)
  }
}

async function check(t: Test, db: TestDatabase, m: TestMeasurement, model: Model, when: string): Promise<void> {
  t.strictSame(await stored(db, m), model.all, `${when}: the bits stored`)
  t.strictSame(await scanned(db, m.def.name), model.shown, `${when}: a scan`)
  const values = model.shown.map(([, bits]) => new Float64Array(BigUint64Array.of(bits).buffer)[0])
  const [found] = await sql(
    db,
    m,
    'SELECT count(*) AS "rows", count(v) AS n, count(*) FILTER (NOT isfinite(v)) AS odd, min(v) AS least, max(v) AS most FROM $m',
  )
  t.strictSame(
    found,
    { rows: BigInt(model.bits.size), n: BigInt(values.length), odd: 0n, least: Math.min(...values), most: Math.max(...values) },
    `${when}: SQL`,
  )
}

let nextMerged = 1000
async function merge(db: TestDatabase, m: TestMeasurement): Promise<SegmentMeta> {
  const inputs = db.state.snapshotNow()!.table(m.table.id).segments
  const segments = inputs.map(({ id }) => id)
  const target = await db.target()
  const request = {
    table: m.table.id,
    segments,
    segment: nextMerged++,
    sequence: inputs.at(-1)!.sequence,
    level: 1,
    deduplicate: true,
    dirty: null,
    cleared: 0,
  }
  const measurement = m.table.measurement < 0 ? undefined : m.def.id
  const merged = (await compactSegments(inputs, request, target, {
    measurement,
    removals: db.state,
    keyOf: mergedKeys(inputs, m.table, target.duck.encrypted.keys),
  }))!
  db.publish({ kind: 'segments', added: [merged], removed: segments, droppedMemtable: -1 })
  return merged
}

const encodingOf = ({ columns }: SegmentMeta) => columns.find(({ name }) => name === 'v')?.encoding

/** Exact, beside NaN and infinities in a column of their own. */
const EXACT = { kind: 'plain', negativeZero: true, nonFiniteIn: 'v_bits' }

for (const shared of [undefined, 7]) {
  t.test(`bits outlive flushes and merges, in a table ${shared ? 'that measurements share' : 'of its own'}`, async (t) => {
    const db = new TestDatabase()
    t.teardown(() => db.close())
    const m = db.measurement('m', shared === undefined ? { v: 'float64', other: 'float64' } : { v: 'float64' }, { shared })
    const model = new Model()
    const write = (round: number): void => {
      const made = points(round).map((point) => (shared === undefined ? point : { ...point, fields: { v: point.fields.v } }))
      db.write(m, made)
      model.add(made)
    }
    write(0)
    await check(t, db, m, model, 'in the memtable')
    write(1)
    await check(t, db, m, model, 'repeated in the memtable')
    const [first] = await db.flush()
    t.strictSame(encodingOf(first), EXACT)
    if (shared === undefined) t.equal(first.columns.find(({ name }) => name === 'other')?.encoding.kind, 'scaled', 'other columns are as they would be')
    await check(t, db, m, model, 'flushed')
    write(2)
    await check(t, db, m, model, 'memtable over a segment')
    await db.flush()
    await check(t, db, m, model, 'two segments that repeat')
    t.strictSame(encodingOf(await merge(db, m)), EXACT)
    await check(t, db, m, model, 'merged')
    write(1)
    write(3)
    await db.flush()
    await merge(db, m)
    await check(t, db, m, model, 'merged again')
  })
}

const SCALED = UNUSUAL.filter((bits) => bits !== 0x8000000000000000n)

for (const { name, numbers, first, merged } of [
  { name: 'whole numbers', numbers: whole, first: { scale: 0 }, merged: { scale: 0 } },
  { name: 'numbers with two digits', numbers: (i) => (((i * 7) % 999) - 500) / 100, first: { scale: 2 }, merged: { scale: 2 } },
  { name: 'numbers beyond 32 bits', numbers: (i) => (2 ** 45 + i) * (i % 2 === 0 ? 1 : -1), first: { scale: 0, wide: true }, merged: { scale: 0, wide: true } },
  { name: 'more digits from segment to segment', numbers: (i, round) => (i % 500) / 10 ** round, first: { scale: 0 }, merged: { scale: 2 } },
  {
    name: 'digits that take more than 32 bits',
    numbers: (i, round) => (round === 0 ? 2e9 + i : (i % 300) / 100),
    first: { scale: 0 },
    merged: { scale: 2, wide: true },
  },
  { name: 'the limits of 32 bits', numbers: (i) => (2 ** 31 - 1 - (i % 4)) * (i % 2 === 0 ? 1 : -1), first: { scale: 0 }, merged: { scale: 0 } },
] as { name: string; numbers: Numbers; first: object; merged: object }[]) {
  t.test(`${name} stay integers beside NaN and infinities`, async (t) => {
    const db = new TestDatabase()
    t.teardown(() => db.close())
    const m = db.measurement('m', { v: 'float64', v_bits: 'int64', other: 'float64' })
    const model = new Model()
    const write = (round: number, unusual = SCALED): void => {
      const made = points(round, numbers, unusual, 3000)
      db.write(
        m,
        made.map(({ fields, ...rest }, i) => ({ ...rest, fields: { ...fields, v_bits: BigInt(i) } })),
      )
      model.add(made)
    }
    write(0)
    const [segment] = await db.flush()
    t.strictSame(encodingOf(segment), { kind: 'scaled', ...first, nonFiniteIn: 'v_bits_' }, 'a name that no field has')
    await check(t, db, m, model, 'flushed')
    write(1)
    await db.flush()
    // Without any: its rows are merged with those that have some.
    write(2, [0n])
    t.notOk('nonFiniteIn' in encodingOf((await db.flush())[0])!)
    await check(t, db, m, model, 'in segments that repeat')
    t.match(encodingOf(await merge(db, m)), { kind: 'scaled', ...merged, nonFiniteIn: 'v_bits_' })
    await check(t, db, m, model, 'merged')
    db.reopen()
    await check(t, db, m, model, 'in another instance')
    write(1)
    await db.flush()
    await merge(db, m)
    await check(t, db, m, model, 'merged again')
    db.write(m, [{ tags: { host: 'h0' }, time: START + 10n ** 9n, fields: { v: 1 / 3 } }])
    model.add([{ tags: { host: 'h0' }, time: START + 10n ** 9n, fields: { v: 1 / 3 } }])
    await db.flush()
    t.strictSame(encodingOf(await merge(db, m)), { kind: 'plain', nonFiniteIn: 'v_bits_' }, 'dictionaries can be used')
    await check(t, db, m, model, 'no integers any more')
    const [{ n }] = await sql(db, m, 'SELECT count(v_bits) AS n FROM $m')
    t.equal(n, BigInt(model.bits.size) - 1n, 'the field of that name is another one')
  })
}

t.test('segments with and without them are read together', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { v: 'float64', other: 'float64' })
  const model = new Model()
  // Times that do not overlap, so that nothing is merged.
  for (const [round, unusual] of [SCALED, [0n], SCALED, [0n]].entries()) {
    const made = points(round * 2, whole, unusual, 300)
    db.write(m, made)
    model.add(made)
    const [segment] = await db.flush()
    t.strictSame(encodingOf(segment), { kind: 'scaled', scale: 0, ...(unusual === SCALED ? { nonFiniteIn: 'v_bits' } : {}) })
    t.equal(segment.dirty, null)
  }
  const [{ n }] = await sql(db, m, 'SELECT count(*) AS n FROM $m')
  t.equal(n, 1200n)
  await check(t, db, m, model, 'one after the other')
})

t.test('columns that hold NaN and infinities among their numbers, as they were written before, are read and merged', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { v: 'float64', other: 'float64' })
  const model = new Model()
  for (const round of [0, 1]) {
    db.write(m, points(round))
    model.add(points(round))
    const [{ sequence, ...segment }] = await db.flush()
    const target = await db.target()
    const file = join(db.dataDir, segment.file)
    const v = 'coalesce(v, v_bits::BIT::DOUBLE) AS v'
    await target.duck.run(`COPY (SELECT _series, _time, ${v}, other FROM read_parquet('${file}')) TO '${file}' (FORMAT PARQUET, DICTIONARY_SIZE_LIMIT 1)`)
    const columns = segment.columns.map((column) => (column.name === 'v' ? { ...column, encoding: { kind: 'plain', nonFinite: true } as const } : column))
    db.publish({ kind: 'segments', added: [{ ...segment, sequence, columns }], removed: [segment.id], droppedMemtable: -1 })
    await check(t, db, m, model, 'as it was')
  }
  db.write(m, points(2))
  model.add(points(2))
  await db.flush()
  await check(t, db, m, model, 'beside newer ones')
  t.strictSame(encodingOf(await merge(db, m)), EXACT)
  await check(t, db, m, model, 'merged')
})

t.test('what has none is read and written as ever', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { v: 'float64', w: 'float64' })
  db.write(m, [{ tags: { host: 'a' }, time: START, fields: { v: 1.5, w: STALE } }])
  const text = async (): Promise<string> => {
    const context = await db.context()
    const { sql, calls } = relation(context, db.state.snapshotNow()!, { measurement: m.def, time: ALL, columns: ['v'] })
    for (const call of calls) context.duck.removeSource(call)
    return sql
  }
  t.notMatch(await text(), /isfinite/, 'memtable')
  const [segment] = await db.flush()
  t.strictSame(encodingOf(segment), { kind: 'scaled', scale: 1 })
  t.notMatch(await text(), /isfinite/, 'segment')
})

t.test('encrypted columns keep the bits when they are flushed, merged, encrypted late and decrypted for good', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const material = { keys: { k1: new Uint8Array(32).fill(1) }, cacheBytes: 8 << 20 }
  const encrypting = (on: boolean): void => {
    db.config.encryption = { ...material, columns: on ? { v: 'k1' } : {} }
    db.reopen()
  }
  const m = db.measurement('m', { v: 'float64', other: 'float64' })
  const model = new Model()
  const write = (round: number, made = points(round)): void => {
    db.write(m, made)
    model.add(made)
  }
  encrypting(true)
  write(0)
  const [first] = await db.flush()
  t.match(encodingOf(first), { kind: 'encrypted', nonFinite: true })
  await check(t, db, m, model, 'flushed')
  write(1)
  await db.flush()
  t.match(encodingOf(await merge(db, m)), { kind: 'encrypted', nonFinite: true })
  await check(t, db, m, model, 'merged')
  encrypting(false)
  write(2)
  await db.flush()
  t.strictSame(encodingOf(await merge(db, m)), EXACT)
  await check(t, db, m, model, 'in the clear')
  encrypting(true)
  await merge(db, m)
  await check(t, db, m, model, 'encrypted again')
  encrypting(false)
  write(3, points(3, whole, SCALED))
  const [clear] = await db.flush()
  t.strictSame(encodingOf(clear), { kind: 'scaled', scale: 0, nonFiniteIn: 'v_bits' })
  encrypting(true)
  await merge(db, m)
  await check(t, db, m, model, 'integers, encrypted late')
})

t.test('an archived object has the bits, an export has NULL', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { v: 'float64', other: 'float64' })
  const model = new Model()
  for (const made of [points(0), points(1, whole, SCALED)]) {
    db.write(m, made)
    model.add(made)
    await db.flush()
  }
  const inputs = db.state.snapshotNow()!.table(m.table.id).segments
  const cold = join(db.dataDir, 'segments')
  const path = join(cold, 'object.parquet')
  const archived = await archiveDay(
    inputs,
    { table: m.table.id, segments: [1, 2], segment: 9, sequence: 2, deduplicate: true, dirty: null, cleared: 0, time: ['0', String(ALL[1])], path },
    m.def.id,
    db.state,
    await db.target(),
  )
  t.strictSame(encodingOf(archived!), { kind: 'plain', nonFinite: true })
  const request = { namespace: 'default', measurement: 'm', path: join(db.dataDir, 'segments', 'export.parquet'), maxBytes: 0 }
  mkdirSync(db.config.tempDir, { recursive: true })
  const task = { request, unfinished: `${request.path}.part`, scratch: join(db.config.tempDir, 's.parquet'), encrypted: [], config: db.config }
  const context = await db.context()
  t.match(await exportMeasurement(context, db.state.snapshotNow()!, task, undefined), { rows: model.bits.size })
  const [exported] = await context.duck.run(`SELECT count(v) AS n, count(*) FILTER (NOT isfinite(v)) AS odd FROM read_parquet('${request.path}')`)
  t.strictSame(exported, { n: BigInt(model.shown.length), odd: 0n })
  db.config.archiveDirectory = cold
  db.reopen()
  const moved = { ...archived!, file: 'object.parquet', archived: true as const }
  db.publish({ kind: 'segments', added: [moved], removed: [1, 2], droppedMemtable: -1 })
  await check(t, db, m, model, 'archived')
})
