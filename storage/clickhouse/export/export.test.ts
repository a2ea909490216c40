/** Exports out of ClickHouse: against the embedded engine's of the same points, in many slices, and what the ways to fail leave behind. SVC_SEED repeats a run. */
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExportResult, JobOptions, StorageEngine } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { NO_CLICKHOUSE, startClickHouse } from '../../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../../conformance/index.ts'
import { readParquet } from '../../conformance/parquet.ts'
import {
  bits,
  bool,
  dec,
  f64,
  HOUR,
  hist,
  INFINITE,
  i64,
  NAN,
  NOW,
  NOW_MS,
  STALE,
  str,
  type TestPoint,
  type TestValue,
  u64,
  write,
} from '../../conformance/points.ts'
import { Random } from '../../conformance/random.ts'
import { createEngine } from '../../embedded/index.ts'
import { ClickHouseEngine } from '../engine.ts'
import { Held, proxyTo } from '../testing/proxy.ts'
import { stretches } from './slices.ts'

const SEED = Number(process.env.SVC_SEED ?? Date.now() % 2 ** 31)
const MEASUREMENTS = ['own', 'narrow', 'both']
/** What the statement of a slice has, and no other. */
const SLICE = /FORMAT Parquet$/

function randomPoint(random: Random): TestPoint {
  const tags: Record<string, string> = { host: random.pick(['a', 'b', 'c\nd', "ä'"]) }
  if (random.chance(0.3)) tags.S = random.pick(['x', '😀'])
  const time = NOW - BigInt(random.below(60)) * HOUR - BigInt(random.below(3))
  const measurement = random.pick(MEASUREMENTS)
  const single = measurement === 'narrow' || (measurement === 'both' && random.chance(0.5))
  if (single)
    return { measurement, tags, time, fields: { value: random.chance(0.1) ? bits(random.pick([STALE, NAN, INFINITE])) : f64(random.next()) }, mixed: true }
  const values: Record<string, () => TestValue> = {
    f: () => (random.chance(0.1) ? bits(random.pick([STALE, INFINITE])) : f64(random.pick([-0, 0, 5e-324, Number.MAX_VALUE, random.next()]))),
    i: () => i64(random.pick([2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n])),
    u: () => u64(random.pick([2n ** 64n - 1n, 0n])),
    b: () => bool(random.chance(0.5)),
    s: () => str(random.pick(['', 'ünï\n"\\', "'x'"])),
    d: () => dec(`${random.pick(['', '-'])}${random.below(1_000_000)}.${random.below(100)}`),
    h: () => hist(Uint8Array.from({ length: 3 + random.below(9) }, () => random.below(256))),
  }
  const names = Object.keys(values).filter(() => random.chance(0.6))
  return { measurement, tags, time, fields: Object.fromEntries((names.length === 0 ? ['f'] : names).map((name) => [name, values[name]()])) }
}

t.test('stretches of whole days have rows enough', async (t) => {
  const days = [-2n, 0n, 1n, 5n].map((day) => ({ day, rows: 10 }))
  const day = 24n * HOUR
  const all = { start: undefined, end: undefined }
  t.same(stretches(days, all, 100), [all])
  t.same(stretches(days, all, 20), [
    { start: undefined, end: day },
    { start: day, end: undefined },
  ])
  t.same(stretches(days, { start: -day, end: 6n * day }, 1), [
    { start: -day, end: 1n - day },
    { start: 1n - day, end: day },
    { start: day, end: 5n * day },
    { start: 5n * day, end: 6n * day },
  ])
  t.same(stretches([], all, 1), [])
})

