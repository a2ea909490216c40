/** Reads the shared series index: the series of a measurement, their tags, and which of them match. */
import type { Matcher } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { REGEX_TIMEOUT_MS } from 'svcdb/lib/regex'
import { compileOne, type Condition as TagCondition } from '../../common/matchers.ts'
import { widened } from '../memtable/grow.ts'
import { IntList } from '../memtable/int-list.ts'
import { common } from '../read/masks.ts'
import type { SeriesArrays } from '../threads/series-layout.ts'
import { Shared } from '../threads/shared-header.ts'
import type { HashKey } from './hash.ts'
import { KeptSelections } from './kept-selections.ts'
import { findSymbol } from './symbol-lookup.ts'
import { NO_POSITION, TagIndex } from './tag-index.ts'

const EMPTY: SeriesArrays = {
  measurement: new Int32Array(0),
  offsets: new Int32Array(1),
  tags: new Int32Array(0),
  symbolOffsets: new Int32Array(1),
  symbolBytes: new Uint8Array(0),
  symbolSlots: new Int32Array(1),
}
const ABSENT = -1
/** Series of several values are put together when they are at most this share of all. */
const LISTED_SHARE = 4

/** A pattern of LIKE for a tag. */
export interface TagLike {
  /** Symbol of the tag's key. */
  key: number
  like: string
}

export class SeriesView {
  private readonly shared: Int32Array
  private arrays: SeriesArrays = EMPTY
  /** The bytes of symbols, as what makes texts of them. */
  private symbolText = Buffer.alloc(0)
  private readonly texts: (string | undefined)[] = []
  private readonly keySymbols = new Map<string, number>()
  private readonly hashKey: HashKey
  /** Of each measurement, by the tag's symbol. */
  private readonly indexes = new Map<number, Map<number, TagIndex>>()
  private scanned = 0
  private readonly byMeasurement = new Map<number, IntList>()
  private readonly keys = new Map<number, { upTo: number; symbols: Set<number>; names: string[] }>()
  /** A byte a series, 1 = given back. */
  private gone = new Uint8Array(1024)
  private releases = 0
  /** How many releases a measurement's list has followed. */
  private readonly followed = new Map<number, number>()
  /** How often a measurement's list has lost series. */
  private readonly losses = new Map<number, number>()

  private readonly selections = new KeptSelections()
  private readonly regexTimeoutMs: number | undefined

  constructor(shared: Int32Array, regexTimeoutMs?: number) {
    this.shared = shared
    this.hashKey = { low: shared[Shared.HASH_KEY_LOW], high: shared[Shared.HASH_KEY_HIGH] }
    this.regexTimeoutMs = regexTimeoutMs
  }

  setArrays(arrays: SeriesArrays): void {
    this.arrays = arrays
    const { buffer, byteOffset, length } = arrays.symbolBytes
    this.symbolText = Buffer.from(buffer as ArrayBuffer, byteOffset, length)
  }

  /** The series of a measurement known so far, ascending. Some may have no rows. */
  of(measurement: number): Int32Array {
    this.scan()
    this.lose(measurement)
    const list = this.byMeasurement.get(measurement)
    return list === undefined ? new Int32Array(0) : list.values.subarray(0, list.length)
  }

  /** Series that were given back: a list loses them when it is next asked for. Readers that hold an older list keep it. */
  release(series: Int32Array): void {
    for (const number of series) {
      if (number >= this.gone.length) this.gone = widened(this.gone, Math.max(this.gone.length * 2, number + 1))
      this.gone[number] = 1
    }
    this.releases++
  }

  /** While it stays the same, positions in the measurement's list do. */
  lossesOf(measurement: number): number {
    this.lose(measurement)
    return this.losses.get(measurement) ?? 0
  }

  measurementOf(series: number): number {
    return series < this.arrays.measurement.length ? this.arrays.measurement[series] : -1
  }

  get measurementArray(): Int32Array {
    return this.arrays.measurement
  }

  text(symbol: number): string {
    return (this.texts[symbol] ??= this.textOf(symbol))
  }

  /** As `text`, without keeping it: for all values of a tag, of which there may be millions. */
  textOf(symbol: number): string {
    const { symbolOffsets } = this.arrays
    return this.symbolText.toString('utf8', symbolOffsets[symbol], symbolOffsets[symbol + 1])
  }

  /** The symbol's UTF-8, in shared memory. */
  bytes(symbol: number): Uint8Array {
    const { symbolBytes, symbolOffsets } = this.arrays
    return symbolBytes.subarray(symbolOffsets[symbol], symbolOffsets[symbol + 1])
  }

