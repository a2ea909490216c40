/** Samples read through blocks, against a plain model: chunks, memtables, segments, merges, deletes and retention in any order. */

import { SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleRequest, type SampleRows, type SampleSet, type StoredRows } from 'svcdb/lib/columns'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { type FieldSpec, TestDatabase, type TestMeasurement, type TestPoint } from '../../testing/engine-state.ts'
import { TestSegments } from '../../testing/test-segments.ts'
import type { Snapshot } from '../../threads/state.ts'
import type { RelationContext } from '../relation.ts'
import { selectActive, selectSamples } from './select.ts'
import { SampleBlocks } from './source-blocks.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const MS = 1_000_000n
const START = 1_700_000_000_000n * MS
const SPEC: FieldSpec = { f: 'float64', i: 'int64', u: 'uint64', b: 'bool', d: { decimal: 2 }, h: 'histogram' }
const FIELDS = Object.keys(SPEC)
const FIRST = -(2n ** 63n)
const STALE = 0x7ff0000000000002n

/** How floats lie in segments: as integers of 8 to 64 bits, as doubles; among them what is not finite, or -0. */
interface Floats {
  value(random: Random): number
  odd: readonly (number | bigint)[]
}

function randomFloats(random: Random): Floats {
  const kinds: Floats['value'][] = [
    (r) => r.below(100_000) / 100,
    (r) => (r.below(1000) - 500) * 2 ** 40 + 1,
    (r) => r.next(),
    (r) => r.below(3),
    (r) => r.below(2000) / 10 - 100,
  ]
  return { value: random.pick(kinds), odd: random.pick([[], [], [STALE, Number.NaN, Number.NEGATIVE_INFINITY], [-0]]) }
}

/** How far integers are from zero, and the least unsigned ones. */
const INTEGERS = [100, 128, 30_000, 2 ** 31, 2 ** 40]
const UNSIGNED = [0n, 2n ** 32n - 500n, 2n ** 63n, 2n ** 64n - 1000n]

/** A sample as text, so that answers can be compared whole. */
type Line = string
type Point = { time: bigint; values: Map<string, { text: string; write: number }> }

/** A database whose blocks have little room, beside what a reader must find in it. */
class Subject {
  readonly db = new TestDatabase()
  readonly blocks: SampleBlocks
  measurement: TestMeasurement
  /** Points of each series, by time. */
  points = new Map<number, Map<bigint, Point>>()
  readonly segments: TestSegments
  private tombstones = 0
  private writes = 0
  private cutoff = FIRST

  constructor(cacheBytes: number) {
    this.blocks = new SampleBlocks(cacheBytes)
    this.segments = new TestSegments(this.db, (removed, dropped) => this.blocks.forget(removed, dropped))
    // Its rows lie in a table shared with others until it has a second field.
    this.measurement = this.db.measurement('m', { f: 'float64' }, { shared: 7 })
  }

  grow(): void {
    // As the engine does: a series keeps its rows in one table of a memtable.
    this.segments.freeze()
    this.measurement = this.db.measurement('m', SPEC)
  }

  async context(): Promise<RelationContext> {
    return { ...(await this.db.context()), sampleBlocks: this.blocks }
  }

  write(points: readonly TestPoint[]): void {
    this.db.write(this.measurement, points)
    for (const { tags = {}, time, fields } of points) {
      const series = this.db.series(this.measurement, tags)
      const own = this.points.get(series) ?? new Map<bigint, Point>()
      this.points.set(series, own)
      const point = own.get(time) ?? { time, values: new Map() }
      own.set(time, point)
      for (const [name, value] of Object.entries(fields)) point.values.set(name, { text: textOf(name, value), write: this.writes++ })
    }
  }

  compact(): Promise<void> {
    const table = this.segments.all.at(-1)?.table
    return this.segments.compact(table, table === 7 ? undefined : this.measurement.def.id, this.tombstones)
  }

