/**
 * One thread writes a memtable, another takes snapshots of it and compares each with itself. SVC_SNAPSHOTS=<n>: how many.
 * Shows what this machine's processor does; why it must be so on every one: docs/decisions/024.
 */
import { once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { TableBatch } from 'svcdb/lib/columns'
import t from 'tap'
import { BATCH_ROWS, check, type Findings, type Holder, lacksSecond, SERIES, TABLE, TAKEN, timeOfRow } from '../testing/snapshot-checker.ts'
import type { StateEvent } from '../threads/messages.ts'
import { Readers } from '../threads/publishing/readers.ts'
import { Shared } from '../threads/shared-header.ts'
import { SnapshotPins } from '../threads/snapshot-pins.ts'
import { WorkerState } from '../threads/state.ts'
import { Memtable } from './memtable.ts'
import { SeriesTimes } from './series-times.ts'
import { MemtableMemory, SlabPool } from './slabs.ts'

t.setTimeout(300_000)
const SNAPSHOTS = Number(process.env.SVC_SNAPSHOTS ?? 300)
const BATCHES = 5
/** Jobs at once that hold snapshots. */
const HOLDERS = 6
const SMALL_MEMTABLE = 400
const NONSENSE = 0xaa
/** Rows after which a memtable makes way for the next. */
const MEMTABLE_ROWS = 6_000
const fields = ['v', 'w'].map((name, id) => ({ id, name, column: name, type: 'float64' as const, scale: 0 }))

/** Writes nonsense over what nobody is said to read any more. */
class Slabs extends SlabPool {
  private readonly given: () => void

  constructor(given: () => void) {
    super({ memtableBytes: 1 << 20, keptBytes: 1 << 22 })
    this.given = given
  }

  override give(buffers: readonly SharedArrayBuffer[]): void {
    for (const buffer of buffers) new Uint8Array(buffer).fill(NONSENSE)
    this.given()
    super.give(buffers)
  }
}

class Writer {
  readonly shared = new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4))
  listener: (event: StateEvent) => void = () => {}
  /** Memory that was given back. */
  given = 0
  private readonly readers: Readers | undefined
  private readonly memtableRows: number
  private readonly times = new SeriesTimes()
  private readonly slabs = new Slabs(() => this.given++)
  private ids = 0
  private memtable: Memtable
  private rows = 0

  /** @param readers told of memtables that are gone; their memory is used again when nobody reads it. */
  constructor(memtableRows = MEMTABLE_ROWS, readers?: Readers) {
    this.memtableRows = memtableRows
    this.readers = readers
    this.memtable = this.newMemtable()
    this.times.ensure(SERIES)
  }

  events(): StateEvent[] {
    return this.memtable.events()
  }

  batch(): void {
    const batch = new TableBatch({ namespace: '', name: 'm', id: 0, fields: new Map() })
    for (let i = 0; i < BATCH_ROWS; i++, this.rows++) {
      const n = this.rows
      const row = batch.addRow(n % SERIES, Number(BigInt.asIntN(32, timeOfRow(n))), Number(timeOfRow(n) >> 32n), 0)
      batch.column('v', 'float64').setF64(row, n)
      if (!lacksSecond(n)) batch.column('w', 'float64').setF64(row, -n)
    }
    Atomics.add(this.shared, Shared.SEQ, 1)
    this.memtable.append(TABLE, batch, new Uint8Array(0), fields, fields.slice(0, batch.columns.length), this.times)
    Atomics.add(this.shared, Shared.SEQ, 1)
    if (this.memtable.rows < this.memtableRows) return
    const old = this.memtable
    this.times.rebase()
    this.memtable = this.newMemtable()
    this.publish({ kind: 'segments', added: [], removed: [], droppedMemtable: old.id })
    const until = Atomics.load(this.shared, Shared.EVENTS)
    const { since } = old
    old.release((unread) => this.readers?.afterUnread('memory', { since, until }, 1, unread))
  }

  private newMemtable(): Memtable {
    const id = this.ids++
    const memory = new MemtableMemory(this.slabs)
    return new Memtable({
      id,
      sequence: id + 1,
      firstWal: 1,
      seriesCapacity: SERIES,
      memory,
      publish: (event) => this.publish(event),
      published: () => Atomics.load(this.shared, Shared.EVENTS),
    })
  }

  private publish(event: StateEvent): void {
    Atomics.add(this.shared, Shared.EVENTS, 1)
    this.listener(event)
  }
}