  tags(series: number): Record<string, string> {
    const { offsets, tags } = this.arrays
    const out: Record<string, string> = {}
    for (let i = offsets[series]; i < offsets[series + 1]; i += 2) {
      const key = this.text(tags[i])
      // An assignment would set the prototype.
      if (key === '__proto__') Object.defineProperty(out, key, { value: this.text(tags[i + 1]), enumerable: true, configurable: true, writable: true })
      else out[key] = this.text(tags[i + 1])
    }
    return out
  }

  /** key, value ... ordered by key. */
  pairs(series: number): string[] {
    const { offsets, tags } = this.arrays
    const out: string[] = []
    for (let i = offsets[series], end = offsets[series + 1]; i < end; i++) out.push(this.text(tags[i]))
    return out
  }

  /** Symbols of the tag's value, or -1. */
  tagSymbol(series: number, key: number): number {
    const { offsets, tags } = this.arrays
    for (let i = offsets[series], end = offsets[series + 1]; i < end; i += 2) if (tags[i] === key) return tags[i + 1]
    return ABSENT
  }

  /** Those of `series` whose tag has one of the values, none of them empty. Compares numbers: no text is made, however many values the tag has. */
  withTag(measurement: number, series: Int32Array, key: number, values: readonly string[]): Int32Array {
    const index = this.index(measurement, key)
    const wanted = new Set<number>()
    for (const value of values) {
      const code = index?.codeOfSymbol(this.symbolOf(value)) ?? ABSENT
      if (code !== ABSENT) wanted.add(code)
    }
    if (index === undefined || wanted.size === 0) return new Int32Array(0)
    return this.among(measurement, series, positionsOf(index, [...wanted]))
  }

  /**
   * Of some series those whose tags are like all of the patterns.
   * @param matcher of a pattern, which tells whether a text is like it. @throws SQL_ERROR where they take longer than `database.regex_timeout_ms` together: nothing else runs here meanwhile.
   */
  withTagsLike(measurement: number, series: Int32Array, patterns: readonly TagLike[], matcher: (like: string) => (text: string) => boolean): Int32Array {
    const end = performance.now() + (this.regexTimeoutMs ?? REGEX_TIMEOUT_MS)
    return patterns.reduce((left, pattern) => this.withTagLike(measurement, left, pattern, matcher(pattern.like), end), series)
  }

  private withTagLike(measurement: number, series: Int32Array, { key, like }: TagLike, test: (text: string) => boolean, end: number): Int32Array {
    const index = this.index(measurement, key)
    if (index === undefined) return new Int32Array(0)
    const passes = index.passing(`LIKE ${like}`, (values) => {
      if (performance.now() > end) throw tooLong()
      return Uint8Array.from(values, (value) => (test(value) ? 1 : 0))
    })
    return this.among(measurement, series, passing(this.of(measurement).length, undefined, [{ codes: index.codesOfList, passes, absent: false }]))
  }

  /** Of some series those at positions of `of(measurement)`. */
  private among(measurement: number, series: Int32Array, positions: Int32Array): Int32Array {
    const list = this.of(measurement)
    const found = positions.map((position) => list[position])
    return series.length === list.length ? found : common(found, series)
  }

  /** A tag of a measurement's series by value, up to date; undefined when none has it. Positions are those of `of(measurement)`. */
  index(measurement: number, key: number): TagIndex | undefined {
    if (key === ABSENT) return undefined
    const list = this.of(measurement)
    let indexes = this.indexes.get(measurement)
    if (indexes === undefined) this.indexes.set(measurement, (indexes = new Map()))
    let index = indexes.get(key)
    if (index === undefined) indexes.set(key, (index = new TagIndex((symbol) => this.textOf(symbol))))
    index.follow(list, key, this.arrays)
    return index
  }

  /** The symbol of a text, or -1. */
  symbolOf(text: string): number {
    return findSymbol(this.hashKey, text, this.arrays, Math.min(Atomics.load(this.shared, Shared.SYMBOLS), this.arrays.symbolOffsets.length - 1))
  }

  /** Tag keys in use by a measurement, sorted. */
  tagKeys(measurement: number): string[] {
    const list = this.of(measurement)
    let entry = this.keys.get(measurement)
    if (entry === undefined) this.keys.set(measurement, (entry = { upTo: 0, symbols: new Set(), names: [] }))
    if (entry.upTo === list.length) return entry.names
    const { offsets, tags } = this.arrays
    const before = entry.symbols.size
    for (; entry.upTo < list.length; entry.upTo++) {
      const series = list[entry.upTo]
      for (let i = offsets[series], end = offsets[series + 1]; i < end; i += 2) entry.symbols.add(tags[i])
    }
    if (entry.symbols.size !== before) entry.names = [...entry.symbols].map((symbol) => this.text(symbol)).sort()
    return entry.names
  }

