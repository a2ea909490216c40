/**
 * Series numbers: measurement + tag set → a dense number, and back. Lies in shared memory for the engine threads.
 *
 * Invariants
 * - A number is never given to another series. Entries below Shared.SERIES never change, but for the measurement, which becomes
 *   RELEASED when a series is given back.
 * - A new series is provisional until a row of it is admitted (`admit`); provisional ones that nobody can be holding any more are
 *   given back by `releaseProvisional`, and if they were the newest their numbers are taken back too.
 * - live + provisional never exceeds the budget, nor those of a namespace its bounds.
 */
import { SvcError } from '../../kernel/errors.ts'
import type { MeasurementRef } from '../../kernel/storage.ts'
import { NamespaceGate } from '../common/namespace-gate.ts'
import { grownInt32, sharedInt32, widened } from './grow.ts'
import { type SeriesArrays, Shared } from './layout.ts'
import { MeasurementSeries } from './measurement-series.ts'
import { mix, SymbolTable } from './symbols.ts'
import type { ByteWriter } from './wal/bytes.ts'
import type { LateSeries } from './wal/late-series.ts'

export const RELEASED = -1
const PROVISIONAL = 0
const LIVE = 1
const GONE = -2 // a hash slot whose series was given back

/** Series of one namespace, live and provisional. */
interface Tally {
  series: number
}

export class SeriesIndex {
  readonly symbols: SymbolTable
  /** The live series of each measurement. */
  readonly members = new MeasurementSeries()
  measurement: Int32Array = sharedInt32(1024)
  offsets: Int32Array = sharedInt32(1025)
  tags: Int32Array = sharedInt32(8192)
  count = 0
  live = 0
  epoch = 0
  private published = 0
  private state = new Uint8Array(1024)
  private hashes = new Int32Array(1024)
  private slots = new Int32Array(4096) // series + 1; 0 = free; GONE = was used
  private used = 0
  private provisional: number[] = []
  private readonly tallies = new Map<string, Tally>()
  /** That of a measurement's namespace, by the measurement's id. */
  private tallyOf: (Tally | undefined)[] = []
  private readonly keySymbols = new Map<string, number>()
  private pairs = new Int32Array(128)
  /** Keys of the series before, as they arrived, and their places in order of text: neighbours mostly have the same. */
  private order: { keys: Int32Array; places: Int32Array } = { keys: new Int32Array(0), places: new Int32Array(0) }
  private readonly shared: Int32Array
  private readonly budget: number
  private readonly gate: NamespaceGate
  private readonly onGrow: () => void

  constructor(shared: Int32Array, budget: number, onGrow: () => void, gate = new NamespaceGate()) {
    this.gate = gate
    this.shared = shared
    this.budget = budget
    this.onGrow = onGrow
    this.symbols = new SymbolTable(shared, onGrow)
  }

  arrays(): SeriesArrays {
    return { measurement: this.measurement, offsets: this.offsets, tags: this.tags, symbolOffsets: this.symbols.offsets, symbolBytes: this.symbols.bytes }
  }

  /** Bytes held in memory. */
  get memory(): number {
    return (
      this.symbols.memory +
      (this.measurement.length + this.offsets.length + this.tags.length + this.hashes.length + this.slots.length) * 4 +
      this.state.length +
      this.members.memory
    )
  }

  /** @param tags key, value ... validated by the caller, no empty values, any order. */
  resolve(measurement: MeasurementRef, tags: readonly string[]): number {
    return this.findOrCreate(measurement, this.tuple(measurement.id, tags))
  }