if (NO_CLICKHOUSE !== undefined) t.test('exports out of ClickHouse', { skip: NO_CLICKHOUSE }, async () => {})
else {
  const server = await startClickHouse()
  const root = mkdtempSync(join(tmpdir(), 'svc-clickhouse-export-'))
  let made = 0
  t.teardown(async () => {
    rmSync(root, { recursive: true, force: true })
    await server.stop()
  })
  const folderOf = (): string => mkdtempSync(join(root, 'f'))
  const begin = async (more: object = {}): Promise<ClickHouseEngine> => {
    const engine = new ClickHouseEngine(testContext({ clickhouse: { ...server.section, prefix: `e${process.pid}_${made++}`, ...more } }, () => NOW_MS))
    await engine.open()
    return engine
  }
  const exported = (engine: StorageEngine, measurement: string, path: string, maxBytes = 0, options: JobOptions = {}): Promise<ExportResult> =>
    engine.export?.({ namespace: 'default', measurement, path, maxBytes }, options) as Promise<ExportResult>

  t.test(`columns and rows are those of an embedded export (SVC_SEED=${SEED})`, async (t) => {
    const random = new Random(SEED)
    const folder = folderOf()
    const embedded = createEngine(testContext({ data_dir: join(folder, 'data') }, () => NOW_MS))
    const clickhouse = await begin()
    await embedded.open()
    t.teardown(() => Promise.all([embedded.close(), clickhouse.close()]))
    for (let round = 0; round < 4; round++) {
      const points = Array.from({ length: 300 }, () => randomPoint(random))
      for (const engine of [embedded, clickhouse]) t.match(await write(engine, points, { backfill: true, nonFinite: true }), { rejected: 0 })
      await embedded.flush()
    }
    const gone = { namespace: 'default', measurement: 'own', matchers: [{ tag: 'host', op: '=' as const, value: 'b' }] }
    for (const engine of [embedded, clickhouse]) await engine.delete(gone)
    for (const measurement of MEASUREMENTS) {
      const [expected, found] = await Promise.all(
        [embedded, clickhouse].map(async (engine, i) => {
          const path = join(folder, `${measurement}-${i}.parquet`)
          const { rows } = await exported(engine, measurement, path)
          const file = await readParquet(path)
          t.equal(file.rows.length, rows)
          return { columns: file.columns, rows: file.rows.map((row) => JSON.stringify(row)).sort() }
        }),
      )
      t.ok(expected.rows.length > 50, `${expected.rows.length} rows`)
      t.same(found, expected, measurement)
    }
  })

  t.test('more rows than a slice may have, of many series and of one', async (t) => {
    let asked: string[] = []
    const proxy = await proxyTo(server.url, (statement, forward) => {
      if (SLICE.test(statement)) asked.push(statement)
      forward()
    })
    const engine = await begin({ url: proxy.url, query_memory: 32_000_000 })
    t.teardown(async () => {
      await engine.close()
      proxy.close()
    })
    const folder = folderOf()
    const row = (series: number, i: number): TestPoint => ({
      measurement: 'm',
      tags: { host: `h${series}` },
      time: NOW - BigInt(i) * 10_000_000n,
      fields: { v: f64(i), s: str(`${series} ${i}`.padEnd(100, '.')) },
    })
    const many = Array.from({ length: 60_000 }, (_, i) => row(i % 600, Math.floor(i / 600)))
    const one = Array.from({ length: 60_000 }, (_, i) => row(1000, i))
    for (const rows of [many, one]) for (let at = 0; at < rows.length; at += 20_000) await write(engine, rows.slice(at, at + 20_000))
    const whole = await exported(engine, 'm', join(folder, 'whole.parquet'))
    t.match(whole, { rows: 120_000, truncated: false })
    t.ok(asked.length > 4, `${asked.length} slices`)
    t.ok(asked.filter((statement) => statement.includes('time <')).length > 1, 'of the large series by time')
    asked = []
    const { rows } = await readParquet(whole.path)
    t.equal(new Set(rows.map(([time, host]) => `${host} ${time}`)).size, 120_000)
    t.ok(rows.every(([, host, v, s]) => s === `${host?.slice(1)} ${Number(v)}`.padEnd(100, '.')))
    const own = rows.filter(([, host]) => host === 'h1000').map(([time]) => String(time))
    t.ok(
      own.every((time, i) => i === 0 || own[i - 1] < time),
      'the times of a series that was divided rise',
    )
    const cut = await exported(engine, 'm', join(folder, 'cut.parquet'), Math.floor(whole.bytes / 2))
    t.equal(cut.truncated, true)
    t.ok(asked.length > 1, 'no more is read than that takes')
    t.equal(cut.bytes, statSync(cut.path).size)
    t.ok(cut.rows > 10_000 && cut.rows < 110_000, `${cut.rows} rows`)
    t.same((await readParquet(cut.path)).rows, rows.slice(0, cut.rows), 'what is there is the beginning of the whole')
    t.same(readdirSync(folder).sort(), ['cut.parquet', 'whole.parquet'])
  })

  t.test('who gives up ends the statement, and nothing is left', async (t) => {
    let ended = Promise.withResolvers<void>()
    let reached = Promise.withResolvers<void>()
    const proxy = await proxyTo(server.url, (statement, forward, _from, to) => {
      if (!SLICE.test(statement)) return forward()
      to.on('close', () => ended.resolve())
      reached.resolve()
    })
    t.teardown(() => proxy.close())
    const engine = await begin({ url: proxy.url })
    const folder = folderOf()
    await write(engine, [{ measurement: 'm', time: NOW, fields: { v: f64(1) } }])
    const path = join(folder, 'a.parquet')
    const abort = new AbortController()
    for (const [options, end, reason] of [
      [{ signal: abort.signal }, () => abort.abort(Object.assign(new Error(), { code: 'ENOUGH' })), { code: 'ENOUGH' }],
      [{ timeoutMs: 300 }, () => {}, { code: 'QUERY_TIMEOUT' }],
      [{}, () => engine.close(), { code: 'DATABASE_CLOSED' }],
    ] as [JobOptions, () => unknown, { code: string }][]) {
      ;[ended, reached] = [Promise.withResolvers(), Promise.withResolvers()]
      const result = exported(engine, 'm', path, 0, options)
      result.catch(() => {})
      await reached.promise
      const closed = end()
      await t.rejects(result, reason, JSON.stringify(options))
      await Promise.all([ended.promise, closed])
      t.same(readdirSync(folder), [])
    }
    await t.rejects(exported(engine, 'm', path), { code: 'DATABASE_CLOSED' })
  })

  t.test('an answer that ends early is no file', async (t) => {
    let lost = true
    const proxy = await proxyTo(server.url, (statement, forward, _from, to) => {
      if (!SLICE.test(statement) || statement.includes("toUInt128('1') AND toUInt128('0')")) return forward()
      to.writeHead(200, lost ? { 'content-length': '1000' } : {})
      to.write(`PAR1${'.'.repeat(100)}Code: 241. DB::Exception`)
      if (lost) setTimeout(() => to.destroy(), 20)
      else to.end()
    })
    const engine = await begin({ url: proxy.url })
    t.teardown(async () => {
      await engine.close()
      proxy.close()
    })
    const folder = folderOf()
    await write(engine, [{ measurement: 'm', time: NOW, fields: { v: f64(1) } }])
    for (lost of [true, false]) await t.rejects(exported(engine, 'm', join(folder, 'a.parquet')), { code: 'OVERLOADED' }, `${lost}`)
    t.same(readdirSync(folder), [])
  })

  t.test('a measurement that is dropped for good meanwhile has no file', async (t) => {
    for (const name of ['own', 'value']) {
      const held = new Held()
      const proxy = await proxyTo(server.url, (statement, forward) => held.pass(statement, forward))
      const engine = await begin({ url: proxy.url })
      const folder = folderOf()
      await write(engine, [{ measurement: 'm', time: NOW, fields: { [name]: f64(1) } }])
      held.next(SLICE)
      const result = exported(engine, 'm', join(folder, 'a.parquet'))
      result.catch(() => {})
      await held.reached
      await engine.drop('default', 'm', { final: true })
      held.release()
      await t.rejects(result, { code: 'NOT_FOUND', message: /dropped meanwhile/ }, name)
      t.same(readdirSync(folder), [])
      await engine.close()
      proxy.close()
    }
  })

  t.test('a full disk', { skip: existsSync('/dev/full') ? false : 'no /dev/full' }, async (t) => {
    const engine = await begin()
    t.teardown(() => engine.close())
    const folder = folderOf()
    await write(engine, [{ measurement: 'm', time: NOW, fields: { v: f64(1) } }])
    await exported(engine, 'm', join(folder, 'a.parquet'))
    // Where the second export puts its parts.
    symlinkSync('/dev/full', join(folder, 'b.parquet.3.unfinished'))
    await t.rejects(exported(engine, 'm', join(folder, 'b.parquet')), { code: 'STORAGE_FULL', message: /"b\.parquet": no space/ })
    t.same(readdirSync(folder), ['a.parquet'])
    await t.rejects(exported(engine, 'm', 'relative.parquet'), { code: 'INVALID_REQUEST', message: /no folder for exports/ })
  })

  t.test('over HTTP', async (t) => {
    const storage = await begin()
    const directory = folderOf()
    const config = { export: { directory } }
    const node = await boot({ plugins: ['line_protocol', 'export'], storage, config })
    t.teardown(() => node.stop())
    await write(storage, [{ measurement: 'cpu', tags: { host: 'a' }, time: NOW, fields: { v: f64(1.5) } }], { namespace: '' })
    const post = (payload: object) =>
      node.inject({ method: 'POST', url: '/api/v1/export/parquet', payload: JSON.stringify(payload), headers: { 'content-type': 'application/json' } })
    const answer = await post({ measurement: 'cpu', output_path: 'x' })
    t.match(answer.json(), { rows_written: 1, truncated: false, path: join(directory, 'x.parquet') }, answer.body)
    t.match(await readParquet(join(directory, 'x.parquet')), { rows: [[/^2024-01-01 12:00:00/, 'a', '1.5']] })
    t.equal((await post({ measurement: 'cpu', output_path: 'x' })).statusCode, 409)
    t.equal((await post({ measurement: 'none' })).statusCode, 404)
    t.same(readdirSync(directory), ['x.parquet'])
  })
}
