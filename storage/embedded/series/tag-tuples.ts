/**
 * The tags of a series as numbers: the measurement, then key and value of each tag, ordered by key text. A text that is durable is named by its symbol, a
 * new one by a number of the provisional table (`textId`), where it is put.
 *
 * Invariant: what is refused in the middle leaves no text (`takeBack`).
 */
import { SvcError } from 'svcdb/lib/errors'
import { ByteReader } from '../../common/log/bytes.ts'
import { taggedTexts } from '../wal/logged-series.ts'
import { type HashKey, hashEnd, hashStart, hashStep } from './hash.ts'
import { type ProvisionalSeries, textId } from './provisional-series.ts'
import type { SymbolTable } from './symbols.ts'

/** Keys whose symbols are remembered by their text. */
const KEPT_KEYS = 65_536
const NO_ORDER = { keys: new Int32Array(0), places: new Int32Array(0) }
const encoder = new TextEncoder()

export class TagTuples {
  /** The tuple made last. */
  pairs: Int32Array = new Int32Array(128)
  /** Whether `hash` met a provisional text in it. */
  hasNew = false
  private scratch = new Uint8Array(1024)
  private readonly keySymbols = new Map<string, number>()
  /** Keys of the series before, as they arrived, and their positions in order of text: the next series mostly has the same. */
  private order = NO_ORDER
  /** Texts of the tuple made last, if it came from the log and is still in `pairs`. */
  private loggedTexts = 0
  private readonly key: HashKey
  private readonly symbols: SymbolTable
  private readonly provisional: ProvisionalSeries
  private readonly maxTextBytes: number

  constructor(key: HashKey, symbols: SymbolTable, provisional: ProvisionalSeries, maxTextBytes: number) {
    this.key = key
    this.symbols = symbols
    this.provisional = provisional
    this.maxTextBytes = maxTextBytes
  }

  /** Numbers of provisional texts have changed. */
  forgetOrder(): void {
    this.order = NO_ORDER
  }

  /** Room for a tuple of so many numbers. */
  room(length: number): Int32Array {
    this.loggedTexts = 0
    if (this.pairs.length < length) this.pairs = new Int32Array(length * 2)
    return this.pairs
  }

  /**
   * @param tags key, value ... in any order; no key twice.
   * @param durable they were read back from the catalog or the log: new ones get symbols.
   * @returns the tuple's length.
   */
  fromTexts(measurement: number, tags: readonly string[], durable: boolean): number {
    const n = tags.length
    const pairs = this.room(n + 1)
    pairs[0] = measurement
    let sorted = true
    for (let i = 2; i < n; i += 2) if (tags[i] < tags[i - 2]) sorted = false
    if (!sorted) tags = sortPairs(tags)
    for (let i = 0; i < n; i += 2) {
      pairs[i + 1] = this.idOfKey(tags[i], durable)
      pairs[i + 2] = this.idOfText(tags[i + 1], durable)
    }
    return n + 1
  }

  /** As `fromTexts`, of durable texts, from a record of the log. @param at where the tags begin, as in LoggedSeries. */
  fromLogged(measurement: number, bytes: Uint8Array, at: number): number {
    const { symbols } = this
    const reader = new ByteReader(bytes, at)
    const texts = reader.varint() * 2
    // What the tuple made last has in the same places: most series share their keys and some values with the one before.
    const before = this.loggedTexts
    const pairs = this.room(texts + 1)
    let sameKeys = before === texts
    pairs[0] = measurement
    for (let i = 1; i <= texts; i++) {
      const length = reader.varint()
      const start = reader.take(length)
      const end = start + length
      if (i <= before && symbols.equals(pairs[i], bytes, start, end)) continue
      if (i % 2 === 1) sameKeys = false
      pairs[i] = symbols.intern(bytes, start, end)
    }
    this.loggedTexts = texts
    if (sameKeys || this.isOrdered(texts)) return texts + 1
    return this.fromTexts(measurement, taggedTexts(bytes, at), true)
  }