  /** @param series all when null. Bounds are inclusive. */
  delete(series: number[] | null, start: bigint, end: bigint): void {
    if (series?.length === 0) return
    this.segments.freeze()
    const id = ++this.tombstones
    const { sequence } = this.db.memtable
    const list = series === null ? null : Int32Array.from(series).sort()
    this.db.publish({ kind: 'tombstones', added: [{ id, measurement: this.measurement.def.id, sequence, series: list, start, end }], removed: [] })
    for (const number of series ?? this.points.keys())
      for (const time of [...(this.points.get(number)?.keys() ?? [])]) if (time >= start && time <= end) this.points.get(number)?.delete(time)
  }

  /** Retention only moves on. */
  retain(cutoff: bigint): void {
    if (cutoff <= this.cutoff) return
    this.cutoff = cutoff
    this.segments.freeze()
    const all = { id: ++this.tombstones, cutoff, sequence: this.db.memtable.sequence, except: new Set<number>() }
    this.db.publish({ kind: 'cutoffs', cutoffs: { general: [all], own: new Map() } })
    for (const own of this.points.values()) for (const time of [...own.keys()]) if (time < cutoff) own.delete(time)
  }

  release(series: number): void {
    this.delete([series], FIRST, 2n ** 63n - 1n)
    this.points.delete(series)
    this.db.release([series])
  }

  /** What a reader that starts now has to find. */
  expected({ field, start = FIRST, end = 2n ** 63n - 1n, newestOnly }: SampleRequest, among: (tags: Record<string, string>) => boolean): Line[] {
    const out: Line[] = []
    for (const [series, own] of this.points) {
      const tags = this.db.state.series.tags(series)
      if (!among(tags)) continue
      const newest = new Map<number, string>()
      const inRange = [...own.values()].filter(({ time, values }) => time >= start && time < end && values.has(field))
      for (const { time, values } of inRange.sort((a, b) => Number(a.time - b.time)))
        newest.set(Number((time - (((time % MS) + MS) % MS)) / MS), values.get(field)?.text as string)
      out.push(...[...newest].slice(newestOnly ? -1 : 0).map(([ms, text]) => `${series} ${ms} ${text}`))
    }
    return out.sort()
  }

  close(): void {
    this.db.close()
  }
}

function textOf(field: string, value: TestPoint['fields'][string]): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  if (field === 'f' && typeof value === 'bigint') return value === STALE ? 'stale' : textOf(field, new Float64Array(BigInt64Array.of(value).buffer)[0])
  return numberText(field === 'd' ? Number(value) / 100 : Number(value), field)
}

/** Of decimals not the last digits, which are rounded. */
function numberText(value: number, field: string): string {
  return Object.is(value, -0) ? '-0' : value.toPrecision(field === 'd' ? 12 : 17)
}

function linesOf({ series }: SampleSet, { first, starts, times, values, kinds, histograms }: SampleRows, field: string): Line[] {
  const out: Line[] = []
  for (let s = 0; s + 1 < starts.length; s++)
    for (let i = starts[s]; i < starts[s + 1]; i++) {
      if (i > starts[s] && times[i] <= times[i - 1]) throw new Error(`times of series ${series[first + s]} do not ascend`)
      const stale = kinds?.[i] === SAMPLE_STALE
      const text = kinds?.[i] === SAMPLE_HISTOGRAM ? Buffer.from(histograms?.[i] as Uint8Array).toString('hex') : stale ? 'stale' : numberText(values[i], field)
      out.push(`${series[first + s]} ${times[i]} ${text}`)
    }
  return out
}

async function read(context: RelationContext, snapshot: Snapshot, request: SampleRequest): Promise<Line[]> {
  const set = await selectSamples(context, snapshot, request, undefined)
  const out: Line[] = []
  let next = 0
  for await (const rows of set.blocks()) {
    if (rows.first < next) throw new Error(`a block begins with series ${rows.first}, the one before ended with ${next}`)
    next = rows.first + rows.starts.length - 1
    out.push(...linesOf(set, rows, request.field))
  }
  return out.sort()
}

