/**
 * Writes the kept samples of a format version, with the code it lies beside. Run it before the version rises, or over a checkout of older
 * code with this folder copied in:
 *
 *   node test/compat/make-sample.ts test/compat/v2
 *
 * `stopped` is a data directory after a clean stop; `killed` one as a killed process leaves it, with rows in the log only. The clock stands
 * still. Every field type, several namespaces, tables of their own and shared ones, a measurement that moved from one to the other, merged
 * segments, repeats and late rows, NaN and infinities, series given back, declared fields, two blocks of symbols and series, plugins' state, and rows
 * that an earlier configuration's retention masks are in both.
 */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'lmdb'
import { testContext } from '../../storage/conformance/context.ts'
import {
  bits,
  bool,
  dec,
  f64,
  fill,
  HOUR,
  hist,
  INFINITE,
  i64,
  MINUTE,
  NAN,
  NEGATIVE_INFINITE,
  NOW,
  NOW_MS,
  STALE,
  str,
  type TestPoint,
  u64,
  write,
} from '../../storage/conformance/points.ts'
import { EmbeddedEngine } from '../../storage/embedded/engine.ts'
import { answers } from './answers.ts'

const MANY = 1100
const MERGE_PATIENCE_MS = 10_000

/** Of the first start only. No other row is as old as what it removes. */
const RETENTION = { retention_secs: 72 * 3600, retention: { brief: 50 * 3600 } }

async function openEngine(dir: string, config: Record<string, unknown> = {}): Promise<EmbeddedEngine> {
  const engine = new EmbeddedEngine(testContext({ ...config, data_dir: dir, maintenance_interval_secs: 1, query_threads: 1 }, () => NOW_MS))
  await engine.open()
  return engine
}

function machine(host: string, i: number): TestPoint {
  const fields: TestPoint['fields'] = {
    temp: f64(20 + i / 4),
    ratio: f64(i / 3),
    hits: i64(BigInt(i) - 3n),
    total: u64(2n ** 63n + BigInt(i)),
    up: bool(i % 3 === 0),
    state: str(`state ${i % 4} ü`),
    cost: dec(`${i}.${i % 10}5`),
    spread: hist(Uint8Array.of(i, 255, 0, i + 1)),
  }
  // Each row leaves another field out.
  delete fields[Object.keys(fields)[i % 9]]
  return { measurement: 'machine', tags: { host, dc: i % 2 === 0 ? 'eu' : 'us' }, time: NOW - BigInt(30 - i) * MINUTE, fields }
}

/** @param round a later one repeats rows of those before. */
async function odd(engine: EmbeddedEngine, round: number): Promise<void> {
  const values = [f64(round + 0.25), bits(STALE), f64(-round), bits(NAN), bits(INFINITE), f64(7.5), bits(NEGATIVE_INFINITE)]
  await write(
    engine,
    values.map((value, i) => ({
      measurement: 'odd',
      tags: { host: 'a' },
      time: NOW + BigInt(i + round * 3) * MINUTE,
      fields: { value, whole: i64(BigInt(i)) },
    })),
    { nonFinite: true },
  )
}

/** Segments with rows on both sides of their retention cutoff: masked, and still in the files. */
async function expired(dir: string): Promise<void> {
  const engine = await openEngine(dir, RETENTION)
  const fields: Record<string, TestPoint['fields']> = { lasting: { value: f64(1), more: i64(2n) }, narrow: { value: f64(3) }, brief: { value: f64(4) } }
  const at = (age: bigint) => Object.entries(fields).map(([measurement, fields]) => ({ measurement, tags: { host: 'a' }, time: NOW - age * HOUR, fields }))
  await write(
    engine,
    [100n, 60n, 1n, 0n].flatMap((age) => at(age)),
  )
  await engine.tidy()
  await engine.flush()
  await engine.close()
}

async function firstHalf(engine: EmbeddedEngine): Promise<void> {
  await write(
    engine,
    [0, 1, 2, 3, 4, 5].flatMap((i) => ['a', 'b'].map((host) => machine(host, i))),
  )
  await write(
    engine,
    [0, 1, 2].map((i) => ({ measurement: 'one', tags: { host: 'a' }, time: NOW + BigInt(i), fields: { value: f64(i / 8) } })),
  )
  await write(
    engine,
    [0, 1, 2].map((i) => ({ measurement: 'two', tags: { host: 'b' }, time: NOW + BigInt(i), fields: { value: f64(-0 - i) } })),
  )
  await write(engine, [{ measurement: 'machine', tags: { host: 'plant' }, time: NOW, fields: { temp: f64(1e300) } }], { namespace: 'plant' })
  await write(engine, [{ measurement: 'τ 😀', time: NOW, fields: { s: str('no tags') } }], { namespace: '' })
  await engine.declareField('default', 'declared', { name: 'price', type: 'decimal', scale: 4 })
  await engine.flush()
  // Series named and never written are given back with the next memtable: holes among the numbers.
  engine.recycle(
    fill(
      engine,
      [0, 1, 2].map((i) => ({ measurement: 'one', tags: { host: `never ${i}` }, time: NOW, fields: { value: f64(1) } })),
    ).batch,
  )
  await write(engine, [{ measurement: 'one', tags: { host: 'after' }, time: NOW, fields: { value: f64(2) } }])
  await odd(engine, 0)
  await engine.flush()
  await write(
    engine,
    Array.from({ length: MANY }, (_, i) => ({ measurement: 'many', tags: { n: `s${i}` }, time: NOW, fields: { value: f64(i) } })),
  )
  await engine.flush()
}

