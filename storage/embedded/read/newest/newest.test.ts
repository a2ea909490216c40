/** What is kept of the newest rows against what the sources say: writes in any order, flushes, merges, deletes, retention, readers side by side. */

import type { SampleRequest } from 'svcdb/lib/columns'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { NO_CUTOFFS, withMove } from '../../retention/cutoffs.ts'
import { type FieldSpec, TestDatabase, type TestMeasurement, type TestPoint } from '../../testing/engine-state.ts'
import { TestSegments } from '../../testing/test-segments.ts'
import type { RetentionCutoffs } from '../../threads/removals.ts'
import type { Snapshot, WorkerState } from '../../threads/state.ts'
import type { RelationContext } from '../relation.ts'
import { selectSamples } from '../samples/select.ts'
import { SampleBlocks } from '../samples/source-blocks.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const MS = 1_000_000n
const START = 1_700_000_000_000n * MS
const ALL: FieldSpec = { f: 'float64', i: 'int64', u: 'uint64', b: 'bool' }
const NO_TIME = -(2n ** 63n)
const STALE = 0x7ff0000000000002n
const SHARED = 7

/** What the entries take now, looked at one by one. */
function heldBy(newest: SampleBlocks['newest']): number {
  const { entries } = newest as unknown as { entries: ReadonlyMap<string, { bytes: number }> }
  return [...entries.values()].reduce((sum, { bytes }) => sum + bytes, 0)
}

/** A database that anything happens to, with three measurements: two of different namespaces begin in one shared table, one of them leaves it. */
class Life {
  readonly db = new TestDatabase()
  readonly measurements: TestMeasurement[]
  private readonly random: Random
  private readonly segments: TestSegments
  private removals = 0
  private cutoff = NO_TIME
  private cutoffs: RetentionCutoffs = NO_CUTOFFS
  private clock = 0

  constructor(random: Random) {
    this.random = random
    this.segments = new TestSegments(this.db)
    this.measurements = [
      this.db.measurement('m', { f: 'float64' }, { namespace: 'a', shared: SHARED }),
      this.db.measurement('m', { f: 'float64' }, { namespace: 'b', shared: SHARED }),
      this.db.measurement('own', ALL, { namespace: 'b' }),
    ]
  }

  async step(): Promise<void> {
    const { random } = this
    const dice = random.next()
    if (dice < 0.55) this.write()
    else if (dice < 0.67) this.segments.freeze()
    else if (dice < 0.79) await this.segments.flush()
    else if (dice < 0.85) await this.compact()
    else if (dice < 0.93) this.delete()
    else if (dice < 0.95) this.retain()
    else if (dice < 0.97) this.release()
    else if (dice < 0.985) await this.spend()
    else if (this.measurements[1].def.fields.length === 1) this.grow()
  }

  /** As the engine does: a series keeps its rows in one table of a memtable. */
  private grow(): void {
    this.segments.freeze()
    this.measurements[1] = this.db.measurement('m', ALL, { namespace: 'b' })
  }

  /** Mostly newer rows, now and then old ones, several of a time, and fields without a value. */
  private write(): void {
    const { random } = this
    const measurement = random.pick(this.measurements)
    const late = random.chance(0.3)
    const points = Array.from({ length: 1 + random.below(random.chance(0.2) ? 2000 : 40) }, (): TestPoint => {
      if (random.chance(0.5)) this.clock++
      const time = late && random.chance(0.5) ? random.below(this.clock + 10) : this.clock
      const fields: TestPoint['fields'] = {}
      for (const { name } of measurement.def.fields) {
        if (measurement.def.fields.length > 1 && random.chance(0.4)) continue
        if (name === 'f') fields.f = random.chance(0.1) ? random.pick([STALE, Number.POSITIVE_INFINITY, Number.NaN]) : random.below(100_000) / 100
        if (name === 'i') fields.i = 2n ** 53n + BigInt(random.below(1000))
        if (name === 'u') fields.u = 2n ** 63n + BigInt(random.below(1000))
        if (name === 'b') fields.b = random.chance(0.5)
      }
      if (Object.keys(fields).length === 0) fields.f = 1
      const beyond = random.chance(0.8) ? 0n : BigInt(random.pick([1, 999_999]))
      return { tags: { host: `h${random.below(30)}`, dc: `d${random.below(3)}` }, time: START + BigInt(time) * MS + beyond, fields }
    })
    this.db.write(measurement, points)
  }

