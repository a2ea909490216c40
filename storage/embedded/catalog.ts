/**
 * The catalog: LMDB, one environment, keyed by text. Holds everything that is not rows: the format version, measurements, tables, series,
 * symbols, the segment manifest with the WAL position it covers, and the plugins' state. Layout: docs/formats/catalog.md.
 *
 * Invariant: `commit` is one transaction, durable when it resolves: a flush or a compaction is visible with its WAL position or not at all.
 */
import { CatalogStore, type CatalogWrites } from './catalog-store.ts'
import type { Cuts, MeasurementDef, SegmentMeta, TableDef, Tombstone } from './layout.ts'
import type { LifetimeWrites } from './lifetime/store.ts'
import {
  type EndedDrops,
  hasBlocks,
  loadCuts,
  loadTombstone,
  type StoredCuts,
  type StoredDrop,
  type StoredTombstone,
  seriesBytes,
  storeCuts,
  storeTombstone,
} from './lifetime/stored.ts'
import type { SeriesIndex } from './series-index.ts'
import { RELEASED } from './series-index.ts'
import { ByteReader, ByteWriter } from './wal/bytes.ts'

/** Series and symbols are stored in blocks of this many: few keys, and a new one rewrites one block. */
export const BLOCK = 1024

export interface Counters {
  nextSegment: number
  nextSequence: number
  nextTable: number
  nextMeasurement: number
  /** Absent in data of format version 1. */
  nextTombstone?: number
  /** Sequence of the newest log record that was applied; absent likewise. */
  walSequence?: number
  /** First WAL file that is not wholly in segments. */
  walFloor: number
  /** Newest admitted time of each namespace, nanoseconds as decimal text. */
  newest: Record<string, string>
}

/** What there is of the log: without it, a file that is gone from its end, or that ends early between two records, could not be missed. */
export interface LogNote {
  /** The newest file. */
  newest: number
  /** Bytes of the files before it that are still needed. */
  sizes: Record<string, number>
}

export interface CatalogChange {
  counters: Counters
  measurements?: MeasurementDef[]
  tables?: TableDef[]
  segmentsAdded?: SegmentMeta[]
  segmentsRemoved?: number[]
  lifetime?: LifetimeWrites
}

/** The measurements that series of a range had before they were given back in a record that is not durable yet. */
interface Owners {
  ownersBefore(from: number, to: number): ReadonlyMap<number, number>
}

/** Series of a tombstone in a block. */
const MASK_BLOCK = 16_384

export class Catalog {
  readonly store: CatalogStore
  /** Series of tombstones that lie in blocks, and how many blocks are stored. */
  private readonly masks = new Map<number, { series: Int32Array | undefined; blocks: number }>()
  private storedSeries = 0
  private storedSymbols = 0

  constructor(store: CatalogStore) {
    this.store = store
  }

  /** @param mayCreate as in `CatalogStore.open`. */
  static async open(dir: string, mayCreate: boolean): Promise<Catalog> {
    return new Catalog(await CatalogStore.open(dir, mayCreate))
  }

