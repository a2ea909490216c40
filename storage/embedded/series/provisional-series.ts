/**
 * Series that decoders have named and that are not durable yet. They and their texts have numbers of their own, in memory of the main thread: engine
 * threads, the catalog and the log never see them, so that what is refused leaves nothing behind.
 *
 * Invariants
 * - A handle is at least FIRST_HANDLE and a durable number below it. Decoders may keep a handle until the resolver's epoch rises, so it goes on standing
 *   for the number that its series was given; a handle from before is not mistaken for another one.
 * - A text that is in `texts` was not durable when it was put there. While it is there, tuples name it by `textId` and not by its symbol.
 * - Entries go when nothing can need them: all at once when no batch is in a decoder's hands (`forget`), those that no open batch names (`dropPending`), or
 *   those that are durable (`compact`).
 */
import { widened } from '../memtable/grow.ts'
import type { HashKey } from './hash.ts'
import { TextTable } from './text-table.ts'
import { TupleTable } from './tuple-table.ts'

export const FIRST_HANDLE = 0x40000000
const LAST_HANDLE = 0x7fffffff
/** Answers in place of a number. */
export const UNKNOWN = -1
export const NOT_DURABLE = -2
/** In place of the number of an entry. */
const NONE = -1
const DROPPED = -2
/** In place of the target of a handle that was called in. */
const DEAD = -0x80000000
const FIRST_ENTRIES = 1024
/** Handles begin anew at FIRST_HANDLE once so few are left, when nobody holds one. */
const SPARE_HANDLES = 0x10000000
/** Entries that are let be although they could go. */
const MIN_COMPACTION = 4096

/** How tuples name a provisional text: symbols are not negative. */
export const textId = (text: number): number => ~text

/** What batches have rows of. */
export interface Named {
  tables: readonly { rows: number; series: Int32Array }[]
}

export function handlesIn(batches: Iterable<Named>): Set<number> {
  const handles = new Set<number>()
  for (const { tables } of batches)
    for (const { rows, series } of tables) for (let row = 0; row < rows; row++) if (series[row] >= FIRST_HANDLE) handles.add(series[row])
  return handles
}

export class ProvisionalSeries {
  texts: TextTable
  /** Those that were durable when the first of `texts` came have symbols below this. */
  firstSymbol = 0
  private tuples: TupleTable = new TupleTable('local')
  /** Entries without a number. */
  pending = 0
  /** The first handle that may be in use, and the next one. */
  private base = FIRST_HANDLE
  private next = FIRST_HANDLE
  /** By handle, from `base` on: the number of a series whose entry is gone, or the complement of its entry. */
  private targets = new Int32Array(FIRST_ENTRIES)
  /** By entry. */
  private handles = new Int32Array(FIRST_ENTRIES)
  private numbers = new Int32Array(FIRST_ENTRIES)
  /** By text: its symbol, or NONE. */
  private symbols = new Int32Array(FIRST_ENTRIES)
  /** Entries below are not pending. */
  private swept = 0
  private readonly key: HashKey

  constructor(key: HashKey) {
    this.key = key
    this.texts = new TextTable(key, 'local')
  }

  /** Handles that decoders may hold. */
  get handed(): number {
    return this.next - this.base
  }

  get nextHandle(): number {
    return this.next
  }

  /** No handle is left to give. */
  get exhausted(): boolean {
    return this.next === LAST_HANDLE
  }

  /** Bytes of memory held. */
  get allocated(): number {
    return this.texts.allocated + this.tuples.allocated + (this.targets.length + this.handles.length + this.numbers.length + this.symbols.length) * 4
  }

  addText(source: Uint8Array, start: number, end: number, hash: number): number {
    const text = this.texts.add(source, start, end, hash)
    this.texts.index(text + 1)
    if (text >= this.symbols.length) this.symbols = widened(this.symbols, this.symbols.length * 2)
    this.symbols[text] = NONE
    return text
  }

  symbolOf(text: number): number {
    return this.symbols[text]
  }

  setSymbol(text: number, symbol: number): void {
    this.symbols[text] = symbol
  }