  private compact(): Promise<void> {
    const table = this.random.pick(this.segments.all)?.table
    return this.segments.compact(table, this.ownerOf(table), this.removals)
  }

  private ownerOf(table: number | undefined): number | undefined {
    return table === SHARED ? undefined : this.measurements.find((each) => each.table.id === table)?.def.id
  }

  private delete(): void {
    const { random, db } = this
    const { id: measurement } = random.pick(this.measurements).def
    const some = [...db.state.series.of(measurement)].filter(() => random.chance(0.3))
    const series = random.chance(0.3) || some.length === 0 ? null : Int32Array.from(some)
    const start = START + BigInt(random.below(this.clock + 1)) * MS + BigInt(random.pick([0, 0, 1]))
    const end = random.chance(0.4) ? 2n ** 63n - 1n : start + BigInt(random.below(100)) * MS
    this.segments.freeze()
    const tombstone = { id: ++this.removals, measurement, sequence: db.memtable.sequence, series, start, end }
    db.publish({ kind: 'tombstones', added: [tombstone], removed: [] })
  }

  private retain(): void {
    const cutoff = START + BigInt(this.random.below(this.clock + 1)) * MS + 1n
    if (cutoff <= this.cutoff) return
    this.cutoff = cutoff
    this.segments.freeze()
    const except = this.random.chance(0.5) ? [this.measurements[0].def.id] : []
    this.cutoffs = withMove(this.cutoffs, { id: ++this.removals, general: cutoff, except, own: [] }, this.db.memtable.sequence)
    this.db.publish({ kind: 'cutoffs', cutoffs: this.cutoffs })
  }

  /** Nothing is left of what deletes and retention mask, and they are forgotten. */
  private async spend(): Promise<void> {
    const { db, segments } = this
    segments.freeze()
    while (db.state.memtables.length > 1) await segments.flush()
    for (const table of new Set(segments.all.map((segment) => segment.table))) await segments.rewrite(table, this.ownerOf(table), this.removals)
    db.publish({ kind: 'tombstones', added: [], removed: [...db.state.tombstones.values()].flat().map(({ id }) => id) })
    this.cutoffs = NO_CUTOFFS
    db.publish({ kind: 'cutoffs', cutoffs: NO_CUTOFFS })
  }

  private release(): void {
    const { random, db } = this
    const { id: measurement } = random.pick(this.measurements).def
    const all = db.state.series.of(measurement)
    if (all.length < 2) return
    const series = Int32Array.of(all[random.below(all.length)])
    this.segments.freeze()
    const tombstone = { id: ++this.removals, measurement, sequence: db.memtable.sequence, series, start: NO_TIME, end: 2n ** 63n - 1n }
    db.publish({ kind: 'tombstones', added: [tombstone], removed: [] })
    db.release([...series])
  }

  request(): SampleRequest {
    const { random } = this
    const { def } = random.pick(this.measurements)
    const at = START + BigInt(random.chance(0.7) ? this.clock : random.below(this.clock + 1)) * MS
    const request: SampleRequest = { namespace: def.namespace, measurement: def.name, field: random.pick(def.fields).name, newestOnly: true }
    if (random.chance(0.8)) request.end = at + MS
    if (random.chance(0.8)) request.start = at - BigInt(random.below(random.chance(0.5) ? 30 : 2000)) * MS
    if (random.chance(0.3)) request.matchers = [{ tag: 'dc', op: '=', value: `d${random.below(3)}` }]
    return request
  }
}