/** The same samples where they are stored. */
async function readStored(context: RelationContext, snapshot: Snapshot, request: SampleRequest): Promise<Line[]> {
  const set = await selectSamples(context, snapshot, request, undefined)
  const out: Line[] = []
  for await (const rows of set.stored?.() ?? set.blocks()) {
    if ('runs' in rows) found.stored += rows.runs.length / 3
    out.push(...linesOf(set, 'runs' in rows ? gatheredOf(rows) : rows, request.field))
  }
  return out.sort()
}

/** Runs that readers were given where they are stored. */
const found = { stored: 0 }

function gatheredOf({ first, starts, runs, stored }: StoredRows): SampleRows {
  const times: number[] = []
  const values: number[] = []
  const rows: SampleRows = { first, starts: new Int32Array(starts.length), times: new Float64Array(0), values: new Float64Array(0) }
  for (let s = 0; s + 1 < starts.length; s++) {
    for (let r = starts[s]; r < starts[s + 1]; r++) {
      const [place, from, to] = runs.subarray(r * 3)
      if (from >= to) throw new Error('a run is empty')
      const { times: own, values: numbers, divisor = 1 } = stored[place]
      for (let i = from; i < to; i++) {
        times.push(own[i])
        values.push(numbers[i] / divisor)
      }
    }
    rows.starts[s + 1] = times.length
  }
  return { ...rows, times: Float64Array.from(times), values: Float64Array.from(values) }
}

function histogram(random: Random): Uint8Array {
  return Uint8Array.from({ length: 1 + random.below(30) }, () => random.below(256))
}

function randomPoints(random: Random, hosts: number, names: readonly string[], floats: Floats = randomFloats(random)): TestPoint[] {
  const from = random.below(2000)
  const exact = random.chance(0.7)
  const width = 1 + random.below(random.chance(0.2) ? 2000 : 60)
  const size = random.pick(INTEGERS)
  const least = random.pick(UNSIGNED)
  return Array.from({ length: 1 + random.below(random.chance(0.2) ? 3000 : 200) }, (): TestPoint => {
    const fields: TestPoint['fields'] = {}
    for (const name of names) {
      if (names.length > 1 && random.chance(0.4)) continue
      if (name === 'f') fields.f = floats.odd.length > 0 && random.chance(0.1) ? random.pick(floats.odd) : floats.value(random)
      if (name === 'i') fields.i = BigInt(Math.round((random.next() * 2 - 1) * size))
      if (name === 'u') fields.u = least + BigInt(random.below(1000)) * (least === 2n ** 63n ? 2n ** 40n : 1n)
      if (name === 'b') fields.b = random.chance(0.5)
      if (name === 'd') fields.d = BigInt(random.below(10_000)) - 5000n
      if (name === 'h') fields.h = histogram(random)
    }
    if (Object.keys(fields).length === 0) fields.f = 1
    const beyond = exact ? 0n : BigInt(random.pick([0, 1, 999_999]))
    return { tags: { host: `h${random.below(hosts)}` }, time: START + BigInt(from + random.below(width)) * MS + beyond, fields }
  })
}

function randomRequest(random: Random): SampleRequest {
  const start = START + BigInt(random.below(2200)) * MS
  const request: SampleRequest = { namespace: 'default', measurement: 'm', field: random.chance(0.5) ? 'f' : random.pick(FIELDS) }
  if (random.chance(0.7)) request.start = start
  if (random.chance(0.7)) request.end = start + BigInt(1 + random.below(random.chance(0.5) ? 50 : 1000)) * MS
  if (random.chance(0.3)) request.newestOnly = true
  return request
}

