/**
 * Series: measurement + tag set → a number, and back. Durable ones lie in shared memory for the engine threads.
 *
 * Invariants
 * - A durable number is never given to another series, and entries below Shared.SERIES never change, but for the measurement, which becomes RELEASED when
 *   a series is given back. Numbers are dense, in the order of the log's records.
 * - A series that is new has a handle (provisional-series.ts) until a row of it is admitted. Then it is promoted: it gets a number, and its texts symbols.
 *   From `publish` on, when its record is durable, look-ups find the number; a write that fails takes number and symbols back (`revoke`).
 * - live + provisional never exceeds the budget, nor those of a namespace its bounds, but for series whose giving back has failed.
 */
import type { MeasurementRef } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { ByteWriter } from '../../common/log/bytes.ts'
import { NamespaceGate } from '../../common/namespace-gate.ts'
import { widened } from '../memtable/grow.ts'
import type { SeriesArrays } from '../threads/series-layout.ts'
import { Shared } from '../threads/shared-header.ts'
import type { LateSeries } from '../wal/late-series.ts'
import type { HashKey } from './hash.ts'
import { KeyUses } from './key-uses.ts'
import { MeasurementSeries } from './measurement-series.ts'
import { FIRST_HANDLE, handlesIn, type Named, NOT_DURABLE, ProvisionalSeries, UNKNOWN } from './provisional-series.ts'
import { SeriesCounts } from './series-counts.ts'
import { SymbolTable } from './symbols.ts'
import { TagTuples } from './tag-tuples.ts'
import { RELEASED, TupleTable } from './tuple-table.ts'

export { FIRST_HANDLE, RELEASED }

const LIVE = 1
/** Bytes of a text that is copied one by one. */
const SHORT = 32
/** Bytes of text that symbols can address. */
const MAX_TEXT_BYTES = 0x7fffffff
/** Decoders may hold so many handles, or twice as many as there are series, before these are called in. */
const KEPT_HANDLES = 1 << 20

export interface SeriesIndexOptions {
  gate?: NamespaceGate
  /** Random, so that collisions cannot be prepared. */
  hashKey?: HashKey
  maxTextBytes?: number
}

export class SeriesIndex {
  readonly symbols: SymbolTable
  /** The durable live series of each measurement. */
  readonly members = new MeasurementSeries()
  /** The tag keys of each measurement, of series on their way included. */
  readonly keyUses = new KeyUses()
  live = 0
  epoch = 0
  /** Called with a series that is given back, and the measurement that it had. */
  released: ((series: number, measurement: number) => void) | undefined
  private readonly tuples: TupleTable
  private readonly provisional: ProvisionalSeries
  private state = new Uint8Array(1024)
  private symbolTuple = new Int32Array(64)
  private readonly counts = new SeriesCounts()
  private readonly names: TagTuples
  private readonly shared: Int32Array
  private readonly budget: number
  private readonly gate: NamespaceGate

  /** @param grown called when a shared array was replaced and readers must know. */
  constructor(shared: Int32Array, budget: number, grown: (arrays: SeriesArrays) => void, options: SeriesIndexOptions = {}) {
    const onGrow = (): void => grown(this.arrays())
    const { gate = new NamespaceGate(), hashKey = { low: 0, high: 0 }, maxTextBytes = MAX_TEXT_BYTES } = options
    this.shared = shared
    Atomics.store(shared, Shared.SERIES, 0)
    this.budget = budget
    this.gate = gate
    shared[Shared.HASH_KEY_LOW] = hashKey.low
    shared[Shared.HASH_KEY_HIGH] = hashKey.high
    this.symbols = new SymbolTable(shared, hashKey, onGrow)
    this.tuples = new TupleTable('shared', onGrow)
    this.provisional = new ProvisionalSeries(hashKey)
    this.names = new TagTuples(hashKey, this.symbols, this.provisional, maxTextBytes)
  }

  /** Number → measurement, or RELEASED. */
  get measurement(): Int32Array {
    return this.tuples.measurement
  }

  /** Number → start of its tags in `tags`; the end is the next one's start. */
  get offsets(): Int32Array {
    return this.tuples.offsets
  }

