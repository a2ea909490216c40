/** Memtables, segments, merges and scans against a plain map of points. */

import { ownedBy } from 'svcdb/lib/event-loop'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { compactSegments } from '../compaction/compactor.ts'
import { type SegmentGate, UnverifiedSegments } from '../segment/verify.ts'
import { collect, TestDatabase, type TestMeasurement, type TestPoint } from '../testing/engine-state.ts'
import { EngineReader } from './reader.ts'
import { type RelationContext, relation } from './relation.ts'

const ALL: [bigint, bigint] = [-(2n ** 63n), 2n ** 63n - 1n]
const SPEC = { f: 'float64', i: 'int64', u: 'uint64', b: 'bool', s: 'string', d: { decimal: 3 }, h: 'histogram' } as const

/** The points as they must read: one a series and time, later fields over earlier ones. */
class Model {
  private readonly points = new Map<string, { tags: Record<string, string>; time: bigint; fields: Record<string, unknown> }>()

  add(points: readonly TestPoint[]): void {
    for (const { tags = {}, time, fields } of points) {
      const key = `${JSON.stringify(tags)} ${time}`
      const known = this.points.get(key)
      this.points.set(key, { tags, time, fields: { ...known?.fields, ...fields } })
    }
  }

  rows(
    filter: (tags: Record<string, string>, time: bigint) => boolean = () => true,
  ): { tags: Record<string, string>; time: bigint; fields: Record<string, unknown> }[] {
    return sorted([...this.points.values()].filter(({ tags, time }) => filter(tags, time)))
  }
}

function sorted<T extends { tags: Record<string, string>; time: bigint }>(rows: T[]): T[] {
  return rows.sort((a, b) => {
    const [x, y] = [JSON.stringify(a.tags), JSON.stringify(b.tags)]
    return x < y ? -1 : x > y ? 1 : a.time < b.time ? -1 : 1
  })
}

function randomPoints(rnd: () => number, n: number, now: number): TestPoint[] {
  const pick = (count: number) => Math.floor(rnd() * count)
  return Array.from({ length: n }, (_, i) => {
    const fields: TestPoint['fields'] = {}
    if (rnd() < 0.8) fields.f = rnd() < 0.5 ? pick(1000) / 100 : rnd()
    if (rnd() < 0.5) fields.i = BigInt(pick(1000)) - 9007199254740993n * 900n
    if (rnd() < 0.3) fields.u = 18446744073709551615n - BigInt(pick(10))
    if (rnd() < 0.3) fields.b = rnd() < 0.5
    if (rnd() < 0.3) fields.s = ['ok', 'é', 'a text of more than twelve bytes', ''][pick(4)]
    if (rnd() < 0.3) fields.d = BigInt(pick(100000)) * 10n ** 30n - 5n
    if (rnd() < 0.1 || Object.keys(fields).length === 0) fields.h = Uint8Array.from({ length: pick(40) }, () => pick(256))
    const late = rnd() < 0.2 ? pick(50) : 0
    return {
      tags: { host: `h${pick(5)}`, ...(rnd() < 0.5 ? { zone: 'a very long zone name' } : {}) },
      time: BigInt(Math.max(0, now + i - late)) * 1_000_000_007n,
      fields,
    }
  })
}

async function readAll(db: TestDatabase, request: object = {}): Promise<{ tags: Record<string, string>; time: bigint; fields: Record<string, unknown> }[]> {
  const reader = await EngineReader.open(await db.context())
  const rows = await collect(reader.scan({ namespace: 'default', measurement: 'm', ...request }))
  reader.close()
  return sorted(rows)
}

/** The same by SQL over the relation. */
async function readSql(
  db: TestDatabase,
  enumTags: string[] = [],
  held?: RelationContext,
): Promise<{ tags: Record<string, string>; time: bigint; fields: Record<string, unknown> }[]> {
  const context = held ?? (await db.context())
  const def = db.state.measurement('default', 'm')!
  const { sql, calls } = relation(context, db.state.snapshotNow()!, { measurement: def, time: ALL, enumTags })
  const rows = await context.duck.run(`SELECT * REPLACE (epoch_ns(_time) AS _time) FROM (${sql})`)
  for (const call of calls) context.duck.removeSource(call)
  const tagNames = db.state.series.tagKeys(def.id)
  return sorted(
    rows.map((row) => {
      const tags: Record<string, string> = {}
      for (const name of tagNames) if (row[name] !== null) tags[name] = row[name] as string
      const fields: Record<string, unknown> = {}
      for (const { name, type } of def.fields) {
        const value = row[name] as { bytes: Uint8Array; value: bigint } | null
        if (value !== null) fields[name] = type === 'histogram' ? new Uint8Array(value.bytes) : type === 'decimal' ? value.value : value
      }
      return { tags, time: row._time as bigint, fields }
    }),
  )
}

