/** For tests and benches: a main thread in miniature that writes points into real memtables and publishes them to an engine state. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FieldType, MeasurementRef, SeriesChunk } from 'svcdb'
import { ByteHeap, type Column, TableBatch } from 'svcdb/lib/columns'
import { Duck } from '../duckdb/duckdb.ts'
import { Memtable } from '../memtable/memtable.ts'
import { SeriesTimes } from '../memtable/series-times.ts'
import { MemtableMemory, SlabPool } from '../memtable/slabs.ts'
import type { RelationContext } from '../read/relation.ts'
import { SampleBlocks } from '../read/samples/source-blocks.ts'
import { flushMemtable, type SegmentTarget } from '../segment/segment-writer.ts'
import { SeriesIndex } from '../series/series-index.ts'
import { TagDictionaries } from '../series/tag-source.ts'
import type { FieldDef, MeasurementDef, TableDef } from '../threads/definitions.ts'
import type { StateEvent, WorkerConfig } from '../threads/messages.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { Shared } from '../threads/shared-header.ts'
import { WorkerState } from '../threads/state.ts'
import { admitted } from './series.ts'

export interface TestPoint {
  tags?: Record<string, string>
  time: bigint
  fields: Record<string, number | bigint | boolean | string | Uint8Array>
}

export type FieldSpec = Record<string, FieldType | { decimal: number }>

export interface TestMeasurement {
  def: MeasurementDef
  ref: MeasurementRef
  table: TableDef
}

export class TestDatabase {
  readonly dataDir = mkdtempSync(join(tmpdir(), 'svc-worker-'))
  readonly shared = new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4))
  /** All events so far, as a thread that starts later is given them. */
  readonly events: StateEvent[] = []
  readonly state = new WorkerState(this.shared)
  readonly sampleBlocks: SampleBlocks
  readonly config: WorkerConfig = {
    niceness: 0,
    duckdbThreads: 2,
    memoryLimitBytes: 512e6,
    sampleCacheBytes: 64 << 20,
    tempDir: join(this.dataDir, 'tmp'),
    rowGroupRows: 122_880,
    compression: 'zstd',
    zstdLevel: 6,
  }
  memtable: Memtable
  listener: ((event: StateEvent) => void) | undefined
  private readonly slabs = usedSlabs()
  private readonly index: SeriesIndex
  private readonly times = new SeriesTimes()
  private readonly measurements = new Map<string, TestMeasurement>()
  private readonly tables = new Map<number, TableDef>()
  private duck: Duck | undefined
  private nextMemtable = 0
  nextSegment = 1

  constructor(config: Partial<WorkerConfig> = {}) {
    Object.assign(this.config, config)
    this.sampleBlocks = new SampleBlocks(this.config.sampleCacheBytes)
    this.index = new SeriesIndex(this.shared, 10_000_000, () => this.publish({ kind: 'series', arrays: this.index.arrays() }))
    this.publish({ kind: 'series', arrays: this.index.arrays() })
    this.memtable = this.newMemtable()
  }

  /** @param shared the number of the table for measurements with this single field. */
  measurement(name: string, spec: FieldSpec, options: { namespace?: string; shared?: number } = {}): TestMeasurement {
    const { namespace = 'default' } = options
    const fields: FieldDef[] = Object.entries(spec).map(([field, type], id) => ({
      id,
      name: field,
      column: field,
      type: typeof type === 'string' ? type : 'decimal',
      scale: typeof type === 'string' ? 0 : type.decimal,
    }))
    const id = this.measurements.get(`${namespace}/${name}`)?.def.id ?? this.measurements.size
    const tableId = options.shared ?? 1000 + id
    const table: TableDef = { id: tableId, measurement: options.shared === undefined ? id : -1, fields }
    const def: MeasurementDef = {
      id,
      namespace,
      name,
      fields,
      tables: [...new Set([...(this.measurements.get(`${namespace}/${name}`)?.def.tables ?? []), tableId])],
    }
    const ref: MeasurementRef = { namespace, name, id, fields: new Map(fields.map((field) => [field.name, field])) }
    const measurement = { def, ref, table }
    this.measurements.set(`${namespace}/${name}`, measurement)
    this.tables.set(tableId, table)
    this.publish({ kind: 'table', def: table })
    this.publish({ kind: 'measurement', def })
    return measurement
  }

  /** Applies points as one batch, visible at once. */
  write(measurement: TestMeasurement, points: readonly TestPoint[]): void {
    const heap = new ByteHeap()
    const batch = new TableBatch(measurement.ref)
    for (const { tags = {}, time, fields } of points) {
      const row = batch.addRow(this.series(measurement, tags), Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
      for (const [name, value] of Object.entries(fields)) {
        const field = measurement.def.fields.find((f) => f.name === name)!
        const column = batch.column(name, field.type)
        if (field.type === 'float64') setFloat(column, row, value as number | bigint)
        else if (field.type === 'bool') column.setBool(row, value as boolean)
        else if (field.type === 'decimal') column.setDecimal(row, value as bigint, field.scale)
        else if (field.type === 'string' || field.type === 'histogram') {
          const bytes = typeof value === 'string' ? new TextEncoder().encode(value) : (value as Uint8Array)
          const at = heap.reserve(bytes.length)
          heap.bytes.set(bytes, at)
          column.setPair(row, at, bytes.length)
        } else column.setPair(row, Number(BigInt.asIntN(32, value as bigint)), Number(BigInt.asIntN(32, (value as bigint) >> 32n)))
      }
    }
    this.append(measurement, batch, heap.bytes)
  }

  /** The number of a series, new or known. */
  series(measurement: TestMeasurement, tags: Record<string, string>): number {
    return admitted(this.index, measurement.ref, Object.entries(tags).flat())
  }

  /** Gives series back that have no rows left. */
  release(series: readonly number[]): void {
    this.publish({ kind: 'series-released', series: this.index.release(Int32Array.from(series)) })
  }

  append(measurement: TestMeasurement, batch: TableBatch, heapBytes: Uint8Array = new Uint8Array(0)): void {
    for (let row = 0; row < batch.rows; row++) {
      this.times.ensure(batch.series[row])
      this.memtable.ensureSeries(batch.series[row])
    }
    const targets = batch.columns.map((column) => measurement.def.fields.find((f) => f.name === column.name)!)
    Atomics.add(this.shared, Shared.SEQ, 1)
    this.index.publish(this.index.count - 1)
    this.memtable.append(measurement.table.id, batch, heapBytes, measurement.table.fields, targets, this.times)
    Atomics.add(this.shared, Shared.SEQ, 1)
  }

  /** Starts a new memtable and returns the one before it. */
  freeze(): number {
    const { id } = this.memtable
    this.memtable = this.newMemtable()
    return id
  }

  async context(): Promise<RelationContext> {
    this.duck ??= new Duck(this.config, this.dataDir)
    return { state: this.state, duck: this.duck, dictionaries: new TagDictionaries(this.state.series), dataDir: this.dataDir, sampleBlocks: this.sampleBlocks }
  }

  /** The next context has an instance of its own, with the settings as they are then. */
  reopen(): void {
    this.duck?.close()
    this.duck = undefined
  }

  async target(): Promise<SegmentTarget> {
    return { duck: (await this.context()).duck, dataDir: this.dataDir, config: this.config, now: Date.now }
  }

  /** Freezes the memtable, writes it out, and makes the segments take its place. @param id of a frozen memtable. */
  async flush(id: number = this.freeze()): Promise<SegmentMeta[]> {
    const added = await flushMemtable(this.state, this.state.memtable(id), this.nextSegment, await this.target())
    this.nextSegment += added.length
    this.publish({ kind: 'segments', added, removed: [], droppedMemtable: id })
    return added
  }

  publish(event: StateEvent): void {
    this.events.push(event)
    Atomics.add(this.shared, Shared.EVENTS, 1)
    this.state.apply(event)
    this.listener?.(event)
  }

  close(): void {
    this.duck?.close()
    rmSync(this.dataDir, { recursive: true, force: true })
  }

  private newMemtable(): Memtable {
    const id = this.nextMemtable++
    this.times.rebase()
    const memory = new MemtableMemory(this.slabs)
    return new Memtable({ id, sequence: id + 1, firstWal: 0, seriesCapacity: 1024, memory, publish: (event) => this.publish(event) })
  }
}