  /** The symbol of a tag key of this measurement, or -1. */
  keySymbol(measurement: number, key: string): number {
    const known = this.keySymbols.get(key)
    if (known !== undefined) return known
    this.tagKeys(measurement)
    for (const symbol of this.keys.get(measurement)?.symbols ?? []) this.keySymbols.set(this.text(symbol), symbol)
    return this.keySymbols.get(key) ?? ABSENT
  }

  /** Series of the measurement that satisfy all matchers, ascending. */
  select(measurement: number, matchers: readonly Matcher[]): Int32Array {
    const list = this.of(measurement)
    return this.positions(measurement, matchers, list)?.map((position) => list[position]) ?? list
  }

  /**
   * Their positions in the measurement's list; undefined for all of it. A regular expression runs once a distinct value.
   * @throws BAD_REQUEST for regular expressions that do not parse or take too long.
   * @param list as `of` gave it; indexes may know of series that came since.
   */
  positions(measurement: number, matchers: readonly Matcher[], list: Int32Array = this.of(measurement)): Int32Array | undefined {
    if (matchers.length === 0) return undefined
    const key = KeptSelections.key(measurement, matchers)
    const losses = this.lossesOf(measurement)
    let positions = this.selections.get(key, list.length, losses)
    if (positions === undefined) {
      positions = this.search(measurement, matchers, list)
      if (positions !== undefined) this.selections.set(key, list.length, losses, positions)
    }
    return positions
  }

  private search(measurement: number, matchers: readonly Matcher[], list: Int32Array): Int32Array | undefined {
    const conditions: Condition[] = []
    // One for all conditions on a tag: a query may have tens of thousands, and flags for each would take memory by the values, looking at them time by the series.
    const together = new Map<TagIndex, Flags>()
    const flagsOf = (index: TagIndex): Flags => {
      let flags = together.get(index)
      if (flags === undefined) {
        flags = { codes: index.codesOfList, passes: new Uint8Array(index.size).fill(1), absent: true }
        together.set(index, flags)
        conditions.push(flags)
      }
      return flags
    }
    // Many regular expressions together have the time of one: nothing else runs here meanwhile.
    let left = this.regexTimeoutMs ?? REGEX_TIMEOUT_MS
    const timed = <T>(run: () => T): T => {
      const start = performance.now()
      const result = run()
      left -= performance.now() - start
      return result
    }
    const compiled = (matcher: Matcher): TagCondition => {
      if (left <= 0) throw tooMany(matchers.length)
      return timed(() => compileOne(matcher, Math.max(0, left)))
    }
    const only = new Map<TagIndex, number>()
    let fewest: { index: TagIndex; codes: readonly number[]; series: number } | undefined
    for (const matcher of matchers) {
      const index = this.index(measurement, this.keySymbol(measurement, matcher.tag))
      if (matcher.op === '!=') {
        if (index !== undefined) exclude(flagsOf(index), matcher.value, index.codeOfSymbol(this.symbolOf(matcher.value)))
        else if (matcher.value === '') return new Int32Array(0)
        continue
      }
      // Compiling one value would take most of the time of many such conditions.
      const pattern = matcher.op === '=' && matcher.value !== '' ? undefined : compiled(matcher)
      const absent = pattern !== undefined && timed(() => pattern.test(''))
      const literals = pattern === undefined ? [matcher.value] : pattern.literals
      if (index === undefined) {
        if (!absent) return new Int32Array(0)
      } else if (literals !== undefined && !absent) {
        const codes = [...literals].map((text) => index.codeOfSymbol(this.symbolOf(text))).filter((code) => code !== ABSENT)
        if (codes.length === 0) return new Int32Array(0)
        const series = codes.reduce((sum, code) => sum + index.count(code), 0)
        if ((codes.length === 1 || series * LISTED_SHARE < list.length) && series < (fewest?.series ?? Number.POSITIVE_INFINITY))
          fewest = { index, codes, series }
        if (codes.length > 1) timed(() => narrow(flagsOf(index), flaggedCodes(codes, index.size), absent))
        else if (!only.has(index)) {
          only.set(index, codes[0])
          conditions.push({ codes: index.codesOfList, only: codes[0] })
        } else if (only.get(index) !== codes[0]) return new Int32Array(0)
      } else {
        const passes = index.passing(`${matcher.op} ${matcher.value}`, (values) => timed(() => (pattern as TagCondition).flags(values)))
        timed(() => narrow(flagsOf(index), passes, absent))
      }
    }
    if (conditions.length === 0) return undefined
    return passing(list.length, fewest === undefined ? undefined : below(list.length, positionsOf(fewest.index, fewest.codes)), conditions)
  }