async function randomRun(seed: number, steps: number): Promise<number> {
  const random = new Random(seed)
  const subject = new Subject(random.pick([0, 40_000, 400_000, 8 << 20]))
  const hosts = random.pick([3, 40, 700])
  const floats = randomFloats(random)
  let names: readonly string[] = ['f']
  let compared = 0
  subject.db.config.rowGroupRows = random.pick([2048, 32_768])
  subject.db.config.compression = random.pick(['zstd', 'zstd', 'lz4', 'none'])
  /** Readers that go on while the database changes, and what they found at first. */
  let old: { context: RelationContext; snapshot: Snapshot; request: SampleRequest; lines: Line[] }[] = []
  try {
    for (let step = 0; step < steps; step++) {
      if (step === 8) {
        subject.grow()
        names = FIELDS
      }
      const dice = random.next()
      // A batch with a column that the chunk lacks begins another chunk.
      if (dice < 0.4) subject.write(randomPoints(random, hosts, random.chance(0.5) ? names : ['f', ...names.filter(() => random.chance(0.3))], floats))
      else if (dice < 0.5) subject.segments.freeze()
      else if (dice < 0.6) await subject.segments.flush()
      else if (dice < 0.65) await subject.compact()
      else if (dice < 0.72) {
        const start = START + BigInt(random.below(2000)) * MS + BigInt(random.pick([0, 0, 1, 500_000]))
        const end = start + BigInt(1 + random.below(300)) * MS - BigInt(random.pick([0, 1]))
        subject.delete(random.chance(0.3) ? null : [...subject.points.keys()].filter(() => random.chance(0.3)), start, end)
      } else if (dice < 0.74) subject.retain(START + BigInt(random.below(300)) * MS + BigInt(random.pick([0, 1])))
      else if (dice < 0.76 && subject.points.size > 1) {
        subject.release(random.pick([...subject.points.keys()]))
        old = [] // series that are given back have no rows a reader may still want
      } else {
        const request = randomRequest(random)
        if (!names.includes(request.field)) request.field = 'f'
        const some = random.chance(0.4) ? random.pick(['h1|h2', 'h.*1', 'h[0-9]']) : undefined
        if (some !== undefined) request.matchers = [{ tag: 'host', op: '=~', value: some }]
        const context = await subject.context()
        const snapshot = subject.db.state.snapshotNow() as Snapshot
        const lines = await read(context, snapshot, request)
        const right = subject.expected(request, ({ host }) => some === undefined || new RegExp(`^(?:${some})$`).test(host))
        compare(lines, right, `step ${step}: ${told(request)}`)
        compare(await readStored(context, snapshot, request), right, `step ${step}: where they are stored, ${told(request)}`)
        const active = await selectActive(context, snapshot, request, undefined)
        const having = new Set(right.map((line) => line.split(' ')[0]))
        compare(Array.from(active.series, String).sort(), [...having].sort(), `step ${step}: active series, ${told(request)}`)
        compared += lines.length
        for (const one of old) compare(await read(one.context, one.snapshot, one.request), one.lines, `step ${step}: an older reader, ${told(one.request)}`)
        if (old.length < 3) old.push({ context, snapshot, request, lines })
        else old.shift()
      }
    }
    if (subject.blocks.refusedSegments > 0) throw new Error('pages that DuckDB wrote were not understood')
    return compared
  } finally {
    subject.close()
  }
}

const told = (request: SampleRequest): string => JSON.stringify(request, (_, value: unknown) => (typeof value === 'bigint' ? `${value - START}` : value))

function compare(found: readonly Line[], expected: readonly Line[], what: string): void {
  for (let i = 0; i < Math.max(found.length, expected.length); i++)
    if (found[i] !== expected[i]) throw new Error(`${what}: line ${i} of ${expected.length}: expected ${expected[i]}, found ${found[i]}`)
}

t.test(`any order of writes, flushes, merges and deletes, SVC_SEED=${seed}`, async (t) => {
  let compared = 0
  const runs = Number(process.env.SVC_RUNS ?? 4)
  for (let run = 0; run < runs; run++) {
    await t.resolves(
      async () => {
        compared += await randomRun(seed + run, 90)
      },
      `SVC_SEED=${seed + run}`,
    )
  }
  t.ok(compared > 0)
  t.ok(found.stored > 0)
})

