/** Exports, for engines with that capability: what is in the file, and that it is there whole or not at all. */
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExportRequest, ExportResult, JobOptions } from 'svcdb'
import type { Test } from 'tap'
import { formatTime } from '../common/time.ts'
import type { Life, LifeRule } from './life.ts'
import { readParquet } from './parquet.ts'
import { bits, bool, dec, f64, HOUR, hist, INFINITE, i64, NAN, NOW, STALE, str, type TestPoint, u64, write } from './points.ts'

/** The configuration that the rules expect. */
export const exportConfig = { retention: { brief: 2 * 3600 } }

const FILE = 'a.parquet'
type Asked = Partial<ExportRequest> & { measurement: string }
type Export = (request: Asked, options?: JobOptions) => Promise<ExportResult>

/** An engine that does not export has nothing to show. */
function rule(name: string, body: (t: Test, life: Life, folder: string, exported: Export) => Promise<void>): LifeRule {
  return [
    name,
    async (t, life) => {
      if (!life.engine.capabilities.has('export')) return void t.plan(0, 'the engine does not export')
      const folder = mkdtempSync(join(tmpdir(), 'svc-conformance-'))
      const exported: Export = async (request, options) =>
        (await life.engine.export?.({ namespace: 'default', path: join(folder, FILE), maxBytes: 0, ...request }, options)) as ExportResult
      try {
        await body(t, life, folder, exported)
      } finally {
        rmSync(folder, { recursive: true })
      }
    },
  ]
}

const point = (time: bigint, fields: TestPoint['fields'], tags: Record<string, string> = { host: 'a' }, measurement = 'm'): TestPoint => ({
  ...{ measurement, tags, time, fields },
})
/** As DuckDB writes it. */
const text = (time: bigint): string => formatTime(time).replace('T', ' ').replace('Z', '')
/** Rows by series: of series among one another there is no order. */
const sorted = (rows: (string | null)[][]): string[] => rows.map((row) => JSON.stringify([...row.slice(1), row[0]])).sort()