  get tags(): Int32Array {
    return this.tuples.tags
  }

  /** Numbers given so far; those from `publishedCount` on belong to writes on their way. */
  get count(): number {
    return this.tuples.count
  }

  arrays(): SeriesArrays {
    const { measurement, offsets, tags, symbols } = this
    return { measurement, offsets, tags, symbolOffsets: symbols.offsets, symbolBytes: symbols.bytes, symbolSlots: symbols.slots }
  }

  /** Bytes held in memory. */
  get memory(): number {
    return this.symbols.allocated + this.tuples.allocated + this.provisional.allocated + this.state.length + this.members.memory
  }

  /**
   * @param tags key, value ... validated by the caller, no empty values, any order.
   * @returns the number of a durable series, or the handle of another.
   */
  resolve(measurement: MeasurementRef, tags: readonly string[]): number {
    const mark = this.provisional.texts.count
    try {
      return this.findOrCreate(measurement, this.names.fromTexts(measurement.id, tags, false))
    } catch (error) {
      this.names.takeBack(mark)
      throw error
    }
  }

  /** As `resolve`, from ASCII bytes; see SeriesResolver.seriesAscii. Returns -1 for a key that occurs twice. */
  resolveAscii(measurement: MeasurementRef, bytes: Uint8Array, ranges: Int32Array, pairs: number): number {
    const mark = this.provisional.texts.count
    try {
      const length = this.names.fromAscii(measurement.id, bytes, ranges, pairs)
      if (length >= 0) return this.findOrCreate(measurement, length)
      this.names.takeBack(mark)
      return -1
    } catch (error) {
      this.names.takeBack(mark)
      throw error
    }
  }

  /** The measurement of a series, also of a handle; RELEASED when it is gone. */
  measurementOf(series: number): number {
    if (series < FIRST_HANDLE) return this.measurement[series]
    const number = this.provisional.numberOf(series)
    if (number >= 0) return this.measurement[number]
    return number === UNKNOWN ? RELEASED : this.provisional.measurementOf(this.provisional.entryOf(series))
  }

  isLive(series: number): boolean {
    return this.state[series] === LIVE
  }

  /** The live series that a number or handle from a decoder stands for; NOT_DURABLE: it must be promoted first; UNKNOWN: it was called in. */
  numberOf(series: number): number {
    const number = series < FIRST_HANDLE ? series : this.provisional.numberOf(series)
    return number === NOT_DURABLE || this.state[number] === LIVE ? number : UNKNOWN
  }

  /**
   * A row of a series without a number was admitted.
   * @returns its number, the next one; a lower one when the series has become durable under another handle.
   */
  promote(handle: number): number {
    const { provisional, symbols, tuples } = this
    const entry = provisional.entryOf(handle)
    const length = provisional.lengthOf(entry)
    const tuple = this.names.room(length)
    provisional.copyTuple(entry, tuple)
    const hash = provisional.hashOf(entry)
    const before = symbols.count
    let known = UNKNOWN
    let number: number
    try {
      for (let i = 1; i < length; i++) if (tuple[i] < 0) tuple[i] = this.symbolFor(~tuple[i])
      // A series whose release failed has come back meanwhile; none that has a new text.
      if (symbols.count === before) known = tuples.find(tuple, length, hash)
      number = known >= 0 ? known : tuples.append(tuple, length, hash)
    } catch (error) {
      symbols.truncate(before) // no memory
      provisional.forgetSymbols(entry, before)
      throw error
    }
    provisional.promoted(entry, number)
    if (known >= 0) this.counts.remove(tuple[0])
    else this.enliven(number)
    return number
  }

  /**
   * The write that promoted the series has failed, and all that came after it before. Decoders may hold the handles still.
   * @param handles in the order of `promote`. @param symbols how many there were before.
   */
  revoke(handles: readonly number[], symbols: number): void {
    const { provisional, tuples } = this
    const entries = handles.map((handle) => provisional.entryOf(handle))
    let clean = true
    for (let i = handles.length - 1; i >= 0; i--) {
      const number = provisional.numberOf(handles[i])
      this.state[number] = 0
      this.live--
      this.keyUses.removed(number, this.measurement[number], tuples)
      if (number === tuples.count - 1 && number >= tuples.indexed) tuples.pop()
      else {
        tuples.remove(number) // burned: somebody may name it
        clean = false
      }
    }
    if (clean) this.symbols.truncate(symbols)
    else tuples.indexReleased()
    for (const entry of entries) provisional.revoked(entry, this.symbols.count)
  }