async function secondHalf(engine: EmbeddedEngine): Promise<void> {
  // A repeat that changes one field, a late row, rows long ago.
  await write(engine, [{ measurement: 'machine', tags: { host: 'a', dc: 'eu' }, time: NOW - 30n * MINUTE, fields: { temp: f64(99.5), state: str('again') } }])
  await write(engine, [{ measurement: 'machine', tags: { host: 'b', dc: 'us' }, time: NOW - 40n * MINUTE, fields: { hits: i64(-(2n ** 63n)) } }])
  await write(engine, [{ measurement: 'machine', tags: { host: 'old' }, time: NOW - 40n * HOUR, fields: { temp: f64(-273.15) } }], { backfill: true })
  // A second field: the measurement leaves the shared table.
  await write(engine, [{ measurement: 'one', tags: { host: 'a' }, time: NOW + 1n, fields: { second: i64(7n) } }])
  await engine.flush()
  for (const i of [6, 7, 8]) {
    await write(engine, [machine('a', i)])
    await odd(engine, i - 5)
    await engine.flush()
  }
  const state = engine.state('tasks')
  await state.transaction((tx) => {
    tx.put('a', { next: 1, list: [1, 'x', null] })
    tx.put('b/1', 'one')
    tx.put('gone', true)
  })
  await state.transaction((tx) => tx.delete('gone'))
  await engine.state('task').transaction((tx) => tx.put('ä', 1.5))
}

/** In the log only. */
async function unflushed(engine: EmbeddedEngine): Promise<void> {
  await write(
    engine,
    [9, 10, 11].map((i) => machine('c', i)),
  )
  await write(engine, [{ measurement: 'late', tags: { host: 'a' }, time: NOW, fields: { x: f64(1), y: bool(true) } }], { namespace: 'plant' })
  await write(engine, [{ measurement: 'two', tags: { host: 'new' }, time: NOW, fields: { value: f64(0.1) } }])
  await odd(engine, 4)
  await engine.declareField('plant', 'late', { name: 'z', type: 'uint64' })
}

function segmentFiles(dir: string): string[] {
  return readdirSync(join(dir, 'segments'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.parquet'))
}

/** Every fourth flush is merged; the sample needs a merged segment and no file of one under way. */
async function merged(dir: string): Promise<void> {
  let before = ''
  for (const end = Date.now() + MERGE_PATIENCE_MS; Date.now() < end; ) {
    await new Promise((resolve) => setTimeout(resolve, 1500))
    const now = segmentFiles(dir).join()
    if (now === before) return
    before = now
  }
  throw new Error('merging does not end')
}

async function keep(dir: string, target: string): Promise<void> {
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target, { recursive: true })
  for (const part of ['wal', 'segments']) cpSync(join(dir, part), join(target, part), { recursive: true })
  const db = open<unknown, string>({ path: join(dir, 'catalog'), encoding: 'binary', overlappingSync: false })
  mkdirSync(join(target, 'catalog'))
  await db.backup(join(target, 'catalog'), true)
  await db.close()
}

async function make(target: string): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-sample-'))
  const copy = mkdtempSync(join(tmpdir(), 'svc-sample-'))
  await expired(dir)
  const engine = await openEngine(dir)
  await firstHalf(engine)
  await secondHalf(engine)
  await merged(dir)
  await unflushed(engine)
  cpSync(dir, copy, { recursive: true, filter: (path) => !/LOCK(\.os)?$/.test(path) })
  const expected = await answers(engine)
  await engine.close()
  await keep(copy, join(target, 'killed'))
  await keep(dir, join(target, 'stopped'))
  writeFileSync(join(target, 'expected.json'), `${JSON.stringify(expected, null, 2)}\n`)
  for (const one of [dir, copy]) rmSync(one, { recursive: true })
}

if (import.meta.main) {
  const [target] = process.argv.slice(2)
  if (target === undefined) throw new Error('cannot make samples: no folder is named; give test/compat/v<version>')
  await make(target)
}