  /** As `resolve`, from ASCII bytes; see SeriesResolver.seriesAscii. Returns -1 for a key that occurs twice. */
  resolveAscii(measurement: MeasurementRef, bytes: Uint8Array, ranges: Int32Array, pairs: number): number {
    if (this.pairs.length < pairs * 2 + 1) this.pairs = new Int32Array(pairs * 4 + 1)
    const { order, symbols } = this
    let known = order.keys.length === pairs
    for (let i = 0; i < pairs; i++) {
      const key = symbols.internBytes(bytes, ranges[i * 4], ranges[i * 4 + 1])
      if (known && order.keys[i] !== key) known = false
      this.pairs[i] = key // in the order of arrival; ordered by text below
    }
    if (!known && !this.reorder(pairs)) return -1
    const { keys, places } = this.order
    this.pairs[0] = measurement.id
    for (let i = 0; i < pairs; i++) {
      const from = places[i]
      this.pairs[i * 2 + 1] = keys[from]
      this.pairs[i * 2 + 2] = symbols.internBytes(bytes, ranges[from * 4 + 2], ranges[from * 4 + 3])
    }
    return this.findOrCreate(measurement, pairs * 2 + 1)
  }

  /**
   * Puts a series of the log back under its number; one that is there already is left as it is.
   * @param late reads those that the log defines later than one of a higher number. Other numbers left out stay released.
   */
  restore(series: number, measurementId: number, tags: readonly string[], late: () => LateSeries): void {
    if (series < this.count) return
    this.restoreUpTo(series, late)
    this.insertLive(measurementId, this.tuple(measurementId, tags))
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
      else this.insertLive(known.measurement, this.tuple(known.measurement, known.tags))
    }
  }

  /** As `restore`, by symbols already interned: pairs of (key, value) in the order of key text. */
  restoreSymbols(measurementId: number, pairs: Int32Array, pairCount: number): void {
    if (this.pairs.length < pairCount * 2 + 1) this.pairs = new Int32Array(pairCount * 4 + 1)
    this.pairs[0] = measurementId
    for (let i = 0; i < pairCount * 2; i++) this.pairs[i + 1] = pairs[i]
    const length = pairCount * 2 + 1
    this.insertLive(measurementId, length)
  }

  /** A number that was given back in an earlier life of the database. */
  restoreReleased(): void {
    this.room(0)
    this.measurement[this.count] = RELEASED
    this.offsets[this.count + 1] = this.offsets[this.count]
    this.count++
  }

  /** Series visible to the engine threads: all that durable rows name, and maybe others in between. */
  get publishedCount(): number {
    return this.published
  }

  isLive(series: number): boolean {
    return this.state[series] === LIVE
  }

  /** A row of a provisional series was admitted. */
  admit(series: number): void {
    this.state[series] = LIVE
    this.live++
    this.members.added(series, this.measurement[series], this)
  }

  /** The write that admitted the series has failed. */
  revoke(series: number): void {
    this.state[series] = PROVISIONAL
    this.live--
    this.provisional.push(series)
    this.members.removed(series, this.measurement[series], this)
  }

  /** Makes all series up to this one visible to the engine threads. */
  publish(series: number): void {
    if (series < this.published) return
    this.published = series + 1
    Atomics.store(this.shared, Shared.SERIES, this.published)
  }

  /** Gives provisional series back. Call only when no batch is in a decoder's hands. */
  releaseProvisional(): void {
    if (this.provisional.length === 0) return
    let released = false
    for (let i = this.provisional.length - 1; i >= 0; i--) {
      const series = this.provisional[i]
      // Or given back before, when it was live meanwhile.
      if (this.state[series] !== PROVISIONAL || this.measurement[series] === RELEASED) continue
      this.forget(series)
      released = true
    }
    this.provisional = []
    if (released) this.epoch++
  }

  /**
   * Gives live series back that have no rows left; what they were is forgotten. Call only when no batch is in a decoder's hands.
   * @returns those that were live.
   */
  release(series: Int32Array): Int32Array {
    const out: number[] = []
    for (const number of series) {
      if (number >= this.count || this.state[number] !== LIVE) continue
      this.members.removed(number, this.measurement[number], this)
      this.forget(number)
      this.state[number] = PROVISIONAL
      this.live--
      out.push(number)
    }
    if (out.length > 0) this.epoch++
    return Int32Array.from(out)
  }

  /** Undoes `release`, for a record that did not become durable. */
  unrelease(series: number, measurementId: number): void {
    const from = this.offsets[series]
    const length = this.offsets[series + 1] - from
    if (this.pairs.length < length + 1) this.pairs = new Int32Array(length * 2 + 1)
    this.pairs[0] = measurementId
    this.pairs.set(this.tags.subarray(from, from + length), 1)
    const mask = this.slots.length - 1
    let slot = hashTuple(this.pairs, length + 1) & mask
    while (this.slots[slot] !== 0) slot = (slot + 1) & mask
    this.measurement[series] = measurementId
    const tally = this.tallyOf[measurementId]
    if (tally !== undefined) tally.series++
    this.state[series] = LIVE
    this.slots[slot] = series + 1
    this.live++
    this.members.added(series, measurementId, this)
    if (++this.used * 2 > this.slots.length) this.rehash()
  }

  seriesOf(namespace: string): number {
    return this.tallies.get(namespace)?.series ?? 0
  }

  /** Counts anew, when all is read back. @param namespaceOf that of a measurement; undefined when there is no such measurement. */
  tally(namespaceOf: (measurement: number) => string | undefined): void {
    this.tallies.clear()
    this.tallyOf = []
    for (let series = 0; series < this.count; series++) {
      const id = this.measurement[series]
      const namespace = id === RELEASED ? undefined : namespaceOf(id)
      if (namespace !== undefined) this.tallied(id, namespace).series++
    }
  }

  private tallied(measurement: number, namespace: string): Tally {
    let tally = this.tallyOf[measurement]
    if (tally !== undefined) return tally
    tally = this.tallies.get(namespace)
    if (tally === undefined) this.tallies.set(namespace, (tally = { series: 0 }))
    this.tallyOf[measurement] = tally
    return tally
  }

  measurementOf(series: number): number {
    return this.measurement[series]
  }

  /** key, value, key, value ... ordered by key. */
  tagsOf(series: number): string[] {
    const out: string[] = []
    for (let i = this.offsets[series]; i < this.offsets[series + 1]; i++) out.push(this.symbols.text(this.tags[i]))
    return out
  }

  private findOrCreate(measurement: MeasurementRef, length: number): number {
    const hash = hashTuple(this.pairs, length)
    const mask = this.slots.length - 1
    let slot = hash & mask
    for (let entry = this.slots[slot]; entry !== 0; entry = this.slots[slot]) {
      if (entry !== GONE && this.hashes[entry - 1] === hash && this.equals(entry - 1, length)) return entry - 1
      slot = (slot + 1) & mask
    }
    if (this.live + this.provisional.length >= this.budget) {
      throw new SvcError(
        'CARDINALITY_EXCEEDED',
        `cannot create a series of measurement "${measurement.name}": the max_series_cardinality of ${this.budget} is reached; drop tags with many values, delete old series, or raise the limit`,
      )
    }
    const tally = this.tallied(measurement.id, measurement.namespace)
    this.gate.requireRoom(measurement.namespace, 'series', tally.series)
    const series = this.append(measurement.id, length, hash, slot)
    tally.series++
    this.state[series] = PROVISIONAL
    this.provisional.push(series)
    return series
  }

  /** Remembers how the keys in `pairs` are ordered by text. False when one occurs twice. */
  private reorder(count: number): boolean {
    const keys = this.pairs.slice(0, count)
    const texts = Array.from(keys, (key) => this.symbols.text(key))
    const places = Int32Array.from(texts.keys()).sort((a, b) => (texts[a] < texts[b] ? -1 : 1))
    if (new Set(texts).size < count) return false
    this.order = { keys, places }
    return true
  }

  /** Appends the tuple in `pairs`, known to be new, as a live series. */
  private insertLive(measurementId: number, length: number): void {
    const hash = hashTuple(this.pairs, length)
    const mask = this.slots.length - 1
    let slot = hash & mask
    while (this.slots[slot] !== 0) slot = (slot + 1) & mask
    const series = this.append(measurementId, length, hash, slot) // which may replace the arrays
    this.state[series] = LIVE
    this.live++
    this.members.added(series, measurementId, this)
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
      for (let j = 0; j < length; j++) out.bytes[at + j] = bytes[start + j]
    }
  }

  /** Tag keys in use by the measurement, ordered. */
  tagKeys(measurementId: number): string[] {
    return this.members
      .keys(measurementId)
      .map((symbol) => this.symbols.text(symbol))
      .sort()
  }

  private forget(series: number): void {
    const mask = this.slots.length - 1
    let slot = this.hashes[series] & mask
    while (this.slots[slot] !== series + 1) slot = (slot + 1) & mask
    this.slots[slot] = GONE
    const tally = this.tallyOf[this.measurement[series]]
    if (tally !== undefined) tally.series--
    this.measurement[series] = RELEASED
    if (series === this.count - 1 && series >= this.published) this.count--
  }

  /** Fills `pairs` with measurement id and the tags' symbols in key order; returns its length. */
  private tuple(measurementId: number, tags: readonly string[]): number {
    const n = tags.length
    if (this.pairs.length < n + 1) this.pairs = new Int32Array(n * 2 + 1)
    this.pairs[0] = measurementId
    let sorted = true
    for (let i = 2; i < n; i += 2) if (tags[i] < tags[i - 2]) sorted = false
    if (!sorted) tags = sortPairs(tags)
    for (let i = 0; i < n; i += 2) {
      let key = this.keySymbols.get(tags[i])
      if (key === undefined) {
        key = this.symbols.intern(tags[i])
        this.keySymbols.set(tags[i], key)
      }
      this.pairs[i + 1] = key
      this.pairs[i + 2] = this.symbols.intern(tags[i + 1])
    }
    return n + 1
  }

  private append(measurementId: number, length: number, hash: number, slot: number): number {
    const series = this.count
    this.room(length - 1)
    const at = this.offsets[series]
    this.measurement[series] = measurementId
    for (let i = 1; i < length; i++) this.tags[at + i - 1] = this.pairs[i]
    this.offsets[series + 1] = at + length - 1
    this.hashes[series] = hash
    this.slots[slot] = series + 1
    this.count = series + 1
    if (++this.used * 2 > this.slots.length) this.rehash()
    return series
  }

  private room(tags: number): void {
    const series = this.count
    let replaced = false
    if (series + 2 > this.offsets.length || series + 1 > this.measurement.length) {
      this.measurement = grownInt32(this.measurement, series + 1)
      this.offsets = grownInt32(this.offsets, this.measurement.length + 1)
      replaced = true
    }
    if (this.offsets[series] + tags > this.tags.length) {
      this.tags = grownInt32(this.tags, this.offsets[series] + tags)
      replaced = true
    }
    if (series >= this.state.length) {
      this.state = widened(this.state, this.measurement.length)
      this.hashes = widened(this.hashes, this.measurement.length)
    }
    if (replaced) this.onGrow()
  }

  private rehash(): void {
    this.slots = new Int32Array(this.slots.length * 2)
    const mask = this.slots.length - 1
    this.used = 0
    for (let series = 0; series < this.count; series++) {
      if (this.measurement[series] === RELEASED) continue
      let slot = this.hashes[series] & mask
      while (this.slots[slot] !== 0) slot = (slot + 1) & mask
      this.slots[slot] = series + 1
      this.used++
    }
  }

  private equals(series: number, length: number): boolean {
    if (this.measurement[series] !== this.pairs[0]) return false
    const at = this.offsets[series]
    if (this.offsets[series + 1] - at !== length - 1) return false
    for (let i = 1; i < length; i++) if (this.tags[at + i - 1] !== this.pairs[i]) return false
    return true
  }
}

function hashTuple(tuple: Int32Array, length: number): number {
  let hash = 0x9747b28c
  for (let i = 0; i < length; i++) hash = Math.imul(hash ^ tuple[i], 0x01000193) ^ (hash >>> 15)
  return mix(hash)
}

function sortPairs(tags: readonly string[]): string[] {
  const order: number[] = []
  for (let i = 0; i < tags.length; i += 2) order.push(i)
  order.sort((a, b) => (tags[a] < tags[b] ? -1 : 1))
  return order.flatMap((i) => [tags[i], tags[i + 1]])
}