/** By bits, so that no NaN is like another. */
async function read(context: RelationContext, snapshot: Snapshot, request: SampleRequest): Promise<string> {
  const { series, blocks } = await selectSamples(context, snapshot, request, undefined)
  const lines: string[] = []
  for await (const { first, starts, times, values, kinds } of blocks()) {
    const bits = new BigUint64Array(values.slice().buffer)
    for (let s = 0; s + 1 < starts.length; s++)
      for (let i = starts[s]; i < starts[s + 1]; i++) lines.push(`${series[first + s]} ${times[i]} ${bits[i].toString(16)} ${kinds?.[i] ?? 0}`)
  }
  return lines.join('\n')
}

async function live(run: number): Promise<{ lines: number; hits: number }> {
  const random = new Random(run)
  const life = new Life(random)
  const kept = new SampleBlocks(random.pick([100_000, 8 << 20]))
  const counts = { lines: 0, hits: 0 }
  try {
    for (let step = 0; step < 120; step++) {
      await life.step()
      if (random.chance(0.4)) continue
      const context = await life.db.context()
      const requests = Array.from({ length: random.chance(0.8) ? 1 : 3 }, () => life.request())
      const asked = requests.map((request) => ({ request, snapshot: life.db.state.snapshotNow() as Snapshot }))
      const right: string[] = []
      // Nothing is kept in so little room.
      for (const { request, snapshot } of asked) right.push(await read({ ...context, sampleBlocks: new SampleBlocks(0) }, snapshot, request))
      const found = asked.map(({ request, snapshot }) => read({ ...context, sampleBlocks: kept }, snapshot, request))
      // Whatever happens while they read.
      if (random.chance(0.3)) await life.step()
      for (const [i, { request }] of asked.entries()) {
        const told = JSON.stringify(request, (_, value: unknown) => (typeof value === 'bigint' ? String(value - START) : value))
        if ((await found[i]) !== right[i]) throw new Error(`step ${step}: ${told}: expected\n${right[i]}\nfound\n${await found[i]}`)
        counts.lines += right[i] === '' ? 0 : 1
      }
      counts.hits += kept.newest.bytes > 0 ? 1 : 0
      if (kept.newest.bytes !== heldBy(kept.newest)) t.fail(`${kept.newest.bytes} bytes are counted, ${heldBy(kept.newest)} are held`)
    }
    return counts
  } finally {
    life.db.close()
  }
}

t.test(`the newest samples as the sources have them, SVC_SEED=${seed}`, async (t) => {
  const runs = Number(process.env.SVC_RUNS ?? 2)
  for (let run = 0; run < runs; run++) {
    const { lines, hits } = await live(seed + run)
    t.ok(lines > 0 && hits > 0, `SVC_SEED=${seed + run}`)
  }
})

function overwrite({ heads, heap, tables }: WorkerState['memtables'][number]): void {
  heads.fill(-1)
  for (const bytes of heap) bytes.fill(0xaa)
  for (const { chunks } of tables.values()) for (const { def } of chunks) new Uint8Array(def.buffer).fill(0xaa)
}