/** Memory of memtables as it is once it has been used: whoever reads what was not written reads nonsense. */
function usedSlabs(): SlabPool {
  const pool = new SlabPool({ memtableBytes: 8 << 20, keptBytes: 1 << 30 })
  const used = Array.from({ length: 3 }, () => pool.take(1))
  for (const buffer of used) new Uint8Array(buffer).fill(0xa5)
  pool.give(used)
  return pool
}

/** A bigint is a float's bits. */
function setFloat(column: Column, row: number, value: number | bigint): void {
  if (typeof value === 'number') column.setF64(row, value)
  else column.setPair(row, Number(BigInt.asIntN(32, value)), Number(BigInt.asIntN(32, value >> 32n)))
  if (!Number.isFinite(column.f64[row])) column.nonFinite = true
}

/** Chunks as plain points: what an assertion can compare. */
export async function collect(chunks: AsyncIterable<SeriesChunk>): Promise<{ tags: Record<string, string>; time: bigint; fields: Record<string, unknown> }[]> {
  const out = []
  for await (const { tags, times, columns } of chunks) {
    for (let i = 0; i < times.length; i++) {
      const fields: Record<string, unknown> = {}
      for (const { name, type, values, validity } of columns) if (validity?.[i] !== 0) fields[name] = type === 'bool' ? values[i] === 1 : values[i]
      out.push({ tags, time: times[i], fields })
    }
  }
  return out
}
