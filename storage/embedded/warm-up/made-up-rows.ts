/**
 * What warm-up jobs read (WARM_UP_ROWS): a database in miniature, in an engine thread and for it alone. Its rows go the way of all rows, through a memtable into
 * segments in the thread's scratch space, some stay in a memtable; some times are written twice and some are deleted: what reads them meets what there is to meet.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { MeasurementRef } from 'svcdb'
import { ByteHeap, TableBatch } from 'svcdb/lib/columns'
import { WARM_UP_ROWS } from 'svcdb/lib/warm-up'
import { ProcessPool } from '../engine-process/pool.ts'
import { ProcessTurns } from '../engine-process/turns.ts'
import { trustTable } from '../integrity/trust.ts'
import { Memtable } from '../memtable/memtable.ts'
import { SeriesTimes } from '../memtable/series-times.ts'
import { MemtableMemory, SlabPool } from '../memtable/slabs.ts'
import type { RelationContext } from '../read/relation.ts'
import { SampleBlocks } from '../read/samples/source-blocks.ts'
import { flushMemtable } from '../segment/segment-writer.ts'
import { SegmentVerifier } from '../segment/verify.ts'
import { NOT_DURABLE } from '../series/provisional-series.ts'
import { SeriesIndex } from '../series/series-index.ts'
import { TagDictionaries } from '../series/tag-source.ts'
import type { FieldDef, TableDef } from '../threads/definitions.ts'
import type { StateEvent, WorkerConfig } from '../threads/messages.ts'
import { Shared } from '../threads/shared-header.ts'
import { WorkerState } from '../threads/state.ts'

const { namespace, measurement, metric, hosts, interval, start, end } = WARM_UP_ROWS
const ZONES = 4
const STATES = ['idle', 'busy', 'failed'].map((text) => new TextEncoder().encode(text))
const NS_PER_SECOND = 1_000_000_000n
const MEMTABLE_BYTES = 1 << 20
/** Less than the rows take: a question meets what is kept, and what is not. */
const CACHE_BYTES = 8 << 20
/** Parts of the time, by which rows come in: the first two become segments, which overlap, the last stays in a memtable. */
const PARTS: readonly (readonly [from: number, to: number])[] = [
  [0, 0.5],
  [0.48, 0.75],
  [0.75, 1],
]

interface Made {
  ref: MeasurementRef
  table: TableDef
  series: number[]
}