t.test('once known, no segment is read again, whatever comes and is flushed, and nothing of memory that others may have', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const cpu = db.measurement('cpu', { f: 'float64' })
  const points = (n: number): TestPoint[] =>
    Array.from({ length: 50 }, (_, i) => ({ tags: { host: `h${i}` }, time: START + BigInt(n) * MS, fields: { f: n + i } }))
  db.write(cpu, points(1))
  await db.flush()
  const request: SampleRequest = { namespace: 'default', measurement: 'cpu', field: 'f', newestOnly: true }
  const context = await db.context()
  const ask = (verifier = context.verifier): Promise<string> => read({ ...context, verifier }, db.state.snapshotNow() as Snapshot, request)
  // Whoever reads a segment has it verified first.
  const refuse = (): Promise<void> => Promise.reject(new Error('a segment is read'))
  const none: RelationContext['verifier'] = { ensure: refuse, ensureSources: refuse, require: () => {} }
  await t.rejects(ask(none), /a segment is read/)
  await ask()
  // As the engine, whose memtables share memory: it is another one's when an engine thread hears that one is gone.
  const publish = db.publish.bind(db)
  db.publish = (event) => {
    if (event.kind === 'segments' && event.droppedMemtable >= 0) overwrite(db.state.memtable(event.droppedMemtable))
    publish(event)
  }
  for (let n = 2; n < 6; n++) {
    db.write(cpu, points(n))
    const frozen = db.freeze()
    db.write(cpu, points(n + 10))
    // All that the frozen one will ever have is known to who sees rows of the next.
    t.equal((await ask(none)).split('\n')[7].split(' ')[1], String(START / MS + BigInt(n + 10)))
    await db.flush(frozen)
    t.match((await ask(none)).split('\n'), { length: 50, 7: new RegExp(`^7 17000000000${n + 10} `) })
    db.freeze()
  }
  db.write(cpu, points(16))
  await db.flush()
  await t.rejects(ask(none), /a segment is read/, 'rows that nobody has asked about are looked for again')
  t.match((await ask()).split('\n'), { length: 50, 7: /^7 1700000000016 / })
  db.publish({
    kind: 'tombstones',
    added: [{ id: 1, measurement: cpu.def.id, sequence: 100, series: Int32Array.of(7), start: START, end: START + 16n * MS }],
    removed: [],
  })
  await t.rejects(ask(none), /a segment is read/)
  t.equal((await ask()).split('\n').length, 49)
  t.equal((await ask(none)).split('\n').length, 49)
  const { newest } = db.sampleBlocks
  t.ok(newest.bytes > 0 && newest.bytes <= db.sampleBlocks.bytes)
  newest.forget(cpu.def.id)
  t.equal(newest.bytes, 0)
})

t.test('what a reader with an old snapshot has found is not the beginning of what later readers know', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const cpu = db.measurement('cpu', { f: 'float64', g: 'float64' })
  const write = (n: number): void =>
    db.write(
      cpu,
      Array.from({ length: 50 }, (_, i) => ({ tags: { host: `h${i}` }, time: START + BigInt(n) * MS, fields: { f: n, g: n } })),
    )
  write(1)
  await db.flush()
  write(2)
  const context = await db.context()
  const newest = async (field: string, snapshot: Snapshot): Promise<string> => {
    const lines = (await read(context, snapshot, { namespace: 'default', measurement: 'cpu', field, newestOnly: true })).split('\n')
    return `${lines.length}: ${lines[0].split(' ')[1]}`
  }
  const at = (n: number): string => `50: ${START / MS + BigInt(n)}`
  const now = (): Snapshot => db.state.snapshotNow() as Snapshot
  // The cache hears of changes from its first question on.
  for (const [n, field] of ['f', 'g'].entries()) {
    const old = now()
    write(3 + n)
    await db.flush()
    t.equal(await newest(field, old), at(2 + n))
    t.equal(await newest(field, now()), at(3 + n))
  }
})

t.test('a reader with an old snapshot takes nothing of a memtable in again that has gone since', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const cpu = db.measurement('cpu', { f: 'float64' })
  const write = (f: number): void => db.write(cpu, [{ tags: { host: 'a' }, time: START, fields: { f } }])
  const context = await db.context()
  const now = (): Snapshot => db.state.snapshotNow() as Snapshot
  const newest = async (snapshot: Snapshot): Promise<string> =>
    (await read(context, snapshot, { namespace: 'default', measurement: 'cpu', field: 'f', newestOnly: true })).split(' ')[2]
  const bits = (f: number): string => new BigUint64Array(Float64Array.of(f).buffer)[0].toString(16)
  write(1)
  t.equal(await newest(now()), bits(1))
  const frozen = db.freeze()
  write(2)
  t.equal(await newest(now()), bits(2), 'the same time again, written later')
  const old = now()
  await db.flush(frozen)
  t.equal(await newest(old), bits(2))
  t.equal(await newest(now()), bits(2))
})