t.test('reads equal the model across memtables, segments and compactions', async (t) => {
  for (const seed of [1, 2, 3]) {
    const db = new TestDatabase()
    t.teardown(() => db.close())
    const rnd = seeded(seed)
    const m = db.measurement('m', SPEC)
    const model = new Model()
    const write = (n: number, now: number): void => {
      const points = randomPoints(rnd, n, now)
      db.write(m, points)
      model.add(points)
    }
    const check = async (what: string): Promise<void> => {
      const expected = model.rows()
      t.strictSame(await readAll(db), expected, `scan, ${what}, seed ${seed}`)
      t.strictSame(await readSql(db), expected, `sql, ${what}, seed ${seed}`)
    }
    write(300, 0)
    write(400, 280)
    await check('one memtable')
    db.freeze()
    write(100, 600)
    await check('two memtables')
  }
})

t.test('tags as ENUM are right after series were given back and others came', async (t) => {
  for (const seed of [1, 2]) {
    const db = new TestDatabase()
    t.teardown(() => db.close())
    const rnd = seeded(seed)
    const m = db.measurement('m', { f: 'float64' })
    const held = await db.context()
    const live = new Map<string, number>()
    const host = (n: number): Record<string, string> => ({ host: `h${n}`, ...(n % 3 === 0 ? { zone: `z${n}` } : {}) })
    for (let n = 0; n < 40; n++) {
      live.set(JSON.stringify(host(n)), db.series(m, host(n)))
      db.write(m, [{ tags: host(n), time: BigInt(n), fields: { f: n } }])
      if (live.size > 2 && rnd() < 0.5) {
        const gone = [...live].filter(() => rnd() < 0.3)
        db.release(gone.map(([, series]) => series))
        for (const [tags] of gone) live.delete(tags)
      }
      if (live.size === 0 || rnd() < 0.5) continue
      const found = (await readSql(db, ['host', 'zone'], held)).map(({ tags }) => JSON.stringify(tags))
      t.strictSame(found.sort(), [...live.keys()].sort(), `after ${n + 1} series, seed ${seed}`)
    }
  }
})

/** Random points in three segments and a memtable, some of them in two. */
async function inFourParts(db: TestDatabase, m: TestMeasurement, rnd: () => number): Promise<Model> {
  const model = new Model()
  for (let round = 0; round < 4; round++) {
    const points = randomPoints(rnd, 200, round * 190)
    db.write(m, points)
    model.add(points)
    if (round < 3) await db.flush()
  }
  return model
}

t.test('segments and memtables merge in the order of writing', async (t) => {
  for (const seed of [4, 5, 6, 7]) {
    // With little memory a scan sorts the rows of some series at a time.
    const db = new TestDatabase(seed % 2 === 0 ? {} : { memoryLimitBytes: 40_000 })
    t.teardown(() => db.close())
    const rnd = seeded(seed)
    const m = db.measurement('m', SPEC)
    const model = await inFourParts(db, m, rnd)
    t.strictSame(await readAll(db), model.rows(), 'scan over three segments and a memtable')
    t.strictSame(await readSql(db), model.rows(), 'sql over the same')
    t.strictSame(await readSql(db, ['host', 'zone']), model.rows(), 'with tags as ENUM')
    const [lo, hi] = [150n * 1_000_000_007n, 420n * 1_000_000_007n]
    t.strictSame(
      await readAll(db, {
        start: lo,
        end: hi,
        matchers: [
          { tag: 'host', op: '=~', value: 'h[12]' },
          { tag: 'zone', op: '=', value: '' },
        ],
      }),
      model.rows((tags, time) => time >= lo && time < hi && (tags.host === 'h1' || tags.host === 'h2') && tags.zone === undefined),
      'a range and matchers',
    )
    const inputs = db.state.snapshotNow()!.table(m.table.id).segments
    const merged = await compactSegments(
      inputs,
      { table: m.table.id, segments: inputs.map((s) => s.id), segment: 100, sequence: 3, level: 1, deduplicate: true, dirty: null, cleared: 0 },
      await db.target(),
      { measurement: m.def.id, removals: db.state },
    )
    db.publish({ kind: 'segments', added: [merged!], removed: inputs.map((s) => s.id), droppedMemtable: -1 })
    t.strictSame(await readAll(db), model.rows(), 'scan after compaction')
    t.strictSame(await readSql(db), model.rows(), 'sql after compaction')
  }
})