  /**
   * Puts a series of the log back under its number; one that is there already is left as it is.
   * @param late reads those that the log defines later than one of a higher number. Other numbers left out stay released.
   */
  restore(series: number, measurementId: number, tags: readonly string[], late: () => LateSeries): void {
    if (series < this.count) return
    this.restoreUpTo(series, late)
    this.insertLive(this.names.fromTexts(measurementId, tags, true))
  }

  /** As `restore`. @param at where the tags begin in a record of the log, as `writeTags` put them there. */
  restoreLogged(series: number, measurementId: number, bytes: Uint8Array, at: number, late: () => LateSeries): void {
    if (series < this.count) return
    this.restoreUpTo(series, late)
    this.insertLive(this.names.fromLogged(measurementId, bytes, at))
  }

  /** A number of the log whose measurement is gone. @param late as in `restore`. */
  restoreGone(series: number, late: () => LateSeries): void {
    if (series < this.count) {
      this.release(Int32Array.of(series))
      return
    }
    this.restoreUpTo(series, late)
    this.restoreReleased()
  }

  private restoreUpTo(series: number, late: () => LateSeries): void {
    while (this.count < series) {
      const known = late().get(this.count)
      if (known === undefined) this.restoreReleased()
      else this.insertLive(this.names.fromTexts(known.measurement, known.tags, true))
    }
  }

  /** Makes room for so many series and texts in all, as the catalog has them. */
  reserve(series: number, tags: number, texts: number, textBytes: number): void {
    this.symbols.reserve(texts, textBytes)
    this.tuples.reserve(series, tags)
    this.members.reserve(series)
    if (series > this.state.length) this.state = widened(this.state, series)
  }

  /** As `restore`, by symbols already there. They are found when `publish` has come. @param tuple measurement, then (key, value) in the order of key text. */
  restoreSymbols(tuple: Int32Array, length: number): void {
    this.enliven(this.tuples.append(tuple, length, this.names.hash(length, tuple)))
  }

  /** A number that was given back in an earlier life of the database. */
  restoreReleased(): void {
    this.tuples.appendReleased()
    this.tuples.indexReleased()
  }

  /** Series visible to the engine threads, and those that the catalog may have: durable, or given back. */
  get publishedCount(): number {
    return Atomics.load(this.shared, Shared.SERIES)
  }

  /** The series up to this one are durable: makes them visible to the engine threads. */
  publish(series: number): void {
    if (series < this.publishedCount) return
    const { tuples } = this
    const end = series + 1
    let symbols = this.symbols.published
    if (symbols < this.symbols.count)
      for (let i = tuples.offsets[tuples.indexed]; i < tuples.offsets[end]; i++) if (tuples.tags[i] >= symbols) symbols = tuples.tags[i] + 1
    this.symbols.publish(symbols)
    // Those from `indexed` on are of writes that have become durable now; a number that was burned is not live.
    for (let number = tuples.indexed; number < end; number++) if (this.state[number] === LIVE) this.members.added(number, tuples.measurement[number])
    tuples.index(end)
    Atomics.store(this.shared, Shared.SERIES, end)
  }

  /**
   * Lets go of what provisional series need no longer. Call after each write.
   * @param quiet no batch is in a decoder's hands.
   */
  releaseProvisional(quiet: boolean): void {
    const { provisional, tuples } = this
    const dropped = (measurement: number): void => this.counts.remove(measurement)
    if (quiet && tuples.indexed === tuples.count) {
      if (provisional.isEmpty) return
      this.names.forgetOrder()
      if (provisional.forget(this.keptHandles, dropped)) this.epoch++
      return
    }
    if (quiet && provisional.dropPending(dropped)) this.epoch++
    if (provisional.isCrowded(tuples.count - tuples.indexed)) {
      this.names.forgetOrder()
      provisional.compact(tuples.indexed, this.symbols.published)
    }
  }

