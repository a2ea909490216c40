/**
 * The catalog: LMDB, one environment, keyed by text. Holds everything that is not rows: the format version, measurements, tables, series,
 * symbols, the segment manifest with the WAL position it covers, and the plugins' state. Layout: docs/formats/catalog.md.
 *
 * Invariant: `commit` is one transaction, durable when it resolves: a flush or a compaction is visible with its WAL position or not at all.
 */

import { ByteReader, ByteWriter } from '../../common/log/bytes.ts'
import type { Identity } from '../archive/owner.ts'
import { type Environment, realEnvironment } from '../environment.ts'
import { NO_CUTOFFS } from '../retention/cutoffs.ts'
import {
  type EndedDrops,
  hasBlocks,
  loadCutoffs,
  loadCuts,
  loadTaken,
  loadTombstone,
  type StoredCutoffs,
  type StoredCuts,
  type StoredDrop,
  type StoredTaken,
  type StoredTombstone,
  seriesBytes,
} from '../retention/stored.ts'
import { NOTHING_TAKEN, type TakenTimes } from '../retention/taken-times.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import { RELEASED } from '../series/series-index.ts'
import type { Slices } from '../slices.ts'
import type { MeasurementDef, TableDef } from '../threads/definitions.ts'
import type { RetentionCutoffs, Tombstone } from '../threads/removals.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { CatalogStore, type CatalogWrites } from './store.ts'

/** Series and symbols are stored in blocks of this many: few keys, and a new one rewrites one block. */
export const BLOCK = 1024

const IDENTITY = 'meta/identity'
const ID_BYTES = 16

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

interface CatalogChange {
  counters: Counters
  /** Keys and values; undefined removes. */
  entries: [key: string, value: unknown][]
  segmentsAdded?: readonly SegmentMeta[]
  segmentsRemoved?: readonly number[]
  /** Blocks of series with some that were given back. */
  seriesBlocks: readonly number[]
  /** Tombstones whose entries are among `entries`, and numbers of those whose entries are removed. */
  tombstones: readonly Tombstone[]
  tombstonesRemoved: readonly number[]
}

/** The measurements that series of a range had before they were given back in a record that is not durable yet. */
interface Owners {
  ownersBefore(from: number, to: number): ReadonlyMap<number, number>
}

/** Series of a tombstone in a block. */
const MASK_BLOCK = 16_384

export class Catalog {
  readonly store: CatalogStore
  /** Series of tombstones that lie in blocks, and how many blocks of them are stored. */
  private readonly masks = new Map<number, { series: Int32Array; blocks: number }>()
  private storedSeries = 0
  private storedSymbols = 0

  private readonly random: Environment['random']

  constructor(store: CatalogStore, random: Environment['random']) {
    this.store = store
    this.random = random
  }