t.test('the earliest rows of all series come without those that lie far behind them', async (t) => {
  for (const seed of [8, 9]) {
    const db = new TestDatabase()
    t.teardown(() => db.close())
    const rnd = seeded(seed)
    const m = db.measurement('m', SPEC)
    const model = await inFourParts(db, m, rnd)
    const a = db.series(m, { host: 'h1' })
    db.publish({
      kind: 'tombstones',
      added: [{ id: 1, measurement: m.def.id, sequence: db.memtable.sequence, series: Int32Array.of(a), start: ALL[0], end: 100n * 1_000_000_007n }],
      removed: [],
    })
    const isLeft = ({ host, zone }: Record<string, string>, time: bigint): boolean => host !== 'h1' || zone !== undefined || time > 100n * 1_000_000_007n
    for (const [fields, tag] of [
      [undefined, undefined],
      [['h'], undefined],
      [undefined, 'h1'],
    ] as const)
      for (const earliest of [1, 12, 60, 10_000]) {
        const reader = await EngineReader.open({ ...(await db.context()), firstSliceRows: 10 })
        const matchers = tag === undefined ? [] : [{ tag: 'host', op: '=' as const, value: tag }]
        const rows = await collect(
          reader.scan({ namespace: 'default', measurement: 'm', matchers, earliest, ...(fields === undefined ? {} : { fields: [...fields] }) }),
        )
        reader.close()
        const all = model
          .rows((tags, time) => isLeft(tags, time) && (tag === undefined || tags.host === tag))
          .map((row) => (fields === undefined ? row : { ...row, fields: 'h' in row.fields ? { h: row.fields.h } : {} }))
          .filter((row) => Object.keys(row.fields).length > 0)
        const last = rows.reduce((latest, { time }) => (time > latest ? time : latest), ALL[0])
        const what = `${earliest} rows of ${fields ?? 'all fields'}, ${tag ?? 'all hosts'}, seed ${seed}`
        t.strictSame(
          sorted(rows),
          all.filter(({ time }) => time <= last),
          what,
        )
        t.ok(rows.length >= Math.min(earliest, all.length), `${what}: ${rows.length} of ${all.length}`)
        if (earliest === 1) t.ok(rows.length * 2 < all.length, `${what}: ${rows.length} of ${all.length}`)
      }
  }
})

t.test('times that DuckDB has no constants of are stored twice, and deleted beside others', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { f: 'float64' })
  const [first, last] = [-(2n ** 63n) + 2n, -9_223_286_400_000_000_000n]
  const times = [first, first + 1n, last - 1n, last, 5n]
  const points = (f: number): TestPoint[] => times.flatMap((time) => ['a', 'b', 'c'].map((host) => ({ tags: { host }, time, fields: { f } })))
  db.write(m, points(1))
  await db.flush()
  db.write(m, points(2))
  await db.flush()
  const model = new Model()
  model.add(points(2))
  t.strictSame(await readSql(db), model.rows(), 'written again')
  const [a, b] = ['a', 'b'].map((host) => db.series(m, { host }))
  const tombstone = (id: number, series: number, start: bigint, end: bigint) => ({
    id,
    measurement: m.def.id,
    sequence: db.memtable.sequence,
    series: Int32Array.of(series),
    start,
    end,
  })
  db.publish({ kind: 'tombstones', added: [tombstone(1, a, first, first), tombstone(2, b, ALL[0], last - 1n)], removed: [] })
  const left = model.rows(({ host }, time) => !(host === 'a' && time === first) && !(host === 'b' && time < last))
  t.strictSame(await readSql(db), left, 'deleted in part')
  t.strictSame(await readAll(db), left)
})