export class MadeUpRows {
  private readonly shared = new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4))
  private readonly state = new WorkerState(this.shared)
  private readonly index = new SeriesIndex(this.shared, 10 * hosts, (arrays) => this.publish({ kind: 'series', arrays }))
  private readonly dictionaries = new TagDictionaries(this.state.series)
  private readonly times = new SeriesTimes()
  private readonly slabs = new SlabPool({ memtableBytes: MEMTABLE_BYTES, keptBytes: 0 })
  private readonly verifier: SegmentVerifier
  /** It may have none: statements run in the thread. */
  private readonly processes: ProcessPool
  private readonly dataDir: string
  private readonly thread: RelationContext

  private constructor(thread: RelationContext, config: WorkerConfig, dataDir: string) {
    this.thread = thread
    this.dataDir = dataDir
    this.processes = new ProcessPool({ ...config, engineProcesses: 0 }, new ProcessTurns(() => {}))
    this.verifier = new SegmentVerifier(trustTable([]), dataDir, () => {})
  }

  /** @param thread the engine thread's own context. @param folder below its scratch space; it goes with the rows. */
  static async make(thread: RelationContext, config: WorkerConfig, folder: string): Promise<MadeUpRows> {
    const made = new MadeUpRows(thread, config, join(config.tempDir, folder))
    try {
      await made.write(config)
      return made
    } catch (error) {
      made.remove()
      throw error
    }
  }

  /** As if nothing had been read yet. It has the properties of the thread's own, in their order: code compiled for one of another shape would be compiled again. */
  context(): RelationContext {
    const { state, dictionaries, dataDir, verifier, processes } = this
    const { duck, sqlLimits, sqlFunctions, maxScratchBytes } = this.thread
    const sampleBlocks = new SampleBlocks(CACHE_BYTES)
    return { state, duck, dictionaries, dataDir, sampleBlocks, verifier, sqlLimits, sqlFunctions, maxScratchBytes, processes, refusedPlan: () => {} }
  }

  remove(): void {
    rmSync(this.dataDir, { recursive: true, force: true })
  }

  private async write(config: WorkerConfig): Promise<void> {
    this.publish({ kind: 'series', arrays: this.index.arrays() })
    const own = this.measurement(0, measurement, false, [
      { name: 'load', type: 'float64' },
      { name: 'temperature', type: 'float64' },
      { name: 'bytes', type: 'int64' },
      { name: 'up', type: 'bool' },
      { name: 'state', type: 'string' },
    ])
    const shared = this.measurement(1, metric, true, [{ name: 'value', type: 'float64' }])
    const target = { duck: this.thread.duck, dataDir: this.dataDir, config, now: Date.now }
    let segments = 1
    for (const [part, [from, to]] of PARTS.entries()) {
      const memory = new MemtableMemory(this.slabs)
      const memtable = new Memtable({ id: part, sequence: part + 1, firstWal: 0, seriesCapacity: 4 * hosts, memory, publish: (event) => this.publish(event) })
      for (const made of [own, shared]) this.append(memtable, made, from, to)
      this.times.rebase()
      if (part === PARTS.length - 1) continue
      const added = await flushMemtable(this.state, this.state.memtable(part), segments, target)
      segments += added.length
      this.publish({ kind: 'segments', added, removed: [], droppedMemtable: part })
    }
    const first = BigInt(start) * NS_PER_SECOND
    const deleted = { id: 1, measurement: 0, sequence: PARTS.length, series: Int32Array.of(own.series[0]), start: first, end: first + 60n * NS_PER_SECOND }
    this.publish({ kind: 'tombstones', added: [deleted], removed: [] })
  }

  private measurement(id: number, name: string, shared: boolean, types: readonly Pick<FieldDef, 'name' | 'type'>[]): Made {
    const fields = types.map((field, i) => ({ ...field, id: i, column: field.name, scale: 0 }))
    const table: TableDef = { id: id + 1, measurement: shared ? -1 : id, fields }
    const ref: MeasurementRef = { namespace, name, id, fields: new Map(fields.map((field) => [field.name, field])) }
    this.publish({ kind: 'table', def: table })
    this.publish({ kind: 'measurement', def: { id, namespace, name, fields, tables: [table.id] } })
    const series = Array.from({ length: hosts }, (_, host) => {
      const number = this.index.resolve(ref, ['host', `h${host}`, 'zone', `z${host % ZONES}`])
      const durable = this.index.numberOf(number)
      return durable === NOT_DURABLE ? this.index.promote(number) : durable
    })
    return { ref, table, series }
  }

  /** Rows of all hosts, step by step, from one part of the time to another. */
  private append(memtable: Memtable, { ref, table, series }: Made, from: number, to: number): void {
    const heap = new ByteHeap()
    const batch = new TableBatch(ref)
    const columns = table.fields.map(({ name, type }) => batch.column(name, type))
    const steps = (end - start) / interval
    for (let step = Math.floor(from * steps); step < Math.floor(to * steps); step++) {
      const time = BigInt(start + step * interval) * NS_PER_SECOND
      for (let host = 0; host < hosts; host++) {
        const row = batch.addRow(series[host], Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
        const wave = Math.sin((step + host * 7) / 20)
        for (const column of columns) {
          if (column.name === 'load') column.setF64(row, Math.round(50 + 50 * wave))
          else if (column.name === 'temperature') column.setF64(row, 20 + 7.3 * wave)
          else if (column.name === 'value') column.setF64(row, step * (host + 1))
          else if (column.type === 'int64') column.setPair(row, step * 1000 + host, 0)
          else if (column.type === 'bool') column.setBool(row, wave > -0.9)
          else {
            const text = STATES[(step + host) % STATES.length]
            const at = heap.reserve(text.length)
            heap.bytes.set(text, at)
            column.setPair(row, at, text.length)
          }
        }
      }
    }
    for (const number of series) {
      this.times.ensure(number)
      memtable.ensureSeries(number)
    }
    Atomics.add(this.shared, Shared.SEQ, 1)
    this.index.publish(this.index.count - 1)
    memtable.append(table.id, batch, heap.bytes, table.fields, table.fields, this.times)
    Atomics.add(this.shared, Shared.SEQ, 1)
  }

  /** A copy, as messages are: of the same shape. */
  private publish(event: StateEvent): void {
    Atomics.add(this.shared, Shared.EVENTS, 1)
    this.state.apply(structuredClone(event))
  }
}