  /** Takes given-back series out of the measurement's list. */
  private lose(measurement: number): void {
    const list = this.byMeasurement.get(measurement)
    if (list === undefined || this.followed.get(measurement) === this.releases) return
    this.followed.set(measurement, this.releases)
    const { gone } = this
    const all = list.view()
    const kept = new IntList(all.length)
    const moved = new Int32Array(all.length)
    for (let i = 0; i < all.length; i++) {
      const stays = all[i] >= gone.length || gone[all[i]] === 0
      moved[i] = stays ? kept.length : NO_POSITION
      if (stays) kept.push(all[i])
    }
    if (kept.length === all.length) return
    this.byMeasurement.set(measurement, kept)
    this.losses.set(measurement, (this.losses.get(measurement) ?? 0) + 1)
    this.keys.delete(measurement)
    const indexes = this.indexes.get(measurement)
    // What most series have left holds values that nobody has.
    if (kept.length * 2 < all.length) this.indexes.delete(measurement)
    else for (const index of indexes?.values() ?? []) index.lose(moved)
  }

  /** Takes in what was published since the last call, as far as the arrays held here reach: larger ones are under way. */
  private scan(): void {
    const { measurement, offsets, tags, symbolOffsets } = this.arrays
    const limit = Math.min(Atomics.load(this.shared, Shared.SERIES), measurement.length, offsets.length - 1)
    const symbols = Math.min(Atomics.load(this.shared, Shared.SYMBOLS), symbolOffsets.length - 1)
    for (; this.scanned < limit; this.scanned++) {
      const series = this.scanned
      const end = offsets[series + 1]
      if (end > tags.length) return
      for (let i = offsets[series]; i < end; i++) if (tags[i] >= symbols || symbolOffsets[tags[i] + 1] > this.arrays.symbolBytes.length) return
      const id = measurement[series]
      if (id < 0) continue
      let list = this.byMeasurement.get(id)
      if (list === undefined) this.byMeasurement.set(id, (list = new IntList()))
      list.push(series)
    }
  }
}

/** The codes of a tag that pass, a byte each, and whether series without the tag do. */
interface Flags {
  codes: Int32Array
  only?: undefined
  passes: Uint8Array
  absent: boolean
}

/** Which codes of a tag pass: one, or those flagged. */
type Condition = { codes: Int32Array; only: number } | Flags

function narrow(flags: Flags, passes: Uint8Array, absent: boolean): void {
  for (let code = 0; code < flags.passes.length; code++) flags.passes[code] &= passes[code]
  flags.absent &&= absent
}

/** @param code of the value, ABSENT when no series has it. */
function exclude(flags: Flags, value: string, code: number): void {
  if (code !== ABSENT) flags.passes[code] = 0
  if (value === '') flags.absent = false
}

function tooLong(): SvcError {
  return new SvcError(
    'SQL_ERROR',
    'cannot run this query: its patterns of LIKE take too long over all values of their tags; use fewer or shorter ones, or raise database.regex_timeout_ms',
  )
}

function tooMany(conditions: number): SvcError {
  return new SvcError(
    'BAD_REQUEST',
    `cannot find series by ${conditions} conditions on tags: together they take too long; make one regular expression of those on a tag, or raise database.regex_timeout_ms`,
  )
}

/** @param among positions to look at, all `length` when undefined. */
function passing(length: number, among: Int32Array | undefined, conditions: readonly Condition[]): Int32Array {
  let positions = among
  for (const condition of conditions) {
    const { codes } = condition
    const from = positions
    const out = new Int32Array(from?.length ?? length)
    let n = 0
    for (let i = 0; i < out.length; i++) {
      const position = from === undefined ? i : from[i]
      const code = codes[position]
      if (condition.only !== undefined ? code === condition.only : code === ABSENT ? condition.absent : condition.passes[code] === 1) out[n++] = position
    }
    positions = out.subarray(0, n)
  }
  return positions as Int32Array
}

/** Positions of the series that have one of the values, ascending. */
function positionsOf(index: TagIndex, codes: readonly number[]): Int32Array {
  return codes.length === 1 ? index.withCode(codes[0]) : merged(codes.map((code) => index.withCode(code)))
}

/** The numbers of an ascending list that are below a limit. */
function below(limit: number, ascending: Int32Array): Int32Array {
  let n = ascending.length
  while (n > 0 && ascending[n - 1] >= limit) n--
  return ascending.subarray(0, n)
}

function flaggedCodes(codes: readonly number[], size: number): Uint8Array {
  const out = new Uint8Array(size)
  for (const code of codes) out[code] = 1
  return out
}

/** The numbers of ascending lists without common ones, ascending. */
function merged(lists: readonly Int32Array[]): Int32Array {
  const out = new Int32Array(lists.reduce((sum, list) => sum + list.length, 0))
  let at = 0
  for (const list of lists) {
    out.set(list, at)
    at += list.length
  }
  return out.sort()
}