t.test('measurements that share a table stay apart', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const a = db.measurement('m', { value: 'float64' }, { shared: 7 })
  const b = db.measurement('other', { value: 'float64' }, { shared: 7 })
  const model = new Model()
  for (let round = 0; round < 3; round++) {
    const points = Array.from({ length: 50 }, (_, i) => ({ tags: { host: `h${i % 3}` }, time: BigInt(round * 50 + i), fields: { value: i / 4 } }))
    db.write(a, points)
    db.write(
      b,
      points.map((point) => ({ ...point, fields: { value: -1 } })),
    )
    model.add(points)
    if (round < 2) await db.flush()
  }
  t.strictSame(await readAll(db), model.rows())
  t.strictSame(await readSql(db), model.rows())
  const inputs = db.state.snapshotNow()!.table(7).segments
  t.equal(inputs.length, 2)
  const merged = await compactSegments(
    inputs,
    { table: 7, segments: [1, 2], segment: 100, sequence: 2, level: 1, deduplicate: false, dirty: null, cleared: 0 },
    await db.target(),
    { measurement: undefined, removals: db.state },
  )
  t.equal(merged?.rows, 200)
  db.publish({ kind: 'segments', added: [merged!], removed: [1, 2], droppedMemtable: -1 })
  t.strictSame(await readAll(db), model.rows(), 'after compaction')

  // The measurement grows a second field and moves to a table of its own.
  await db.flush()
  const grown = db.measurement('m', { value: 'float64', more: 'int64' })
  const late: TestPoint[] = [
    { tags: { host: 'h0' }, time: 3n, fields: { more: 5n } },
    { tags: { host: 'h0' }, time: 900n, fields: { value: 1.5, more: 6n } },
  ]
  db.write(grown, late)
  model.add(late)
  t.strictSame(await readAll(db), model.rows(), 'rows in both tables')
  t.strictSame(await readSql(db), model.rows(), 'by sql')
})

t.test('SQL over memtable and segments, with tag hints and an early end', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { value: 'float64', note: 'string' })
  const write = (from: number) =>
    db.write(
      m,
      Array.from({ length: 5000 }, (_, i) => ({
        tags: { host: `h${i % 5}`, ...(i % 2 === 0 ? { zone: 'z' } : {}) },
        time: BigInt(from + i),
        fields: { value: i / 4, note: `note ${i}` },
      })),
    )
  write(0)
  await db.flush()
  write(5000)
  const context = await db.context()
  const ask = async (query: string): Promise<unknown[][]> => {
    const reader = await EngineReader.open(context)
    try {
      const rows: unknown[][] = []
      const cursor = await reader.sql({ namespace: 'default', query })
      for await (const chunk of cursor)
        for (let i = 0; i < chunk.rows; i++) rows.push(chunk.columns.map(({ values, validity }) => (validity?.[i] === 0 ? null : values[i])))
      return rows
    } finally {
      reader.close()
    }
  }
  t.strictSame(await ask('SELECT count(*), min(_time), max(_time) FROM m'), [[10000n, 0n, 9999n]])
  t.strictSame(await ask(`SELECT host, count(*) FROM m WHERE host = 'h3' AND _time >= 4000 AND _time < 6000 GROUP BY host`), [['h3', 400n]])
  t.strictSame(await ask(`SELECT zone, count(*) FROM m GROUP BY zone ORDER BY zone NULLS FIRST`), [
    [null, 5000n],
    ['z', 5000n],
  ])
  t.strictSame(await ask(`SELECT note FROM m WHERE host IN ('h1', 'none') AND _time IN (6, 7)`), [['note 6']])
  t.strictSame(await ask(`SELECT count(*) FROM m WHERE host = 'none'`), [[0n]])
  await t.rejects(ask(`SELECT * FROM svc_source('0')`), { code: 'SQL_ERROR' }, 'row sources are out of reach')

  const reader = await EngineReader.open(context)
  for await (const chunk of reader.scan({ namespace: 'default', measurement: 'm' })) {
    t.ok(chunk.times.length > 0)
    break
  }
  await reader.sql({ namespace: 'default', query: 'SELECT * FROM m' }) // never read
  const cursor = await reader.sql({ namespace: 'default', query: 'SELECT * FROM m' })
  for await (const _ of cursor) break
  reader.close()
  t.strictSame(await ask('SELECT count(*) FROM m'), [[10000n]], 'statements that were left do no harm')
  t.throws(() => reader.scan({ namespace: 'default', measurement: 'none' }), { code: 'NOT_FOUND', message: /does not exist in namespace "default"/ })
  t.throws(() => reader.scan({ namespace: '', measurement: 'none' }), { code: 'NOT_FOUND', message: /does not exist; write a point/ })
})