/** @returns what blocks hold, samples each. */
async function blockSizes(subject: Subject, more: Partial<SampleRequest>): Promise<number[]> {
  const set = await selectSamples(
    await subject.context(),
    subject.db.state.snapshotNow() as Snapshot,
    { namespace: 'default', measurement: 'm', field: 'f', ...more },
    undefined,
  )
  const out: number[] = []
  for await (const { times } of set.blocks()) out.push(times.length)
  return out
}

t.test('blocks stay small however times lie', async (t) => {
  const subject = new Subject(8 << 20)
  t.teardown(() => subject.close())
  const hosts = Array.from({ length: 100 }, (_, i) => ({ host: `h${i}` }))
  // One point far back: judged by times alone, the others would seem to be few.
  subject.write([{ tags: hosts[0], time: 0n, fields: { f: 1 } }])
  for (let i = 0; i < 1000; i++) subject.write(hosts.map((tags): TestPoint => ({ tags, time: START + BigInt(i) * MS, fields: { f: i } })))
  for (const where of ['memtable', 'segment']) {
    const sizes = await blockSizes(subject, { start: START })
    t.equal(
      sizes.reduce((sum, size) => sum + size, 0),
      100_000,
      where,
    )
    t.ok(Math.max(...sizes) <= 65_536, `${sizes}`)
    const small = await blockSizes(subject, { start: START, maxBlockSamples: 2500 })
    t.ok(Math.max(...small) <= 2500, 'a limit of the request')
    await t.rejects(blockSizes(subject, { maxBlockSamples: 999 }), { code: 'BAD_REQUEST', message: /more than 999 samples of a series/ })
    subject.segments.freeze()
    await subject.segments.flush()
  }
})

t.test('blocks are kept where they have room, and go with their sources', async (t) => {
  for (const [room, kept] of [
    [8 << 20, true],
    [200_000, false],
  ] as const) {
    const subject = new Subject(room)
    t.teardown(() => subject.close())
    const tags = Array.from({ length: 100 }, (_, i) => ({ host: `h${i}` }))
    for (let i = 0; i < 300; i++) subject.write(tags.map((own): TestPoint => ({ tags: own, time: START + BigInt(i) * MS, fields: { f: i } })))
    const one: Partial<SampleRequest> = { matchers: [{ tag: 'host', op: '=', value: 'h7' }] }
    for (let i = 0; i < 3; i++) {
      t.same(await blockSizes(subject, one), [300])
      t.equal(subject.blocks.bytes, 0, 'rows of few series are found by their links')
    }
    t.same(await blockSizes(subject, { ...one, start: START + 250n * MS, end: START + 260n * MS }), [10])
    await blockSizes(subject, {})
    t.equal(subject.blocks.bytes >= 300 * 100 * 16, kept, 'for all of them the chunk is made whole')
    t.same(await blockSizes(subject, one), [300])
    subject.segments.freeze()
    await subject.segments.flush()
    t.equal(subject.blocks.bytes, 0, 'the memtable is gone')
    t.same(await blockSizes(subject, { start: START + 290n * MS }), [1000])
    t.equal(subject.blocks.bytes > 300 * 100 * 8, kept, `of a segment, with ${room} bytes`)
    await subject.compact()
    t.same(await blockSizes(subject, { start: START + 290n * MS, newestOnly: true }), [100])
  }
})