t.test('what a delete or retention has taken stays away when nobody asks before it is forgotten', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const segments = new TestSegments(db)
  const cpu = db.measurement('cpu', { f: 'float64' })
  for (const n of [1, 2, 3]) db.write(cpu, [{ tags: { host: 'a' }, time: START + BigInt(n) * MS, fields: { f: n } }])
  db.write(cpu, [{ tags: { host: 'b' }, time: START, fields: { f: 9 } }])
  segments.freeze()
  await segments.flush()
  const context = await db.context()
  const now = (): Snapshot => db.state.snapshotNow() as Snapshot
  const newest = (snapshot = now()): Promise<string> => read(context, snapshot, { namespace: 'default', measurement: 'cpu', field: 'f', newestOnly: true })
  const times = async (snapshot?: Snapshot): Promise<number[]> =>
    (await newest(snapshot)).split('\n').map((line) => Number(line.split(' ')[1]) - 1_700_000_000_000)
  const remove = (id: number, n: number): void =>
    db.publish({
      kind: 'tombstones',
      added: [{ id, measurement: cpu.def.id, sequence: db.memtable.sequence, series: null, start: START + BigInt(n) * MS, end: START + BigInt(n) * MS }],
      removed: [],
    })
  const forget = async (id: number): Promise<void> => {
    await segments.rewrite(cpu.table.id, cpu.def.id, id)
    db.publish({ kind: 'tombstones', added: [], removed: [id] })
  }
  t.same(await times(), [3, 0])
  remove(1, 3)
  await forget(1)
  t.same(await times(), [2, 0])
  // Who asks as of a time before it sees what there was then, and leaves nothing behind.
  const before = now()
  remove(2, 2)
  await forget(2)
  t.same(await times(before), [2, 0])
  t.same(await times(), [1, 0])
  // The last row before the cutoff goes.
  const cutoffs = withMove(NO_CUTOFFS, { id: 3, general: START + 1n, except: [], own: [] }, db.memtable.sequence)
  db.publish({ kind: 'cutoffs', cutoffs })
  await segments.rewrite(cpu.table.id, cpu.def.id, 3)
  db.publish({ kind: 'cutoffs', cutoffs: NO_CUTOFFS })
  t.same(await times(), [1])
  for (const [host, n] of [
    ['a', 4],
    ['b', 5],
  ] as const)
    db.write(cpu, [{ tags: { host }, time: START + BigInt(n) * MS, fields: { f: n } }])
  segments.freeze()
  await segments.flush()
  t.same(await times(), [4, 5])
  remove(4, 9)
  t.same(await times(), [4, 5], 'one that is known')
  remove(5, 4)
  await forget(5)
  t.same(await times(), [1, 5], 'and one behind it that is not')
})

t.test('what is deleted and forgotten while it is looked for stays away', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const segments = new TestSegments(db)
  const cpu = db.measurement('cpu', { f: 'float64' })
  for (const n of [1, 2, 3]) db.write(cpu, [{ tags: { host: 'a' }, time: START + BigInt(n) * MS, fields: { f: n } }])
  segments.freeze()
  await segments.flush()
  const context = await db.context()
  const ask = (verifier = context.verifier): Promise<string> =>
    read({ ...context, verifier }, db.state.snapshotNow() as Snapshot, { namespace: 'default', measurement: 'cpu', field: 'f', newestOnly: true })
  let goOn = (): void => {}
  const held = new Promise<void>((resolve) => (goOn = resolve))
  let reach = (): void => {}
  const reached = new Promise<void>((resolve) => (reach = resolve))
  const wait = (): Promise<void> => {
    reach()
    return held
  }
  const asked = ask({ ensure: wait, ensureSources: wait, require: () => {} })
  await reached
  const end = START + 3n * MS
  db.publish({
    kind: 'tombstones',
    added: [{ id: 1, measurement: cpu.def.id, sequence: db.memtable.sequence, series: null, start: end, end }],
    removed: [],
  })
  await segments.rewrite(cpu.table.id, cpu.def.id, 1)
  db.publish({ kind: 'tombstones', added: [], removed: [1] })
  goOn()
  t.match(await asked, / 1700000000003 /, 'as of its own time')
  t.match(await ask(), / 1700000000002 /)
})