  /** Handles from here on were not given yet. */
  get nextHandle(): number {
    return this.provisional.nextHandle
  }

  /** Lets go of series that were never stored: those with handles below `end` that no open batch has rows of. Call when all of these were taken since. */
  dropUnnamed(end: number, open: Iterable<Named>): void {
    const { provisional } = this
    const isLong = provisional.handed > this.keptHandles
    if (provisional.pending === 0 && !isLong) return
    const named = handlesIn(open)
    const invalid = provisional.dropPending((measurement) => this.counts.remove(measurement), end, named)
    if ((isLong && provisional.callIn(end, named)) || invalid) this.epoch++
  }

  private get keptHandles(): number {
    return Math.max(KEPT_HANDLES, this.live * 2)
  }

  /**
   * Gives live series back that have no rows left; what they were is forgotten. Call only for series that no batch in a decoder's hands has a row of.
   * @returns those that were live.
   */
  release(series: Int32Array): Int32Array {
    const out: number[] = []
    for (const number of series) {
      if (number >= this.count || this.state[number] !== LIVE) continue
      this.released?.(number, this.measurement[number])
      this.counts.remove(this.measurement[number])
      this.members.removed(number, this.measurement[number])
      this.keyUses.removed(number, this.measurement[number], this.tuples)
      this.tuples.remove(number)
      this.state[number] = 0
      this.live--
      out.push(number)
    }
    if (out.length > 0) this.epoch++
    return Int32Array.from(out)
  }

  /** Undoes `release`, for a record that did not become durable. */
  unrelease(series: number, measurementId: number): void {
    this.tuples.putBack(series, measurementId)
    this.counts.putBack(measurementId)
    this.enliven(series)
    this.members.added(series, measurementId)
  }

  seriesOf(namespace: string): number {
    return this.counts.of(namespace)
  }

  /** Counts anew, when all is read back. @param namespaceOf that of a measurement; undefined when there is no such measurement. */
  tally(namespaceOf: (measurement: number) => string | undefined): void {
    this.counts.clear()
    const { measurement, count } = this
    const numbers: (number | undefined)[] = []
    for (let series = 0; series < count; series++) {
      const id = measurement[series]
      if (id !== RELEASED) numbers[id] = (numbers[id] ?? 0) + 1
    }
    for (const [id, series] of numbers.entries()) {
      const namespace = series === undefined ? undefined : namespaceOf(id)
      if (namespace !== undefined) this.counts.add(id, namespace, series)
    }
  }

  /** key, value, key, value ... ordered by key. */
  tagsOf(series: number): string[] {
    const out: string[] = []
    for (let i = this.offsets[series]; i < this.offsets[series + 1]; i++) out.push(this.symbols.text(this.tags[i]))
    return out
  }

  /** Writes the tags as the log has them: count, then length and bytes of each key and value, ordered by key. */
  writeTags(out: ByteWriter, series: number): void {
    const { offsets, bytes } = this.symbols
    const end = this.offsets[series + 1]
    out.varint((end - this.offsets[series]) / 2)
    for (let i = this.offsets[series]; i < end; i++) {
      const start = offsets[this.tags[i]]
      const length = offsets[this.tags[i] + 1] - start
      out.varint(length)
      const at = out.reserve(length)
      // A call costs more than a short text.
      if (length > SHORT) out.bytes.set(bytes.subarray(start, start + length), at)
      else for (let j = 0; j < length; j++) out.bytes[at + j] = bytes[start + j]
    }
  }

  /** Bytes of the texts of its tags. */
  tagBytes(series: number): number {
    const { offsets } = this.symbols
    let bytes = 0
    for (let i = this.offsets[series]; i < this.offsets[series + 1]; i++) bytes += offsets[this.tags[i] + 1] - offsets[this.tags[i]]
    return bytes
  }