  /** @returns the handle of a tuple, or UNKNOWN. */
  find(tuple: Int32Array, length: number, hash: number): number {
    const entry = this.tuples.find(tuple, length, hash)
    return entry < 0 ? UNKNOWN : this.handles[entry]
  }

  /** @returns the handle of a tuple that is not there yet. */
  add(tuple: Int32Array, length: number, hash: number): number {
    const handle = this.next++
    const entry = this.tuples.append(tuple, length, hash)
    this.tuples.index(entry + 1)
    if (entry >= this.handles.length) {
      this.handles = widened(this.handles, this.handles.length * 2)
      this.numbers = widened(this.numbers, this.numbers.length * 2)
    }
    this.handles[entry] = handle
    this.numbers[entry] = NONE
    if (handle - this.base >= this.targets.length) this.targets = widened(this.targets, this.targets.length * 2)
    this.targets[handle - this.base] = ~entry
    this.pending++
    return handle
  }

  /** @returns the number that a handle's series was given, NOT_DURABLE when it has none, UNKNOWN when there is no such handle. */
  numberOf(handle: number): number {
    if (handle < this.base || handle >= this.next) return UNKNOWN
    const target = this.targets[handle - this.base]
    if (target >= 0) return target
    const number = target === DEAD ? DROPPED : this.numbers[~target]
    return number === NONE ? NOT_DURABLE : number === DROPPED ? UNKNOWN : number
  }

  /** That of a handle whose entry is still there. */
  entryOf(handle: number): number {
    return ~this.targets[handle - this.base]
  }

  measurementOf(entry: number): number {
    return this.tuples.measurement[entry]
  }

  hashOf(entry: number): number {
    return this.tuples.hashes[entry]
  }

  /** Numbers of an entry's tuple. */
  lengthOf(entry: number): number {
    const { offsets } = this.tuples
    return offsets[entry + 1] - offsets[entry] + 1
  }

  /** Writes an entry's tuple: the measurement, then key and value of each tag, as symbols or as `textId` gives them. */
  copyTuple(entry: number, tuple: Int32Array): void {
    const { tags, offsets, measurement } = this.tuples
    tuple[0] = measurement[entry]
    for (let i = offsets[entry], end = offsets[entry + 1], to = 1; i < end; ) tuple[to++] = tags[i++]
  }

  /** The series is given a number, and its texts symbols. */
  promoted(entry: number, number: number): void {
    this.numbers[entry] = number
    this.pending--
  }

  /** Undoes `promoted`. @param symbols those from here on were taken back. */
  revoked(entry: number, symbols: number): void {
    this.numbers[entry] = NONE
    this.pending++
    this.swept = Math.min(this.swept, entry)
    this.forgetSymbols(entry, symbols)
  }

  /** Symbols from here on were taken back. */
  forgetSymbols(entry: number, symbols: number): void {
    const { tags, offsets } = this.tuples
    for (let i = offsets[entry]; i < offsets[entry + 1]; i++) if (tags[i] < 0 && this.symbols[~tags[i]] >= symbols) this.symbols[~tags[i]] = NONE
  }

  /**
   * Forgets all entries and texts. Call when no batch is in a decoder's hands and no write with new series is on its way.
   * @param dropped takes the measurement of each series that was never stored.
   * @returns whether handles have become invalid.
   */
  forget(maxHandles: number, dropped: (measurement: number) => void): boolean {
    const { tuples, handles, numbers } = this
    const invalid = this.dropPending(dropped) || this.handed > maxHandles
    for (let entry = 0; entry < tuples.count; entry++) this.targets[handles[entry] - this.base] = numbers[entry] === DROPPED ? DEAD : numbers[entry]
    tuples.clear()
    this.texts.clear()
    this.swept = 0
    if (invalid) {
      if (LAST_HANDLE - this.next < SPARE_HANDLES) this.next = FIRST_HANDLE
      this.base = this.next
      this.targets = new Int32Array(FIRST_ENTRIES)
    }
    return invalid
  }

  /** The series of an entry was given back since it was stored. */
  discard(entry: number): void {
    this.tuples.remove(entry)
    this.numbers[entry] = DROPPED
  }