  counters(): Counters | undefined {
    return this.store.getJson<Counters>('meta/counters')
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
      const bytes = this.store.get(key('symbols', block))
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
      const bytes = this.store.get(key('series', block))
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

  /**
   * @param series the number of series that must be in the catalog after the commit.
   * @param owners of series whose release is not durable: they are stored as they were.
   */
  async commit(change: CatalogChange, index: SeriesIndex, series: number, owners: Owners): Promise<void> {
    const symbols = index.symbols.count
    await this.store.transaction((tx) => {
      tx.putJson('meta/counters', change.counters)
      for (const def of change.measurements ?? []) tx.putJson(key('measurement', def.id), def)
      for (const def of change.tables ?? []) tx.putJson(key('table', def.id), def)
      for (const segment of change.segmentsAdded ?? []) tx.putJson(key('segment', segment.id), segment)
      for (const id of change.segmentsRemoved ?? []) tx.remove(key('segment', id))
      if (change.lifetime !== undefined) this.putLifetime(tx, change.lifetime, index, series, owners)
      this.putBlocks(tx, 'symbols', this.storedSymbols, symbols, (from, to) => encodeSymbols(index, from, to))
      this.putBlocks(tx, 'series', this.storedSeries, series, (from, to) => encodeSeries(index, from, to, owners))
    })
    this.storedSymbols = Math.max(this.storedSymbols, symbols)
    this.storedSeries = Math.max(this.storedSeries, series)
    for (const tombstone of change.lifetime?.tombstones ?? [])
      if (tombstone.series !== null && hasBlocks(tombstone))
        this.masks.set(tombstone.id, { series: tombstone.series, blocks: Math.ceil(tombstone.series.length / MASK_BLOCK) })
    for (const id of change.lifetime?.tombstonesRemoved ?? []) this.masks.delete(id)
  }

  /** Blocks of symbols and series that a commit would have to write. */
  unstoredBlocks(index: SeriesIndex): number {
    return Math.floor((index.symbols.count - this.storedSymbols + Math.max(0, index.publishedCount - this.storedSeries)) / BLOCK)
  }

  /** Stores up to so many blocks of symbols, or, when all are stored, of series. */
  async storeSeries(index: SeriesIndex, blocks: number, owners: Owners): Promise<void> {
    const end = (stored: number): number => (Math.floor(stored / BLOCK) + blocks) * BLOCK
    const symbols = Math.min(index.symbols.count, end(this.storedSymbols))
    const series = symbols < index.symbols.count ? this.storedSeries : Math.min(index.publishedCount, end(this.storedSeries))
    await this.store.transaction((tx) => {
      this.putBlocks(tx, 'symbols', this.storedSymbols, symbols, (from, to) => encodeSymbols(index, from, to))
      this.putBlocks(tx, 'series', this.storedSeries, series, (from, to) => encodeSeries(index, from, to, owners))
    })
    this.storedSymbols = Math.max(this.storedSymbols, symbols)
    this.storedSeries = Math.max(this.storedSeries, series)
  }

  /**
   * Writes blocks with series that were given back again.
   * @param stampOf what changes with the next release in a block. @returns the stamps that are stored.
   */
  async storeReleased(
    index: SeriesIndex,
    blocks: readonly number[],
    owners: Owners,
    stampOf: (block: number) => number | undefined,
  ): Promise<[block: number, stamp: number][]> {
    let stamps: [block: number, stamp: number][] = []
    await this.store.transaction((tx) => {
      stamps = blocks.flatMap((block): [number, number][] => {
        const stamp = stampOf(block)
        return stamp === undefined ? [] : [[block, stamp]]
      })
      this.putReleased(tx, blocks, index, this.storedSeries, owners)
    })
    return stamps
  }

  /** Stores up to so many blocks of a tombstone's series. @returns false when none was missing. */
  async storeMasked(tombstone: Tombstone, blocks: number): Promise<boolean> {
    const { id, series } = tombstone
    if (series === null || !hasBlocks(tombstone)) return false
    const all = Math.ceil(series.length / MASK_BLOCK)
    const known = this.masks.get(id)
    const from = known?.series === series ? known.blocks : 0
    if (from >= all) return false
    const to = Math.min(all, from + blocks)
    await this.store.transaction((tx) => {
      for (let block = from; block < to; block++) tx.put(maskKey(id, block), seriesBytes(series.subarray(block * MASK_BLOCK, (block + 1) * MASK_BLOCK)))
    })
    this.masks.set(id, { series, blocks: to })
    return true
  }

  tombstones(): Tombstone[] {
    for (const key of this.store.keys('masked/')) {
      const id = Number(key.split('/')[1])
      this.masks.set(id, { series: undefined, blocks: (this.masks.get(id)?.blocks ?? 0) + 1 })
    }
    return this.all<StoredTombstone>('tombstone/').map((stored) => {
      const tombstone = loadTombstone(stored, () => this.maskBlocks(stored.id))
      const known = this.masks.get(stored.id)
      if (known !== undefined) known.series = tombstone.series ?? undefined
      return tombstone
    })
  }

  cuts(): Cuts {
    return loadCuts(this.store.getJson<StoredCuts>('meta/cuts'))
  }

  drops(): StoredDrop[] {
    return this.all<StoredDrop>('drop/')
  }

  endedDrops(): EndedDrops {
    return this.store.getJson<EndedDrops>('meta/ended-drops') ?? []
  }

  /** Own tables of measurements that are gone → the log file being written when they went. */
  goneTables(): [table: number, file: number][] {
    return this.all<{ table: number; file: number }>('gone/').map(({ table, file }) => [table, file])
  }

  private *maskBlocks(id: number): Generator<Uint8Array> {
    for (const { bytes } of this.store.range({ start: `${key('masked', id)}/`, end: `${key('masked', id)}/\uffff` })) yield bytes
  }

  private putLifetime(tx: CatalogWrites, change: LifetimeWrites, index: SeriesIndex, series: number, owners: Owners): void {
    for (const tombstone of change.tombstones) {
      tx.putJson(key('tombstone', tombstone.id), storeTombstone(tombstone))
      this.putMasked(tx, tombstone)
    }
    for (const id of change.tombstonesRemoved) {
      tx.remove(key('tombstone', id))
      for (let block = 0; block < (this.masks.get(id)?.blocks ?? 0); block++) tx.remove(maskKey(id, block))
    }
    for (const drop of change.drops) tx.putJson(key('drop', drop.measurement), drop)
    for (const id of change.dropsRemoved) tx.remove(key('drop', id))
    for (const id of change.measurementsGone) tx.remove(key('measurement', id))
    for (const { table, file } of change.tablesGone) {
      tx.remove(key('table', table))
      tx.putJson(key('gone', table), { table, file })
    }
    for (const table of change.tablesForgotten) tx.remove(key('gone', table))
    if (change.cuts !== undefined) tx.putJson('meta/cuts', storeCuts(change.cuts))
    if (change.ended !== undefined) tx.putJson('meta/ended-drops', change.ended)
    this.putReleased(tx, change.released, index, Math.max(this.storedSeries, series), owners)
  }

  /** @param stored how many series the catalog has, or has after the transaction. */
  private putReleased(tx: CatalogWrites, blocks: Iterable<number>, index: SeriesIndex, stored: number, owners: Owners): void {
    for (const block of blocks)
      if (block * BLOCK < stored) tx.put(key('series', block), encodeSeries(index, block * BLOCK, Math.min(stored, (block + 1) * BLOCK), owners))
  }

  /** What is not stored ahead of the tombstone's series. */
  private putMasked(tx: CatalogWrites, tombstone: Tombstone): void {
    const { id, series } = tombstone
    if (series === null || !hasBlocks(tombstone)) return
    const known = this.masks.get(id)
    const from = known?.series === series ? known.blocks : 0
    const to = Math.ceil(series.length / MASK_BLOCK)
    for (let block = from; block < to; block++) tx.put(maskKey(id, block), seriesBytes(series.subarray(block * MASK_BLOCK, (block + 1) * MASK_BLOCK)))
  }

  logNote(): LogNote | undefined {
    return this.store.getJson<LogNote>('meta/log')
  }

  async noteLog(note: LogNote): Promise<void> {
    await this.store.transaction((tx) => tx.putJson('meta/log', note))
  }

  /** Changes what the entry of a segment says, if the segment is still there. */
  async amendSegment(id: number, change: Partial<SegmentMeta>): Promise<void> {
    await this.store.transaction((tx) => {
      const known = this.store.getJson<SegmentMeta>(key('segment', id))
      if (known !== undefined) tx.putJson(key('segment', id), { ...known, ...change })
    })
  }

  async removeSegments(ids: readonly number[]): Promise<void> {
    await this.store.transaction((tx) => {
      for (const id of ids) tx.remove(key('segment', id))
    })
  }

  async close(): Promise<void> {
    await this.store.close()
  }

  /** Writes the blocks that hold entries from `stored` up to `count`. */
  private putBlocks(tx: CatalogWrites, kind: string, stored: number, count: number, encode: (from: number, to: number) => Uint8Array): void {
    if (stored >= count) return
    for (let block = Math.floor(stored / BLOCK); block * BLOCK < count; block++)
      tx.put(key(kind, block), encode(block * BLOCK, Math.min(count, (block + 1) * BLOCK)))
  }

  private all<T>(prefix: string): T[] {
    return [...this.store.range({ start: prefix, end: `${prefix}\uffff` })].map(({ bytes }) => JSON.parse(new TextDecoder().decode(bytes)) as T)
  }
}

export const blockKey = (kind: string, id: number): string => `${kind}/${String(id).padStart(10, '0')}`
const key = blockKey
const maskKey = (tombstone: number, block: number): string => `${key('masked', tombstone)}/${String(block).padStart(10, '0')}`

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

function encodeSeries(index: SeriesIndex, from: number, to: number, owners: Owners): Uint8Array {
  const out = new ByteWriter(1 << 14)
  out.varint(to - from)
  const before = owners.ownersBefore(from, to)
  for (let series = from; series < to; series++) {
    // Provisional ones too: whether they become live is not known yet, and the block may never be written again.
    const owner = index.measurement[series] === RELEASED ? (before.get(series) ?? RELEASED) : index.measurement[series]
    out.varint(owner + 1)
    if (owner === RELEASED) continue
    out.varint((index.offsets[series + 1] - index.offsets[series]) / 2)
    for (let i = index.offsets[series]; i < index.offsets[series + 1]; i++) out.varint(index.tags[i])
  }
  return Buffer.from(out.bytes.subarray(0, out.length))
}