  /** Ids of the tag keys of a series that is not durable, ordered by key: a symbol, or the complement of a text that has none. */
  keyIds(handle: number): Int32Array {
    const { provisional } = this
    const entry = provisional.entryOf(handle)
    const tuple = this.names.room(provisional.lengthOf(entry))
    provisional.copyTuple(entry, tuple)
    const ids = new Int32Array((provisional.lengthOf(entry) - 1) / 2)
    for (let i = 0; i < ids.length; i++) {
      const id = tuple[1 + i * 2]
      const symbol = id < 0 ? provisional.symbolOf(~id) : id
      ids[i] = symbol < 0 ? id : symbol
    }
    return ids
  }

  /** The text of an id that `keyIds` gave. */
  keyText(id: number): string {
    return id < 0 ? this.provisional.texts.text(~id) : this.symbols.text(id)
  }

  /** Tag keys in use by series of the measurement, ordered. */
  tagKeys(measurementId: number): string[] {
    return this.keyUses
      .keys(measurementId)
      .map((symbol) => this.symbols.text(symbol))
      .sort()
  }

  private findOrCreate(measurement: MeasurementRef, length: number): number {
    const { provisional } = this
    const { pairs } = this.names
    const hash = this.names.hash(length)
    // While a text is provisional, all series that have it are.
    const known = this.names.hasNew ? UNKNOWN : this.tuples.find(pairs, length, hash)
    if (known >= 0) return known
    const handle = provisional.find(pairs, length, hash)
    if (handle !== UNKNOWN) {
      const number = this.numberOf(handle)
      // Numbers cost less than handles.
      if (number !== UNKNOWN) return number >= 0 && number < this.tuples.indexed ? number : handle
      provisional.discard(provisional.entryOf(handle))
    }
    const back = this.names.hasNew ? this.findBySymbols(length, hash) : UNKNOWN
    if (back >= 0) return back
    const { name, namespace, id } = measurement
    if (this.live + provisional.pending >= this.budget) {
      throw exceeded(name, `the max_series_cardinality of ${this.budget} is reached; drop tags with many values, delete old series, or raise the limit`)
    }
    if (provisional.exhausted || this.count >= FIRST_HANDLE) throw exceeded(name, 'no number is left for it; send the write again later')
    this.gate.requireRoom(namespace, 'series', this.counts.of(namespace))
    this.counts.add(id, namespace)
    return provisional.add(pairs, length, hash)
  }

  /** A durable series though texts of the tuple made last are provisional: its giving back has failed since these were put there. */
  private findBySymbols(length: number, hash: number): number {
    const { pairs } = this.names
    if (this.symbolTuple.length < length) this.symbolTuple = new Int32Array(length * 2)
    const tuple = this.symbolTuple
    for (let i = 0; i < length; i++) {
      tuple[i] = i > 0 && pairs[i] < 0 ? this.provisional.symbolOf(~pairs[i]) : pairs[i]
      if (tuple[i] < 0) return UNKNOWN
    }
    return this.tuples.find(tuple, length, hash)
  }

  private enliven(number: number): void {
    if (number >= this.state.length) this.state = widened(this.state, Math.max(number + 1, this.state.length * 2))
    this.state[number] = LIVE
    this.live++
    this.keyUses.added(number, this.measurement[number], this.tuples)
  }

  /** The symbol of a provisional text, made now if it has none. */
  private symbolFor(text: number): number {
    const { provisional, symbols } = this
    const known = provisional.symbolOf(text)
    if (known >= 0) return known
    const { offsets, bytes, hashes } = provisional.texts
    const symbol = symbols.add(bytes, offsets[text], offsets[text + 1], hashes[text])
    provisional.setSymbol(text, symbol)
    return symbol
  }

  /** Appends the tuple made last, known to be new, as a live series that is durable. */
  private insertLive(length: number): void {
    const number = this.tuples.append(this.names.pairs, length, this.names.hash(length))
    this.tuples.index(number + 1)
    this.enliven(number)
    this.members.added(number, this.measurement[number])
  }
}

function exceeded(measurement: string, why: string): SvcError {
  return new SvcError('CARDINALITY_EXCEEDED', `cannot create a series of measurement "${measurement}": ${why}`)
}
