/** Snapshots take from the one before them what did not change since: each is compared with what a thread that begins now would see. */
import { TableBatch } from 'svcdb/lib/columns'
import t from 'tap'
import type { StateEvent } from '../threads/messages.ts'
import { Shared } from '../threads/shared-header.ts'
import { type MemtablePart, type Snapshot, WorkerState } from '../threads/state.ts'
import { Memtable } from './memtable.ts'
import { SeriesTimes } from './series-times.ts'
import { MemtableMemory, SlabPool } from './slabs.ts'

const SEED = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
const TABLES = 2000
const SERIES_OF_TABLE = 2
const STEPS = 60
/** Most steps write to a few of the tables, which therefore grow. */
const BUSY = 12
const KEPT_MEMTABLES = 3
const LATE = 60n
const fields = ['v', 'w'].map((name, id) => ({ id, name, column: name, type: 'float64' as const, scale: 0 }))

/** Memtables over `TABLES` tables, and one thread that follows them. */
class Database {
  readonly shared = new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4))
  readonly state = new WorkerState(this.shared)
  memtables: Memtable[] = []
  private readonly times = new SeriesTimes()
  private readonly slabs = new SlabPool({ memtableBytes: 1 << 24, keptBytes: 1 << 24 })
  private readonly pick: (n: number) => number
  private ids = 0
  private time = 1000n

  constructor(pick: (n: number) => number) {
    this.pick = pick
    this.times.ensure(TABLES * SERIES_OF_TABLE)
    this.begin()
  }

  /** Some rows of a table, at times a late one, or one with a field that the others lack. */
  write(table: number, rows: number, wide = this.pick(5) === 0): void {
    const batch = new TableBatch({ namespace: '', name: 'm', id: 0, fields: new Map() })
    for (let i = 0; i < rows; i++) {
      this.time += 10n
      const time = this.pick(9) === 0 ? this.time - BigInt(this.pick(Number(LATE))) : this.time
      const row = batch.addRow(table * SERIES_OF_TABLE + this.pick(SERIES_OF_TABLE), Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
      batch.column('v', 'float64').setF64(row, Number(this.time))
    }
    if (wide) batch.column('w', 'float64').setF64(rows - 1, 1)
    Atomics.add(this.shared, Shared.SEQ, 1)
    const known = fields.slice(0, wide ? 2 : 1)
    this.memtables[this.memtables.length - 1].append(table, batch, new Uint8Array(0), known, known, this.times)
    Atomics.add(this.shared, Shared.SEQ, 1)
  }

  /** A new memtable; the oldest one goes when there are enough. */
  begin(): void {
    this.times.rebase()
    const id = this.ids++
    const memory = new MemtableMemory(this.slabs)
    this.memtables.push(
      new Memtable({ id, sequence: id + 1, firstWal: 1, seriesCapacity: TABLES * SERIES_OF_TABLE, memory, publish: (event) => this.publish(event) }),
    )
    if (this.memtables.length <= KEPT_MEMTABLES) return
    const [oldest] = this.memtables.splice(0, 1)
    this.publish({ kind: 'segments', added: [], removed: [], droppedMemtable: oldest.id })
  }

  /** As a thread sees it that has just begun. */
  anew(): Snapshot {
    const state = new WorkerState(this.shared)
    for (const memtable of this.memtables) for (const event of memtable.events()) state.apply(event)
    state.applied = Atomics.load(this.shared, Shared.EVENTS)
    return state.snapshotNow() as Snapshot
  }

  private publish(event: StateEvent): void {
    Atomics.add(this.shared, Shared.EVENTS, 1)
    this.state.apply(event)
  }
}

function pickOf(seed: number): (n: number) => number {
  let state = seed
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return ((state >>> 8) * n) >>> 24
  }
}

const comparable = ({ memtable, chunks, counts, rows, minTime, maxTime, dirty, duplicates, lateness }: MemtablePart): string =>
  [memtable.id, chunks.map(({ def }) => def.capacity), counts, rows, minTime, maxTime, dirty, duplicates, lateness].join(' / ')

t.test(`snapshots of ${TABLES} measurements between writes, frozen and dropped memtables (seed ${SEED})`, async (t) => {
  const pick = pickOf(SEED)
  const db = new Database(pick)
  for (let table = 0; table < TABLES; table++) db.write(table, 1)
  let before: Snapshot | undefined
  let [unchanged, kept] = [0, 0]
  for (let step = 0; step < STEPS; step++) {
    for (let writes = pick(4); writes > 0; writes--) db.write(pick(3) === 0 ? pick(TABLES) : pick(BUSY), 1 + pick(200))
    if (pick(25) === 0) db.begin()
    const [snapshot, expected] = [db.state.snapshotNow() as Snapshot, db.anew()]
    for (let table = 0; table < TABLES; table++) {
      const [found, wanted] = [snapshot.table(table).memtables, expected.table(table).memtables]
      if (found.map(comparable).join(' | ') !== wanted.map(comparable).join(' | '))
        t.equal(found.map(comparable).join(' | '), wanted.map(comparable).join(' | '), `table ${table} in step ${step}`)
      const [newest, newestBefore] = [found.at(-1), before?.table(table).memtables.at(-1)]
      if (!newest || !newestBefore || comparable(newest) !== comparable(newestBefore)) continue
      unchanged++
      if (newest === newestBefore) kept++
    }
    before = snapshot
  }
  t.ok(unchanged > 0)
  t.equal(kept, unchanged, 'what did not change is that of the snapshot before')
})

t.test('a snapshot stays as it was when rows come', async (t) => {
  const db = new Database(pickOf(1))
  db.write(5, 10)
  const first = db.state.snapshotNow() as Snapshot
  const seen = first.table(5).memtables.map(comparable)
  db.write(5, 300)
  db.write(6, 1)
  const second = db.state.snapshotNow() as Snapshot
  t.same(first.table(5).memtables.map(comparable), seen)
  t.equal(first.table(6).memtables.length, 0)
  t.equal(second.table(5).memtables[0].rows, 310)
  t.equal(second.table(6).memtables[0].rows, 1)
})

t.test('a chunk that comes with as many rows as the one before it had is seen', async (t) => {
  const db = new Database(pickOf(2))
  db.write(5, 10, false)
  db.state.snapshotNow()
  db.write(5, 10, true) // the first chunk has no column for it
  t.same(db.state.snapshotNow()?.table(5).memtables[0].counts, [10, 10])
})

t.test('a memtable that went without a write after it is gone', async (t) => {
  const db = new Database(pickOf(3))
  db.write(5, 10)
  t.equal(db.state.snapshotNow()?.table(5).memtables.length, 1)
  for (let i = 0; i < KEPT_MEMTABLES; i++) db.begin()
  t.equal(db.state.snapshotNow()?.table(5).memtables.length, 0)
})

t.test('what was read while a batch was applied is not kept', async (t) => {
  const db = new Database(pickOf(2))
  db.write(5, 10)
  db.state.snapshotNow()
  const [memtable] = db.state.memtables
  const [chunk] = memtable.tables.get(5)?.chunks ?? []
  const published = chunk.published.bind(chunk)
  // Another thread's batch, in the midst of the reading.
  let raced = false
  chunk.published = () => {
    const before = published()
    if (!raced) {
      raced = true
      db.write(5, 7)
    }
    return before
  }
  db.write(6, 1)
  const snapshot = db.state.snapshotNow() as Snapshot
  t.equal(snapshot.table(5).memtables[0].rows, 17)
  t.same(snapshot.table(5).memtables.map(comparable), db.anew().table(5).memtables.map(comparable))
})