  /**
   * Forgets series that were never stored. @param dropped takes the measurement of each.
   * @param end handles from here on stay, as those of `named` do: decoders hold them. Absent: no batch is in a decoder's hands.
   * @returns whether there were any: handles have become invalid.
   */
  dropPending(dropped: (measurement: number) => void, end = Number.POSITIVE_INFINITY, named: ReadonlySet<number> = new Set()): boolean {
    const before = this.pending
    if (before === 0) return false
    let left = -1
    let entry = this.swept
    // Entries are in the order of their handles.
    for (; entry < this.tuples.count && this.handles[entry] < end; entry++) {
      if (this.numbers[entry] !== NONE) continue
      if (named.has(this.handles[entry])) {
        if (left < 0) left = entry
        continue
      }
      dropped(this.tuples.measurement[entry])
      this.discard(entry)
      this.pending--
    }
    this.swept = left < 0 ? entry : left
    return this.pending < before
  }

  /** Makes handles below `end` invalid, but for those from the first on that is named or has an entry. @returns whether they are enough to be worth while. */
  callIn(end: number, named: ReadonlySet<number>): boolean {
    let first = this.tuples.count === 0 ? end : Math.min(end, this.handles[0])
    for (const handle of named) first = Math.min(first, handle)
    if ((first - this.base) * 2 < this.handed) return false
    this.targets = this.targets.slice(first - this.base)
    this.base = first
    return true
  }

  get isEmpty(): boolean {
    return this.tuples.count === 0 && this.texts.count === 0
  }

  /** Whether so many entries could go that it is worth while. @param waiting those with a number that is not durable yet. */
  isCrowded(waiting: number): boolean {
    const { count } = this.tuples
    const idle = count - this.pending - waiting
    return idle >= MIN_COMPACTION && idle * 2 >= count
  }

  /** Lets go of entries that are durable, while others are still needed. @param series numbers below and @param symbols symbols below are durable. */
  compact(series: number, symbols: number): void {
    const { tuples, texts, symbols: symbolOf } = this
    const [handles, numbers] = [this.handles, this.numbers]
    this.tuples = new TupleTable('local')
    this.texts = new TextTable(this.key, 'local')
    this.firstSymbol = symbols
    this.symbols = new Int32Array(FIRST_ENTRIES)
    this.handles = new Int32Array(FIRST_ENTRIES)
    this.numbers = new Int32Array(FIRST_ENTRIES)
    const moved = (text: number): number => {
      const symbol = symbolOf[text]
      if (symbol !== NONE && symbol < symbols) return symbol
      const [start, end] = [texts.offsets[text], texts.offsets[text + 1]]
      const known = this.texts.find(texts.bytes, start, end, texts.hashes[text])
      if (known >= 0) return textId(known)
      const added = this.addText(texts.bytes, start, end, texts.hashes[text])
      this.symbols[added] = symbol
      return textId(added)
    }
    let tuple = new Int32Array(64)
    for (let entry = 0; entry < tuples.count; entry++) {
      const target = handles[entry] - this.base
      if (numbers[entry] !== NONE && numbers[entry] < series) {
        this.targets[target] = numbers[entry] === DROPPED ? DEAD : numbers[entry]
        continue
      }
      const start = tuples.offsets[entry]
      const length = tuples.offsets[entry + 1] - start + 1
      if (tuple.length < length) tuple = new Int32Array(length * 2)
      tuple[0] = tuples.measurement[entry]
      for (let i = 1; i < length; i++) {
        const id = tuples.tags[start + i - 1]
        tuple[i] = id < 0 ? moved(~id) : id
      }
      const place = this.tuples.append(tuple, length, tuples.hashes[entry])
      this.tuples.index(place + 1)
      if (place >= this.handles.length) {
        this.handles = widened(this.handles, this.handles.length * 2)
        this.numbers = widened(this.numbers, this.numbers.length * 2)
      }
      this.handles[place] = handles[entry]
      this.numbers[place] = numbers[entry]
      this.targets[target] = ~place
    }
    this.swept = 0
  }
}