  /** @param mayCreate, slices as in `CatalogStore.open`. */
  static async open(
    dir: string,
    mayCreate: boolean,
    environment: Pick<Environment, 'fs' | 'openStore' | 'random'> = realEnvironment,
    slices?: Slices,
  ): Promise<Catalog> {
    return new Catalog(await CatalogStore.open(dir, mayCreate, environment, slices), environment.random)
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

  /** What is made of each segment. Nobody writes to the catalog meanwhile. */
  async eachSegment<R>(make: (segment: SegmentMeta) => R, slices: Slices): Promise<R[]> {
    const made: R[] = []
    for (const { bytes } of this.store.range(prefixed('segment/'))) {
      made.push(make(parse(bytes)))
      if (made.length % slices.size === 0) await slices.next()
    }
    return made
  }

  /** Fills the index with the stored symbols and series, which are published then. For a start: nothing was stored since the catalog was opened. */
  loadSeries(index: SeriesIndex): void {
    this.storedSeries = 0
    this.storedSymbols = 0
    this.makeRoom(index)
    const { symbols } = index
    for (let block = 0; ; block++) {
      const bytes = this.store.checked(key('symbols', block))
      if (bytes === undefined) break
      const reader = new ByteReader(bytes)
      for (let n = reader.varint(); n > 0; n--) {
        const length = reader.varint()
        const at = reader.take(length)
        // The empty text is there from the start.
        if (this.storedSymbols++ >= symbols.count) symbols.restore(reader.bytes, at, at + length)
      }
    }
    symbols.publish(symbols.count)
    let tuple = new Int32Array(256)
    for (let block = 0; ; block++) {
      const bytes = this.store.checked(key('series', block))
      if (bytes === undefined) break
      const reader = new ByteReader(bytes)
      for (let n = reader.varint(); n > 0; n--) {
        const measurement = reader.varint() - 1
        this.storedSeries++
        if (measurement === RELEASED) {
          index.restoreReleased()
          continue
        }
        const length = reader.varint() * 2 + 1
        if (tuple.length < length) tuple = new Int32Array(length * 2)
        tuple[0] = measurement
        for (let i = 1; i < length; i++) tuple[i] = reader.varint()
        index.restoreSymbols(tuple, length)
      }
    }
    index.publish(index.count - 1)
  }

  /** From what the first blocks take, room for what all of them will. */
  private makeRoom(index: SeriesIndex): void {
    const count = (kind: string): number => [...this.store.keys(`${kind}/`)].length
    const [symbols, series] = [count('symbols'), count('series')]
    const [texts, numbers] = [this.store.get(key('symbols', 0)), this.store.get(key('series', 0))]
    // The newest series has as many tags as any other, mostly; if not, the arrays grow.
    const tags = numbers === undefined ? 0 : 2 * tagsOfFirst(numbers)
    index.reserve(series * BLOCK, series * BLOCK * tags, symbols * BLOCK, symbols * (texts?.length ?? 0))
  }

  /**
   * Stores a change, and the symbols and series that are new.
   * @param make gives the change when the commit's turn has come: those before it are durable then, or have failed and left nothing.
   * @param stored called when it is durable, before the next commit's `make`; must not throw.
   * @param ready resolves when the log has, durably, all that `make` has read the effect of.
   * @param owners of series whose release is not durable: they are stored as they were.
   * @throws as CatalogStore.transaction, and what `make` throws: nothing was stored.
   */
  async commit(make: () => CatalogChange, index: SeriesIndex, owners: Owners, stored: () => void, ready?: () => Promise<void>): Promise<void> {
    let symbols = 0
    let series = 0
    let tombstones: readonly Tombstone[] = []
    let removed: readonly number[] = []
    await this.store.transaction(
      (tx) => {
        const change = make()
        symbols = index.symbols.published
        series = index.publishedCount
        tx.putJson('meta/counters', change.counters)
        putEntries(tx, change.entries)
        for (const segment of change.segmentsAdded ?? []) tx.putJson(key('segment', segment.id), segment)
        for (const id of change.segmentsRemoved ?? []) tx.remove(key('segment', id))
        tombstones = change.tombstones
        removed = change.tombstonesRemoved
        for (const tombstone of tombstones) this.putMasked(tx, tombstone, Number.POSITIVE_INFINITY)
        for (const id of removed) for (const name of this.store.keys(masksOf(id))) tx.remove(name)
        this.putReleased(tx, change.seriesBlocks, index, Math.max(this.storedSeries, series), owners)
        this.putBlocks(tx, 'symbols', this.storedSymbols, symbols, (from, to) => encodeSymbols(index, from, to))
        this.putBlocks(tx, 'series', this.storedSeries, series, (from, to) => encodeSeries(index, from, to, owners))
      },
      () => {
        this.storedSymbols = Math.max(this.storedSymbols, symbols)
        this.storedSeries = Math.max(this.storedSeries, series)
        for (const tombstone of tombstones)
          if (tombstone.series !== null && hasBlocks(tombstone)) this.masks.set(tombstone.id, { series: tombstone.series, blocks: blocksOf(tombstone.series) })
        for (const id of removed) this.masks.delete(id)
        stored()
      },
      ready,
    )
  }

  /** Blocks of symbols and series that a commit would have to write. */
  unstoredBlocks(index: SeriesIndex): number {
    return Math.floor((Math.max(0, index.symbols.published - this.storedSymbols) + Math.max(0, index.publishedCount - this.storedSeries)) / BLOCK)
  }

  /** Stores up to so many blocks of symbols, or, when all are stored, of series. @param owners, ready as in `commit`. */
  async storeSeries(index: SeriesIndex, blocks: number, owners: Owners, ready: () => Promise<void>): Promise<void> {
    const end = (stored: number): number => (Math.floor(stored / BLOCK) + blocks) * BLOCK
    let symbols = 0
    let series = 0
    await this.store.transaction(
      (tx) => {
        symbols = Math.min(index.symbols.published, end(this.storedSymbols))
        series = symbols < index.symbols.published ? this.storedSeries : Math.min(index.publishedCount, end(this.storedSeries))
        this.putBlocks(tx, 'symbols', this.storedSymbols, symbols, (from, to) => encodeSymbols(index, from, to))
        this.putBlocks(tx, 'series', this.storedSeries, series, (from, to) => encodeSeries(index, from, to, owners))
      },
      () => {
        this.storedSymbols = Math.max(this.storedSymbols, symbols)
        this.storedSeries = Math.max(this.storedSeries, series)
      },
      ready,
    )
  }

  /** Stores entries of definitions. @param make gives them when their turn has come; undefined = there is no such entry any more. @param stored, ready as in `commit`. */
  async storeEntries(make: () => CatalogChange['entries'], stored: () => void, ready: () => Promise<void>): Promise<void> {
    await this.store.transaction((tx) => putEntries(tx, make()), stored, ready)
  }

  /**
   * Writes blocks with series that were given back again.
   * @param blocks gives them when their turn has come. @param owners, stored, ready as in `commit`.
   */
  async storeReleased(blocks: () => Iterable<number>, index: SeriesIndex, owners: Owners, stored: () => void, ready: () => Promise<void>): Promise<void> {
    await this.store.transaction((tx) => this.putReleased(tx, blocks(), index, this.storedSeries, owners), stored, ready)
  }

  /** Whether blocks of a tombstone's series are not stored. */
  lacksMasked({ id, series }: Tombstone): boolean {
    return series !== null && hasBlocks({ series }) && this.storedMasks(id, series) < blocksOf(series)
  }

  /** Stores up to so many blocks of a tombstone's series. @param find gives it when its turn has come; undefined = it is gone. @param ready as in `commit`. */
  async storeMasked(find: () => Tombstone | undefined, blocks: number, ready: () => Promise<void>): Promise<void> {
    let found: Tombstone | undefined
    let end = 0
    await this.store.transaction(
      (tx) => {
        found = find()
        if (found !== undefined) end = this.putMasked(tx, found, blocks)
      },
      () => {
        if (found?.series != null && hasBlocks(found)) this.masks.set(found.id, { series: found.series, blocks: end })
      },
      ready,
    )
  }

  tombstones(): Tombstone[] {
    return this.all<StoredTombstone>('tombstone/').map((stored) => {
      const { id } = stored
      // Blocks behind its own are of one that had the number before, and was never stored whole.
      const end = (): string => maskKey(id, Math.ceil(Number(stored.series) / MASK_BLOCK))
      const tombstone = loadTombstone(stored, () => [...this.store.range({ start: masksOf(id), end: end() })].map(({ bytes }) => bytes))
      if (typeof stored.series === 'number' && tombstone.series !== null) this.masks.set(id, { series: tombstone.series, blocks: blocksOf(tombstone.series) })
      return tombstone
    })
  }

  cutoffs(): RetentionCutoffs {
    const stored = this.store.getJson<StoredCutoffs>('meta/retention')
    if (stored !== undefined) return loadCutoffs(stored)
    const cuts = this.store.getJson<StoredCuts>('meta/cuts')
    return cuts === undefined ? NO_CUTOFFS : loadCuts(cuts, this.counters()?.nextTombstone ?? 1)
  }

  /** What an earlier server has taken it has not noted. */
  taken(): TakenTimes {
    const stored = this.store.getJson<StoredTaken>('meta/taken')
    return stored === undefined ? NOTHING_TAKEN : loadTaken(stored)
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

  /** Which database this is; makes that up when it is new or was made from a backup. Durable when it resolves. */
  async identity(): Promise<Identity> {
    const known = this.store.getJson<Partial<Identity>>(IDENTITY)
    if (known?.id !== undefined) return known as Identity
    return this.store.transaction((tx) => {
      const now = this.store.getJson<Partial<Identity>>(IDENTITY)
      if (now?.id !== undefined) return now as Identity
      const made: Identity = { ...now, id: this.random(ID_BYTES).toString('hex') }
      tx.putJson(IDENTITY, made)
      return made
    })
  }

  /** Makes a copy another database than the one it was copied from: each that is opened gives itself an id. */
  async disown(): Promise<void> {
    const { id } = this.store.getJson<Partial<Identity>>(IDENTITY) ?? {}
    if (id !== undefined) await this.store.transaction((tx) => tx.putJson(IDENTITY, { parent: id }))
  }

  /** @param stored how many series the catalog has, or has after the transaction. */
  private putReleased(tx: CatalogWrites, blocks: Iterable<number>, index: SeriesIndex, stored: number, owners: Owners): void {
    for (const block of blocks)
      if (block * BLOCK < stored) tx.put(key('series', block), encodeSeries(index, block * BLOCK, Math.min(stored, (block + 1) * BLOCK), owners))
  }

  /** Writes up to so many of the blocks of a tombstone's series that are not stored. @returns how many are stored then. */
  private putMasked(tx: CatalogWrites, { id, series }: Tombstone, blocks: number): number {
    if (series === null || !hasBlocks({ series })) return 0
    const from = this.storedMasks(id, series)
    const to = Math.min(blocksOf(series), from + blocks)
    for (let block = from; block < to; block++) tx.put(maskKey(id, block), seriesBytes(series.subarray(block * MASK_BLOCK, (block + 1) * MASK_BLOCK)))
    return to
  }

  private storedMasks(id: number, series: Int32Array): number {
    const known = this.masks.get(id)
    return known?.series === series ? known.blocks : 0
  }

  logNote(): LogNote | undefined {
    return this.store.getJson<LogNote>('meta/log')
  }

  async noteLog(note: LogNote): Promise<void> {
    await this.store.transaction((tx) => tx.putJson('meta/log', note))
  }

  /** Whether changes are followed: a restart goes on keeping what their readers need. */
  get followed(): boolean {
    return this.store.getJson<{ followed: boolean }>('meta/changes')?.followed === true
  }

  async noteFollowed(followed: boolean): Promise<void> {
    await this.store.transaction((tx) => tx.putJson('meta/changes', { followed }))
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
    return [...this.store.range(prefixed(prefix))].map(({ bytes }) => parse<T>(bytes))
  }
}

const prefixed = (prefix: string): { start: string; end: string } => ({ start: prefix, end: `${prefix}\uffff` })
const parse = <T>(bytes: Uint8Array): T => JSON.parse(new TextDecoder().decode(bytes))

export const blockKey = (kind: string, id: number): string => `${kind}/${String(id).padStart(10, '0')}`
const key = blockKey
const blocksOf = (series: Int32Array): number => Math.ceil(series.length / MASK_BLOCK)
const masksOf = (tombstone: number): string => `${key('masked', tombstone)}/`
const maskKey = (tombstone: number, block: number): string => `${masksOf(tombstone)}${String(block).padStart(10, '0')}`

function putEntries(tx: CatalogWrites, entries: CatalogChange['entries']): void {
  for (const [name, value] of entries) {
    if (value === undefined) tx.remove(name)
    else tx.putJson(name, value)
  }
}

/** How many tags the first series of a block has that was not given back. */
function tagsOfFirst(block: Uint8Array): number {
  const reader = new ByteReader(block)
  for (let n = reader.varint(); n > 0; n--) if (reader.varint() !== RELEASED + 1) return reader.varint()
  return 0
}

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
    const owner = index.measurement[series] === RELEASED ? (before.get(series) ?? RELEASED) : index.measurement[series]
    out.varint(owner + 1)
    if (owner === RELEASED) continue
    out.varint((index.offsets[series + 1] - index.offsets[series]) / 2)
    for (let i = index.offsets[series]; i < index.offsets[series + 1]; i++) out.varint(index.tags[i])
  }
  return Buffer.from(out.bytes.subarray(0, out.length))
}