export const exportRules: LifeRule[] = [
  rule('every type comes back, with its name, its type and what is missing', async (t, life, folder, exported) => {
    const all: TestPoint['fields'] = {
      f: f64(-0),
      i: i64(-(2n ** 63n)),
      u: u64(2n ** 64n - 1n),
      b: bool(true),
      s: str('it\'s "ü" \\ \n'),
      d: dec('-12345678901234567890123456789012345.678'),
      h: hist(Uint8Array.of(0, 255, 39)),
    }
    for (const [name, value] of Object.entries(all)) await write(life.engine, [point(NOW - 1n, { [name]: value })])
    await life.between()
    await write(life.engine, [point(NOW, all), point(NOW, { f: f64(0.1) }, { zone: "'`\\ü" }), point(NOW, { b: bool(false), s: str('') }, {})])
    const result = await exported({ measurement: 'm' })
    const path = join(folder, FILE)
    t.same(result, { path, rows: 4, bytes: statSync(path).size, truncated: false })
    t.same(readdirSync(folder), [FILE], 'nothing is beside it')
    const { columns, rows } = await readParquet(path)
    const types = ['f DOUBLE', 'i BIGINT', 'u UBIGINT', 'b BOOLEAN', 's VARCHAR', 'd DECIMAL(38,3)', 'h BLOB']
    t.same(columns, ['_time TIMESTAMP_NS', 'host VARCHAR', 'zone VARCHAR', ...types])
    const full = [
      '-0.0',
      String(-(2n ** 63n)),
      String(2n ** 64n - 1n),
      'true',
      'it\'s "ü" \\ \n',
      '-12345678901234567890123456789012345.678',
      '\\x00\\xFF\\x27',
    ]
    t.same(
      sorted(rows),
      sorted([
        [text(NOW - 1n), 'a', null, ...full],
        [text(NOW), 'a', null, ...full],
        [text(NOW), null, "'`\\ü", '0.1', null, null, null, null, null, null],
        [text(NOW), null, null, null, null, null, 'false', '', null, null],
      ]),
    )
  }),
  rule('names that clash are told apart as in SQL', async (t, life, folder, exported) => {
    const tags = { Value: 't', a: 'x', 'it\'s "`\\ ü': 'y' }
    await write(life.engine, [point(NOW, { value: f64(1) }, tags)])
    await write(life.engine, [point(NOW, { A: i64(2n), 'x`; DROP TABLE y; --': str('z') }, tags)])
    await life.between()
    await exported({ measurement: 'm' })
    const { columns, rows } = await readParquet(join(folder, FILE))
    const names = [
      '_time TIMESTAMP_NS',
      'Value_tag VARCHAR',
      'a_tag VARCHAR',
      'it\'s "`\\ ü VARCHAR',
      'value DOUBLE',
      'A BIGINT',
      'x`; DROP TABLE y; -- VARCHAR',
    ]
    t.same([...columns.slice(0, 5), ...columns.slice(5).sort()], names)
    t.same(
      rows.map((row) => [...row.slice(0, 5), ...row.slice(5).sort()]),
      [[text(NOW), 't', 'x', 'y', '1.0', '2', 'z']],
    )
  }),
  rule('rows of a series follow one another in time, and the last value of each field counts', async (t, life, folder, exported) => {
    const rows = (from: number, to: number, v: number) =>
      Array.from({ length: to - from }, (_, i) => point(NOW - BigInt(from + i), { v: f64(v), [`w${v}`]: f64(v) }, { host: `h${i % 3}` }))
    await write(life.engine, rows(0, 60, 1))
    await life.between()
    await write(life.engine, rows(30, 60, 2))
    await life.between()
    await write(life.engine, rows(45, 75, 3))
    t.match(await exported({ measurement: 'm' }), { rows: 75 })
    const file = await readParquet(join(folder, FILE))
    t.equal(new Set(file.rows.map(([time, host]) => `${time} ${host}`)).size, 75)
    const runs = file.rows.filter(([, host], i) => i === 0 || file.rows[i - 1][1] !== host).length
    t.equal(runs, 3, 'series do not interleave')
    t.ok(file.rows.every(([time, host], i) => i === 0 || file.rows[i - 1][1] !== host || String(file.rows[i - 1][0]) < String(time)))
    const expected = Array.from({ length: 75 }, (_, i) => {
      const last = i >= 45 ? 3 : i >= 30 ? 2 : 1
      const set = [i < 60 ? '1.0' : null, i >= 30 && i < 60 ? '2.0' : null, i >= 45 ? '3.0' : null]
      return [text(NOW - BigInt(i)), `h${i % 3}`, `${last}.0`, ...set]
    })
    t.same(sorted(file.rows), sorted(expected))
  }),
  rule('a measurement that begins with one number and gets more', async (t, life, folder, exported) => {
    const mixed = (time: bigint, value: number, measurement = 'm'): TestPoint => ({
      ...point(time, { value: f64(value) }, { host: 'a' }, measurement),
      mixed: true,
    })
    await write(life.engine, [mixed(NOW - 2n, 1), mixed(NOW - 1n, 2), mixed(NOW, 3, 'other')])
    await life.between()
    t.match(await exported({ measurement: 'm' }), { rows: 2 })
    rmSync(join(folder, FILE))
    await write(life.engine, [point(NOW - 1n, { other: str('x') }), point(NOW, { other: str('y') }), mixed(NOW + 1n, 5)])
    await exported({ measurement: 'm' })
    t.same(await readParquet(join(folder, FILE)), {
      columns: ['_time TIMESTAMP_NS', 'host VARCHAR', 'value DOUBLE', 'other VARCHAR'],
      rows: [
        [text(NOW - 2n), 'a', '1.0', null],
        [text(NOW - 1n), 'a', '2.0', 'x'],
        [text(NOW), 'a', null, 'y'],
        [text(NOW + 1n), 'a', '5.0', null],
      ],
    })
  }),
  rule('a range, its end not included; a file without rows has its columns', async (t, life, folder, exported) => {
    await write(
      life.engine,
      Array.from({ length: 10 }, (_, i) => point(NOW - HOUR * BigInt(10 * i), { v: f64(i) })),
      { backfill: true },
    )
    await life.between()
    const times = async (range: Pick<Asked, 'start' | 'end'>): Promise<unknown[]> => {
      await exported({ measurement: 'm', ...range })
      const { columns, rows } = await readParquet(join(folder, FILE))
      t.same(columns, ['_time TIMESTAMP_NS', 'host VARCHAR', 'v DOUBLE'])
      rmSync(join(folder, FILE))
      return rows.map(([, , v]) => Number(v)).sort()
    }
    t.same(await times({ start: NOW - 30n * HOUR, end: NOW - 10n * HOUR }), [2, 3])
    t.same(await times({ start: NOW - 30n * HOUR + 1n }), [0, 1, 2])
    t.same(await times({ end: NOW - 80n * HOUR }), [9])
    t.same(await times({ start: NOW + 1n }), [])
    t.same(await times({ start: NOW, end: NOW }), [])
    t.same(await times({ start: NOW, end: NOW - HOUR }), [])
  }),
  rule('NaN and infinities are no values', async (t, life, folder, exported) => {
    const rows = [STALE, NAN, INFINITE].map((value, i) => point(NOW - BigInt(i), { v: bits(value), w: f64(i) }))
    const alone = { ...point(NOW, { value: bits(STALE) }, { host: 'a' }, 'alone'), mixed: true }
    await write(life.engine, [...rows, alone], { nonFinite: true })
    await life.between()
    await exported({ measurement: 'm' })
    t.same(
      (await readParquet(join(folder, FILE))).rows,
      [2, 1, 0].map((i) => [text(NOW - BigInt(i)), 'a', null, `${i}.0`]),
    )
    const path = join(folder, 'alone.parquet')
    await exported({ measurement: 'alone', path })
    t.same((await readParquet(path)).rows, [[text(NOW), 'a', null]], 'the point stays')
  }),
  rule('what deletes and retention hide is not in the file', async (t, life, folder, exported) => {
    const of = (measurement: string) =>
      ['a', 'b', 'c'].flatMap((host, h) =>
        [3n, 1n, 0n].map((age) => point(NOW - age * HOUR, { v: f64(h) }, { host, ...(host === 'c' ? { gone: 'x' } : {}) }, measurement)),
      )
    await write(life.engine, [...of('m'), ...of('brief')], { backfill: true })
    await life.between()
    await life.engine.delete({ namespace: 'default', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' }], start: NOW - HOUR, end: NOW })
    await life.engine.delete({ namespace: 'default', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'c' }] })
    await life.between()
    t.match(await exported({ measurement: 'm' }), { rows: 5 })
    const { columns, rows } = await readParquet(join(folder, FILE))
    const host = columns.indexOf('host VARCHAR')
    t.same(
      rows.map((row) => `${row[host]} ${row[0]}`).sort(),
      [3n, 0n].map((age) => `a ${text(NOW - age * HOUR)}`).concat([3n, 1n, 0n].map((age) => `b ${text(NOW - age * HOUR)}`)),
    )
    const path = join(folder, 'brief.parquet')
    t.match(await exported({ measurement: 'brief', path }), { rows: 6 })
    await life.engine.drop('default', 'm')
    await t.rejects(exported({ measurement: 'm', path: join(folder, 'b.parquet') }), { code: 'NOT_FOUND' })
  }),
  rule('what cannot be is refused, and leaves nothing', async (t, life, folder, exported) => {
    await write(life.engine, [point(NOW, { v: f64(1) })])
    await t.rejects(exported({ measurement: 'unheard' }), { code: 'NOT_FOUND', message: /"unheard"/ })
    await t.rejects(exported({ measurement: 'm', namespace: 'other' }), { code: 'NOT_FOUND' })
    t.same(readdirSync(folder), [])
    writeFileSync(join(folder, FILE), 'kept')
    await t.rejects(exported({ measurement: 'm' }), { code: 'CONFLICT', message: /"a\.parquet": the file exists/ })
    t.equal(statSync(join(folder, FILE)).size, 4)
    const path = join(folder, 'b.parquet')
    const both = await Promise.allSettled([exported({ measurement: 'm', path }), exported({ measurement: 'm', path })])
    t.match(both, [{ status: 'fulfilled' }, { status: 'rejected', reason: { code: 'CONFLICT' } }], 'one that is being written is taken')
    await t.rejects(exported({ measurement: 'm', path: join(folder, FILE, 'c.parquet') }))
    t.same(readdirSync(folder).sort(), [FILE, 'b.parquet'])
  }),
  rule('a size is kept to by whole row groups', async (t, life, folder, exported) => {
    await write(life.engine, [point(NOW, { v: f64(1) })])
    await life.between()
    t.match(await exported({ measurement: 'm', maxBytes: 1 }), { rows: 0, truncated: true })
    t.same(await readParquet(join(folder, FILE)), { columns: ['_time TIMESTAMP_NS', 'host VARCHAR', 'v DOUBLE'], rows: [] })
    rmSync(join(folder, FILE))
    const { bytes } = await exported({ measurement: 'm' })
    rmSync(join(folder, FILE))
    t.match(await exported({ measurement: 'm', maxBytes: bytes }), { rows: 1, bytes, truncated: false }, 'one that suffices cuts nothing')
  }),
  rule('an export that is given up leaves nothing; what a crash left goes with the next', async (t, life, folder, exported) => {
    await write(
      life.engine,
      Array.from({ length: 200 }, (_, i) => point(NOW - BigInt(i), { v: f64(i) }, { host: `h${i % 20}` })),
    )
    const left = 'old.parquet.7.unfinished'
    writeFileSync(join(folder, left), 'cut off by a crash')
    writeFileSync(join(folder, 'mine.unfinished'), 'of somebody else')
    await t.rejects(exported({ measurement: 'm' }, { signal: AbortSignal.abort(new Error('enough')) }))
    const abort = new AbortController()
    const begun = exported({ measurement: 'm' }, { signal: abort.signal })
    setImmediate(() => abort.abort(new Error('enough')))
    await t.rejects(begun)
    t.notOk(existsSync(join(folder, left)))
    t.same(readdirSync(folder), ['mine.unfinished'])
    t.match(await exported({ measurement: 'm' }), { rows: 200 })
    t.same(readdirSync(folder).sort(), [FILE, 'mine.unfinished'])
  }),
]