t.test('a job that finds no memory beside one of its namespace goes on when that one ends, and one of another at once', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { value: 'float64' })
  db.write(m, [{ time: 1n, fields: { value: 1 } }])
  await db.flush()
  const context = await db.context()
  context.duck.memory = async () => Number.MAX_SAFE_INTEGER
  const query = 'SELECT count(*) + median(value) FROM m'
  const begin = (namespace: string): Promise<{ done: Promise<number>; reader: EngineReader }> =>
    ownedBy(namespace, async () => {
      const reader = await EngineReader.open(context, new AbortController().signal)
      const rows = async (): Promise<number> => {
        let count = 0
        for await (const chunk of await reader.sql({ namespace: 'default', query })) count += chunk.rows
        return count
      }
      return { done: rows(), reader }
    })
  const first = await begin('a')
  t.equal(await first.done, 1)
  const second = await begin('a')
  let ended = false
  void second.done.then(() => {
    ended = true
  })
  const other = await begin('b')
  t.equal(await other.done, 1)
  other.reader.close()
  t.notOk(ended)
  first.reader.close()
  t.equal(await second.done, 1)
  second.reader.close()
})

t.test('segments that are not verified yet, or lie elsewhere, are fetched when rows are asked for, not to tell the columns', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { value: 'float64', n: 'int64' })
  db.write(m, [{ tags: { host: 'a' }, time: 5n, fields: { value: 1.5, n: 7n } }])
  await db.flush()
  let ensured = 0
  const verifier: SegmentGate = {
    require(sources) {
      const segments = sources.flatMap(({ segment }) => segment ?? [])
      if (ensured === 0 && segments.length > 0) throw new UnverifiedSegments(segments)
    },
    async ensure(segments) {
      ensured += segments.length
    },
    async ensureSources() {},
  }
  const reader = await EngineReader.open({ ...(await db.context()), verifier })
  t.teardown(() => reader.close())
  const query = 'SELECT _time, host, value, n + 1 AS n FROM m WHERE n > ?'
  const open = await reader.sql({ namespace: 'default', query })
  const cursor = await reader.sql({ namespace: 'default', query, parameters: [5n], textBytes: true })
  const types = ['Timestamp(ns)', 'Utf8', 'Float64', 'Int64']
  t.strictSame([open.columns.map(({ type }) => type), open.parameters], [types, ['Int64']])
  t.strictSame(
    cursor.columns.map(({ type }) => type),
    types,
  )
  await t.rejects(open[Symbol.asyncIterator]().next(), { code: 'SQL_ERROR' })
  t.equal(ensured, 0)
  const rows: unknown[] = []
  for await (const { columns } of cursor) rows.push(columns[0].values[0], columns[2].values[0], columns[3].values[0])
  t.strictSame(rows, [5n, 1.5, 8n])
  t.equal(ensured, 1)
})

t.test('a tag may have the name of a field or of the time', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const m = db.measurement('m', { Host: 'float64' })
  db.write(m, [{ tags: { host: 'a', _time: 'b', host_tag: 'c' }, time: 5n, fields: { Host: 1.5 } }])
  const reader = await EngineReader.open(await db.context())
  const cursor = await reader.sql({ namespace: 'default', query: 'SELECT * FROM m' })
  const chunks = []
  for await (const chunk of cursor) chunks.push(chunk)
  const [chunk] = chunks
  t.strictSame(
    cursor.columns.map(({ name }, i) => [name, chunk.columns[i].values[0]]),
    [
      ['_time', 5n],
      ['_time_tag', 'b'],
      ['host_tag', 'a'],
      ['host_tag_tag', 'c'],
      ['Host', 1.5],
    ],
  )
  reader.close()
})
