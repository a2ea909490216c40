/**
 * The catalog: LMDB, one environment, keyed by text. Holds everything that is not rows: the format version, measurements, tables, series,
 * symbols, the segment manifest with the WAL position it covers, and the plugins' state. Layout: docs/formats/catalog.md.
 *
 * Invariant: `commit` is one transaction, durable when it resolves: a flush or a compaction is visible with its WAL position or not at all.
 */
import { mkdirSync } from 'node:fs'
import { open, type RootDatabase } from 'lmdb'
import { SvcError } from '../../kernel/errors.ts'
import type { MeasurementDef, SegmentMeta, TableDef } from './layout.ts'
import type { SeriesIndex } from './series-index.ts'
import { RELEASED } from './series-index.ts'
import { ByteReader, ByteWriter } from './wal/bytes.ts'

/** Rises with any change of the on-disk formats that older code cannot read. */
export const FORMAT_VERSION = 1
/** Series and symbols are stored in blocks of this many: few keys, and a new one rewrites one block. */
const BLOCK = 1024

export interface Counters {
  nextSegment: number
  nextSequence: number
  nextTable: number
  nextMeasurement: number
  /** First WAL file that is not wholly in segments. */
  walFloor: number
  /** Newest admitted time of each namespace, nanoseconds as decimal text. */
  newest: Record<string, string>
}

export interface CatalogChange {
  counters: Counters
  measurements?: MeasurementDef[]
  tables?: TableDef[]
  segmentsAdded?: SegmentMeta[]
  segmentsRemoved?: number[]
}

export class Catalog {
  readonly db: RootDatabase<unknown, string>
  private storedSeries = 0
  private storedSymbols = 0

  constructor(dir: string) {
    mkdirSync(dir, { recursive: true })
    this.db = open<unknown, string>({ path: dir, encoding: 'binary', overlappingSync: false, noMemInit: true, maxDbs: 1 }) as RootDatabase<unknown, string>
    const version = this.readJson<{ format: number }>('meta/format')
    if (version === undefined) this.db.putSync('meta/format', json({ format: FORMAT_VERSION }))
    else if (version.format !== FORMAT_VERSION) {
      const { format } = version
      void this.db.close()
      throw new SvcError(
        'CONFIG_ERROR',
        `cannot open data directory: its format is version ${format}, this svc reads version ${FORMAT_VERSION}; ${format > FORMAT_VERSION ? 'run the svc that wrote it or a newer one' : 'upgrade it with the release between them'}`,
      )
    }
  }

  counters(): Counters | undefined {
    return this.readJson<Counters>('meta/counters')
  }

  measurements(): MeasurementDef[] {
    return this.all<MeasurementDef>('measurement/')
  }

  tables(): TableDef[] {
    return this.all<TableDef>('table/')
  }

  segments(): SegmentMeta[] {
    return this.all<SegmentMeta>('segment/')
  }

  /** Fills the index with the stored symbols and series. */
  loadSeries(index: SeriesIndex): void {
    for (let block = 0; ; block++) {
      const bytes = this.read(key('symbols', block))
      if (bytes === undefined) break
      const reader = new ByteReader(bytes)
      for (let n = reader.varint(); n > 0; n--) {
        const length = reader.varint()
        const at = reader.take(length)
        index.symbols.internBytes(reader.bytes, at, at + length)
        this.storedSymbols++
      }
    }
    let pairs = new Int32Array(256)
    for (let block = 0; ; block++) {
      const bytes = this.read(key('series', block))
      if (bytes === undefined) break
      const reader = new ByteReader(bytes)
      for (let n = reader.varint(); n > 0; n--) {
        const measurement = reader.varint() - 1
        this.storedSeries++
        if (measurement === RELEASED) {
          index.restoreReleased()
          continue
        }
        const count = reader.varint()
        if (pairs.length < count * 2) pairs = new Int32Array(count * 4)
        for (let i = 0; i < count * 2; i++) pairs[i] = reader.varint()
        index.restoreSymbols(measurement, pairs, count)
      }
    }
  }

  /** @param series the number of series that must be in the catalog after the commit. */
  async commit(change: CatalogChange, index: SeriesIndex, series: number): Promise<void> {
    const symbols = index.symbols.count
    await this.db.transaction(() => {
      this.put('meta/counters', change.counters)
      for (const def of change.measurements ?? []) this.put(key('measurement', def.id), def)
      for (const def of change.tables ?? []) this.put(key('table', def.id), def)
      for (const segment of change.segmentsAdded ?? []) this.put(key('segment', segment.id), segment)
      for (const id of change.segmentsRemoved ?? []) this.db.remove(key('segment', id))
      for (let block = Math.floor(this.storedSymbols / BLOCK); block * BLOCK < symbols && this.storedSymbols < symbols; block++) {
        this.db.put(key('symbols', block), encodeSymbols(index, block * BLOCK, Math.min(symbols, (block + 1) * BLOCK)))
      }
      for (let block = Math.floor(this.storedSeries / BLOCK); block * BLOCK < series && this.storedSeries < series; block++) {
        this.db.put(key('series', block), encodeSeries(index, block * BLOCK, Math.min(series, (block + 1) * BLOCK)))
      }
    })
    await this.db.flushed
    this.storedSymbols = Math.max(this.storedSymbols, symbols)
    this.storedSeries = Math.max(this.storedSeries, series)
  }

  async close(): Promise<void> {
    await this.db.close()
  }

  private put(name: string, value: unknown): void {
    this.db.put(name, json(value))
  }

  private read(name: string): Uint8Array | undefined {
    return this.db.get(name) as Uint8Array | undefined
  }

  private readJson<T>(name: string): T | undefined {
    const bytes = this.read(name)
    return bytes === undefined ? undefined : (JSON.parse(new TextDecoder().decode(bytes)) as T)
  }

  private all<T>(prefix: string): T[] {
    const found: T[] = []
    for (const { value } of this.db.getRange({ start: prefix, end: `${prefix}\uffff` }))
      found.push(JSON.parse(new TextDecoder().decode(value as Uint8Array)) as T)
    return found
  }
}

const json = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value))
const key = (kind: string, id: number): string => `${kind}/${String(id).padStart(10, '0')}`

function encodeSymbols(index: SeriesIndex, from: number, to: number): Uint8Array {
  const out = new ByteWriter(1 << 14)
  out.varint(to - from)
  const { offsets, bytes } = index.symbols
  for (let symbol = from; symbol < to; symbol++) {
    out.varint(offsets[symbol + 1] - offsets[symbol])
    out.put(bytes.subarray(offsets[symbol], offsets[symbol + 1]))
  }
  return Buffer.from(out.bytes.subarray(0, out.length))
}

function encodeSeries(index: SeriesIndex, from: number, to: number): Uint8Array {
  const out = new ByteWriter(1 << 14)
  out.varint(to - from)
  for (let series = from; series < to; series++) {
    // Provisional ones too: whether they become live is not known yet, and the block may never be written again.
    out.varint(index.measurement[series] + 1)
    if (index.measurement[series] === RELEASED) continue
    out.varint((index.offsets[series + 1] - index.offsets[series]) / 2)
    for (let i = index.offsets[series]; i < index.offsets[series + 1]; i++) out.varint(index.tags[i])
  }
  return Buffer.from(out.bytes.subarray(0, out.length))
}