  /** As `fromTexts`, from ASCII bytes; see SeriesResolver.seriesAscii. @returns -1 for a key that occurs twice. */
  fromAscii(measurement: number, bytes: Uint8Array, ranges: Int32Array, count: number): number {
    const pairs = this.room(count * 2 + 1)
    let known = this.order.keys.length === count
    for (let i = 0; i < count; i++) {
      const key = this.idOf(bytes, ranges[i * 4], ranges[i * 4 + 1])
      if (known && this.order.keys[i] !== key) known = false
      pairs[i] = key // in the order of arrival; ordered by text below
    }
    if (!known && !this.reorder(count)) return -1
    const { keys, places } = this.order
    pairs[0] = measurement
    for (let i = 0; i < count; i++) {
      const from = places[i]
      pairs[i * 2 + 1] = keys[from]
      pairs[i * 2 + 2] = this.idOf(bytes, ranges[from * 4 + 2], ranges[from * 4 + 3])
    }
    return count * 2 + 1
  }

  /** Made of the hashes of the texts, which nobody can choose who does not know the key; the same for a text's symbol and its provisional number. */
  hash(length: number, pairs: Int32Array = this.pairs): number {
    const known = this.symbols.hashes
    const fresh = this.provisional.texts.hashes
    let hash = hashStart(this.key, pairs[0])
    this.hasNew = false
    for (let i = 1; i < length; i++) {
      const id = pairs[i]
      if (id < 0) this.hasNew = true
      hash = hashStep(hash, id < 0 ? fresh[~id] : known[id])
    }
    return hashEnd(hash)
  }

  /** Takes texts of a series back that was refused: nothing names them. @param mark how many there were before. */
  takeBack(mark: number): void {
    const { texts } = this.provisional
    if (texts.count === mark) return
    texts.truncate(mark)
    this.order = NO_ORDER
  }

  private idOf(source: Uint8Array, start: number, end: number): number {
    const { symbols, provisional } = this
    const { texts } = provisional
    const hash = symbols.hashOf(source, start, end)
    const symbol = symbols.find(source, start, end, hash)
    if (symbol >= 0 && symbol < provisional.firstSymbol) return symbol
    if (texts.count > 0) {
      const text = texts.find(source, start, end, hash)
      if (text >= 0) return textId(text)
    }
    if (symbol >= 0) return symbol
    if (symbols.used + texts.used + end - start > this.maxTextBytes) {
      throw new SvcError(
        'CARDINALITY_EXCEEDED',
        `cannot create a series: the texts of tags would take more than ${this.maxTextBytes} bytes; drop tags with many values, and restart the server, which gives back the texts of series that are gone`,
      )
    }
    if (texts.count === 0) provisional.firstSymbol = symbols.published
    return textId(provisional.addText(source, start, end, hash))
  }

  private idOfKey(key: string, durable: boolean): number {
    const known = this.keySymbols.get(key)
    if (known !== undefined) return known
    const id = this.idOfText(key, durable)
    if (id >= 0 && this.keySymbols.size < KEPT_KEYS) this.keySymbols.set(key, id)
    return id
  }

  private idOfText(text: string, durable: boolean): number {
    if (this.scratch.length < text.length * 3) this.scratch = new Uint8Array(text.length * 3)
    const { written } = encoder.encodeInto(text, this.scratch)
    return durable ? this.symbols.intern(this.scratch, 0, written) : this.idOf(this.scratch, 0, written)
  }

  /** Whether the keys of the tuple made last are in the order of their texts, none twice. */
  private isOrdered(texts: number): boolean {
    for (let i = 3; i <= texts; i += 2) if (this.textOf(this.pairs[i - 2]) >= this.textOf(this.pairs[i])) return false
    return true
  }

  private textOf(id: number): string {
    return id < 0 ? this.provisional.texts.text(~id) : this.symbols.text(id)
  }

  /** Remembers how the keys in `pairs` are ordered by text. False when one occurs twice. */
  private reorder(count: number): boolean {
    const keys = this.pairs.slice(0, count)
    const texts = Array.from(keys, (key) => this.textOf(key))
    const places = Int32Array.from(texts.keys()).sort((a, b) => (texts[a] < texts[b] ? -1 : 1))
    if (new Set(texts).size < count) return false
    this.order = { keys, places }
    return true
  }
}

function sortPairs(tags: readonly string[]): string[] {
  const order: number[] = []
  for (let i = 0; i < tags.length; i += 2) order.push(i)
  order.sort((a, b) => (tags[a] < tags[b] ? -1 : 1))
  return order.flatMap((i) => [tags[i], tags[i + 1]])
}