t.test('a series is active by values of the field, wherever its rows are', async (t) => {
  const subject = new Subject(8 << 20)
  t.teardown(() => subject.close())
  subject.grow()
  const host = (n: number): Record<string, string> => ({ host: `h${n}` })
  const time = START
  subject.write([
    { tags: host(1), time, fields: { f: 1, i: 1n } },
    { tags: host(2), time, fields: { i: 2n, d: 200n } },
    { tags: host(3), time, fields: { f: STALE, i: 3n } },
    { tags: host(3), time: time + MS, fields: { i: 4n } },
    { tags: host(4), time: time + 2n * MS, fields: { d: 1n } },
    { tags: host(1), time: time + 3n * MS, fields: { d: 5n } },
  ])
  const active = async (field: string, range: Partial<SampleRequest> = {}): Promise<string[]> => {
    const request = { namespace: 'default', measurement: 'm', field, ...range }
    const { series, tags } = await selectActive(await subject.context(), subject.db.state.snapshotNow() as Snapshot, request, undefined)
    return Array.from(series, (_, i) => tags.at(i)[1])
  }
  for (const where of ['memtable', 'segment']) {
    t.same(await active('f'), ['h1', 'h3'], where)
    t.same(await active('i'), ['h1', 'h2', 'h3'], where)
    t.same(await active('d'), ['h1', 'h2', 'h4'], where)
    t.same(await active('b'), [], where)
    t.same(await active('f', { start: time + MS }), [], where)
    t.same(await active('i', { start: time + MS, end: time + 2n * MS }), ['h3'], `${where}: the last millisecond before the end`)
    t.same(await active('d', { start: time + MS, end: time + 3n * MS }), ['h4'], `${where}: and none behind it`)
    t.same(await active('i', { start: time + MS, end: time + MS }), [], where)
    subject.segments.freeze()
    // The first one is from before the fields there are now.
    for (let memtables = 0; memtables < 2; memtables++) await subject.segments.flush()
  }
})

t.test('encrypted columns, by blocks and row by row', async (t) => {
  const random = new Random(seed)
  const subject = new Subject(8 << 20)
  t.teardown(() => subject.close())
  subject.db.config.encryption = {
    columns: Object.fromEntries(FIELDS.map((name) => [name, 'k'])),
    keys: { k: new Uint8Array(32).fill(1) },
    cacheBytes: 1 << 20,
  }
  subject.grow()
  for (let i = 0; i < 5; i++) subject.write(randomPoints(random, 40, FIELDS))
  subject.segments.freeze()
  await subject.segments.flush()
  subject.write(randomPoints(random, 40, FIELDS))
  for (const within of [0n, 1n]) {
    for (const field of FIELDS) {
      const request: SampleRequest = { namespace: 'default', measurement: 'm', field }
      const lines = await read(await subject.context(), subject.db.state.snapshotNow() as Snapshot, request)
      compare(
        lines,
        subject.expected(request, () => true),
        `SVC_SEED=${seed} ${field}`,
      )
      t.ok(lines.length > 0, field)
    }
    // The second time round a bound lies within a millisecond.
    subject.delete(null, START + 500n * MS + within, START + 900n * MS)
  }
})

t.test('readers side by side, and one that is told to end', async (t) => {
  const random = new Random(seed)
  const subject = new Subject(400_000)
  t.teardown(() => subject.close())
  for (let i = 0; i < 20; i++) subject.write(randomPoints(random, 700, ['f']))
  subject.segments.freeze()
  await subject.segments.flush()
  const context = await subject.context()
  const snapshot = subject.db.state.snapshotNow() as Snapshot
  const request: SampleRequest = { namespace: 'default', measurement: 'm', field: 'f', maxBlockSamples: 500 }
  const right = subject.expected(request, () => true)
  const found = await Promise.all([1, 2, 3].map(() => read(context, snapshot, request)))
  for (const lines of found) compare(lines, right, `SVC_SEED=${seed}`)
  t.ok(right.length > 1000)
  const abort = new AbortController()
  const set = await selectSamples(context, snapshot, request, abort.signal)
  await t.rejects(
    async () => {
      for await (const _ of set.blocks()) abort.abort(new Error('enough'))
    },
    { message: 'enough' },
  )
  await t.rejects(selectSamples(context, snapshot, { ...request, field: 'none' }, undefined), { code: 'NOT_FOUND' })
})
