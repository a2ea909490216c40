/** Segment files: encodings, order, atomicity, and what another Parquet reader makes of them. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import t from 'tap'
import { realFileSystem } from '../../common/log/file-system.ts'
import { Duck, sqlText } from '../duckdb/duckdb.ts'
import { TestDatabase, type TestPoint } from '../testing/engine-state.ts'
import { EncodingChoice } from './encoding.ts'
import { segmentPath, writeSegmentFile } from './segment-file.ts'

t.test('another reader reads the values of a segment', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { scaled: 'float64', plain: 'float64', i: 'int64', b: 'bool', s: 'string' })
  const points = Array.from({ length: 5000 }, (_, n) => ({
    tags: { host: `h${n % 10}` },
    time: 1_700_000_000_000_000_000n + BigInt(n),
    fields: {
      scaled: (n * 7) / 100,
      ...(n % 3 === 0 ? { plain: Math.sqrt(n) } : {}),
      i: 9007199254740993n + BigInt(n),
      b: n % 2 === 0,
      s: n % 4 === 0 ? 'short' : 'a text of more than twelve bytes',
    },
  }))
  db.write(m, points)
  const [segment] = await db.flush()
  t.strictSame(
    segment.columns.map(({ encoding }) => encoding),
    [{ kind: 'scaled', scale: 2 }, ...Array.from({ length: 4 }, () => ({ kind: 'plain' }))],
  )
  const file = await asyncBufferFromFile(join(db.dataDir, segment.file))
  const metadata = await parquetMetadataAsync(file)
  t.equal(Number(metadata.num_rows), 5000)
  t.same(metadata.row_groups[0].columns[0].meta_data?.encodings, ['DELTA_BINARY_PACKED'], 'series numbers lie as deltas')
  // hyparquet makes a Date, without nanoseconds, of a timestamp; the raw column is what counts here.
  const rows = await parquetReadObjects({ file, compressors, parsers: { timestampFromNanoseconds: (ns: bigint) => ns } as never })
  const expected = points
    .map(({ tags, time, fields }) => ({
      _series: Number(tags.host.slice(1)),
      _time: time,
      scaled: Math.round(fields.scaled * 100),
      plain: fields.plain ?? undefined,
      i: fields.i,
      b: fields.b,
      s: fields.s,
    }))
    .sort((a, b) => a._series - b._series || Number(a._time - b._time))
  t.strictSame(
    rows.map((row) => ({ ...row, plain: row.plain ?? undefined })),
    expected,
  )
})

t.test('the example in docs/formats/segments.md is what a flush writes', async (t) => {
  const page = readFileSync(new URL('../../../docs/formats/segments.md', import.meta.url), 'utf8')
  const block = (name: string): Record<string, unknown>[] => JSON.parse(new RegExp(`\`\`\`json ${name}\\n([^\`]*)\`\`\``).exec(page)![1])
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { temp: 'float64', ratio: 'float64', state: 'string' })
  db.write(
    m,
    block('points').map((point) => ({ ...(point as unknown as TestPoint), time: BigInt(point.time as string) })),
  )
  const [segment] = await db.flush()
  t.ok(page.includes(`\`${segment.file}\``))
  t.strictSame(segment.columns[0].encoding, { kind: 'scaled', scale: 2 })
  const rows = await parquetReadObjects({
    file: await asyncBufferFromFile(join(db.dataDir, segment.file)),
    compressors,
    parsers: { timestampFromNanoseconds: (ns: bigint) => ns } as never,
  })
  t.strictSame(
    rows.map((row) => ({ ...row, _time: String(row._time), ratio: row.ratio ?? null, state: row.state ?? null })),
    block('rows'),
  )
})

t.test('a scale is chosen only when every value comes back bit for bit', async (t) => {
  const choose = (values: number[]) => {
    const choice = new EncodingChoice()
    do {
      if (!choice.offer(Float64Array.from(values), 0, values.length, undefined)) break
    } while (!choice.settled())
    return choice.result()
  }
  t.strictSame(choose([1, 2, 3]), { kind: 'scaled', scale: 0 })
  t.strictSame(choose([]), { kind: 'scaled', scale: 0 })
  t.strictSame(choose([1, 2.5, 3.25]), { kind: 'scaled', scale: 2 })
  t.strictSame(choose([0.1 + 0.2]), { kind: 'plain' })
  t.strictSame(choose([0, -0]), { kind: 'plain', negativeZero: true }, 'the sign of zero is not lost')
  t.strictSame(choose([Math.PI, 1, -0]), { kind: 'plain', negativeZero: true })
  t.strictSame(choose([2 ** 31]), { kind: 'scaled', scale: 0, wide: true })
  t.strictSame(choose([-(2 ** 31) + 1]), { kind: 'scaled', scale: 0 })
  t.strictSame(choose([2 ** 53]), { kind: 'plain' })
  t.strictSame(choose([1e300, 1]), { kind: 'plain' })
  t.strictSame(choose([2 ** 50, 0.001]), { kind: 'plain' }, 'a later value raises the scale over what an earlier one bears')
  for (let i = 0; i < 2000; i++) {
    const digits = i % 10
    const values = Array.from({ length: 20 }, () => Math.round((Math.random() - 0.5) * 1e6) / 10 ** digits)
    const chosen = choose(values)
    if (chosen.kind !== 'scaled') continue
    const power = 10 ** chosen.scale
    if (!values.every((v) => Object.is(Math.round(v * power) / power, v))) t.fail(`${values} at scale ${chosen.scale}`)
  }
})

t.test('a failed write leaves no file behind', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const path = segmentPath(1, -1n)
  t.equal(path, 'segments/shard_-1/0000000001.parquet', 'the hour is rounded down before the epoch too')
  await t.rejects(
    writeSegmentFile(db.dataDir, path, async () => {
      throw new Error('disk')
    }),
    /disk/,
  )
  t.strictSame(readdirSync(join(db.dataDir, 'segments/shard_-1')), [])
})

t.test('what a flush has written is durable, and so are its names, before the flush has ended', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const hours = [0n, 1n, 1n].map((hour) => 1_700_000_000_000_000_000n + hour * 3_600_000_000_000n)
  for (const [i, time] of hours.entries()) db.write(db.measurement(`m${i}`, { a: 'float64', b: 'float64' }), [{ time, fields: { a: i, b: i } }])
  const calls: string[] = []
  const { promises } = realFileSystem
  const { open, rename } = promises
  t.teardown(() => Object.assign(promises, { open, rename }))
  const recording: Pick<typeof promises, 'open' | 'rename'> = {
    open: async (path, flags) => {
      const file = await open(path, flags)
      const sync = file.sync.bind(file)
      return Object.assign(file, {
        async sync() {
          await sync()
          calls.push(`sync ${path}`)
        },
      })
    },
    rename: async (from, to) => {
      await rename(from, to)
      calls.push(`rename ${to}`)
    },
  }
  Object.assign(promises, recording)
  const added = await db.flush()
  t.equal(new Set(added.map(({ file }) => dirname(file))).size, 2)
  for (const file of added.map(({ file }) => join(db.dataDir, file))) {
    const named = calls.indexOf(`rename ${file}`)
    t.ok(calls.indexOf(`sync ${file}.tmp`) >= 0 && calls.indexOf(`sync ${file}.tmp`) < named, 'its bytes before it has its name')
    t.ok(calls.lastIndexOf(`sync ${dirname(file)}`) > named, 'its name')
  }
})

t.test('many tables with few rows are flushed together, or not at all', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const time = 1_700_000_000_000_000_000n
  const measurements = Array.from({ length: 60 }, (_, i) => db.measurement(`m${i}`, { a: 'float64', b: 'string' }))
  const write = () => {
    for (const [i, measurement] of measurements.entries()) {
      const rows = i % 20 === 0 ? 3000 : 3
      db.write(
        measurement,
        Array.from({ length: rows }, (_, row) => ({ tags: { host: 'a' }, time: time + BigInt(row), fields: { a: i + row, b: `t${i}` } })),
      )
    }
  }
  write()
  const added = await db.flush()
  t.same(
    added.map(({ id, table, rows }) => [id, table, rows]),
    measurements.map(({ table }, i) => [i + 1, table.id, i % 20 === 0 ? 3000 : 3]),
  )
  const { duck } = await db.context()
  for (const [i, { file, crc, bytes }] of added.entries()) {
    const path = join(db.dataDir, file)
    const content = readFileSync(path)
    t.equal(content.length, bytes)
    t.equal(crc32(content), crc)
    t.strictSame(await duck.run(`SELECT min(b) AS b, sum(a)::DOUBLE AS a FROM read_parquet(${sqlText(path)})`), [
      { b: `t${i}`, a: added[i].rows * i + (added[i].rows * (added[i].rows - 1)) / 2 },
    ])
  }
  const folder = dirname(join(db.dataDir, added[0].file))
  const before = readdirSync(folder).sort()
  write()
  const { run } = duck
  t.teardown(() => Object.assign(duck, { run }))
  let statements = 0
  let underWay = 0
  duck.run = async (...args) => {
    const turn = statements++
    if (turn === 33) throw new Error('disk')
    underWay++
    if (turn === 32) await sleep(500)
    return run.apply(duck, args).finally(() => underWay--)
  }
  const id = db.freeze()
  await t.rejects(db.flush(id), /disk/)
  t.equal(underWay, 0, 'no other table is being written any more, whose file would stay')
  t.strictSame(readdirSync(folder).sort(), before)
  duck.run = run
  t.equal((await db.flush(id)).length, 60, 'the next try writes them all')
})

t.test('the instance reaches no file outside its directories, and its settings are locked', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const duck = new Duck(db.config, db.dataDir)
  for (const sql of [
    `SELECT * FROM read_text('/etc/hostname')`,
    `SELECT * FROM read_csv('/etc/passwd')`,
    `COPY (SELECT 1) TO '/tmp/svc-must-not-exist.csv'`,
    `ATTACH '/tmp/svc-must-not-exist.db'`,
    `SELECT * FROM glob('/etc/*')`,
    'INSTALL httpfs',
  ]) {
    await t.rejects(duck.run(sql), /disabled|Permission/i, sql)
  }
  for (const sql of [`SET enable_external_access = true`, `SET memory_limit = '10GB'`, `RESET lock_configuration`])
    await t.rejects(duck.run(sql), /locked|configuration/i, sql)
  duck.close()
})

t.test('a statement that needs too much memory fails with a reason, and the next one runs', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const duck = new Duck({ ...db.config, memoryLimitBytes: 64e6 }, db.dataDir)
  await t.rejects(duck.run(`SELECT length(list(i::VARCHAR || 'some more text to fill memory')::VARCHAR) FROM range(10000000) r(i)`), { code: 'OVERLOADED' })
  t.strictSame(await duck.run('SELECT 1 AS one'), [{ one: 1 }])
  duck.close()
})

t.test('no connection makes more of a streamed result ahead than a little', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const duck = new Duck(db.config, db.dataDir)
  const connections = [await duck.connect(), await duck.connect(), await duck.connect()]
  for (const connection of connections) {
    const settings = await connection.runAndReadAll(`SELECT current_setting('streaming_buffer_size')`)
    t.strictSame(settings.getRows(), [['125.0 KiB']])
  }
  await t.rejects(duck.run(`SET allowed_configs = []`), /locked|configuration/i)
  for (const connection of connections) duck.release(connection, true)
  duck.close()
})