t.test('a snapshot has whole batches, a summary that fits them, and links that lead to all rows', async (t) => {
  const writer = new Writer()
  const { shared } = writer
  Atomics.store(shared, Shared.EVENTS, writer.events().length)
  const worker = new Worker(new URL('../testing/snapshot-checker.ts', import.meta.url), { workerData: { stress: shared } })
  t.teardown(() => worker.terminate())
  await once(worker, 'online')
  for (const event of writer.events()) worker.postMessage(event)
  writer.listener = (event) => worker.postMessage(event)
  while (Atomics.load(shared, TAKEN) < SNAPSHOTS) {
    for (let i = 0; i < BATCHES; i++) writer.batch()
    await setImmediate()
  }
  worker.postMessage('stop')
  const [{ snapshots, rows, fault }] = (await once(worker, 'message')) as [Findings]
  t.equal(fault, undefined)
  t.ok(snapshots >= SNAPSHOTS, `${snapshots} snapshots with ${rows} rows`)
})

t.test('memory of a memtable is not used again while a job of another thread has a snapshot with it', async (t) => {
  const readers = new Readers(new SnapshotPins(HOLDERS))
  const writer = new Writer(SMALL_MEMTABLE, readers)
  const { shared } = writer
  Atomics.store(shared, Shared.EVENTS, writer.events().length)
  const holder: Holder = { held: shared, pins: readers.pins.words, memtableRows: SMALL_MEMTABLE }
  const worker = new Worker(new URL('../testing/snapshot-checker.ts', import.meta.url), { workerData: holder })
  t.teardown(() => worker.terminate())
  await once(worker, 'online')
  for (const event of writer.events()) worker.postMessage(event)
  writer.listener = (event) => worker.postMessage(event)
  const start = (): void => {
    const id = readers.begin()
    worker.postMessage({ job: id, slot: readers.start(id) })
  }
  let findings: Findings | undefined
  worker.on('message', (message: Findings | number) => {
    if (typeof message !== 'number') findings = message
    else {
      readers.end(message)
      start()
    }
  })
  for (let i = 0; i < HOLDERS; i++) start()
  while (Atomics.load(shared, TAKEN) < SNAPSHOTS) {
    for (let i = 0; i < BATCHES; i++) writer.batch()
    await setImmediate()
  }
  worker.postMessage('stop')
  while (findings === undefined) await setImmediate()
  t.equal(findings.fault, undefined)
  t.ok(findings.snapshots >= SNAPSHOTS, `${findings.snapshots} snapshots, ${findings.rows} rows read while they were held`)
  t.ok(writer.given > 10, `memory of ${writer.given} memtables was used again meanwhile`)
})

t.test('the check finds a word, a link and a row that are wrong', async (t) => {
  const writer = new Writer()
  const state = new WorkerState(writer.shared)
  Atomics.store(writer.shared, Shared.EVENTS, 0)
  for (const event of writer.events()) state.apply(event)
  Atomics.store(writer.shared, Shared.EVENTS, state.applied)
  writer.listener = (event) => state.apply(event)
  for (let i = 0; i < 25; i++) writer.batch()
  const part = () => {
    const [found] = state.snapshotNow()?.table(TABLE).memtables ?? []
    return found
  }
  check(part())
  t.throws(() => check({ ...part(), maxTime: 0n }), { message: /the summary says/ })
  t.throws(() => check({ ...part(), lateness: 0n }), { message: /lateness/ })
  t.throws(() => check({ ...part(), rows: 39 }), { message: /whole batches/ })
  const [chunk] = part().chunks
  chunk.prev[500] = 500 % SERIES // the first row of its series
  t.throws(() => check(part()), { message: /links of series/ })
})
