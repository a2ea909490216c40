/** Reads the shared series index: the series of a measurement, their tags, and which of them match. */
import type { Matcher } from '../../../kernel/storage.ts'
import { compileRegex } from '../../common/matchers.ts'
import { type SeriesArrays, Shared } from '../layout.ts'

const EMPTY: SeriesArrays = {
  measurement: new Int32Array(0),
  offsets: new Int32Array(1),
  tags: new Int32Array(0),
  symbolOffsets: new Int32Array(1),
  symbolBytes: new Uint8Array(0),
}
const ABSENT = -1
/** Texts whose symbol is remembered. */
const KEPT_SYMBOLS = 10_000
const decoder = new TextDecoder()
const encoder = new TextEncoder()

/** A growing list of numbers. */
class IntList {
  values = new Int32Array(16)
  length = 0

  push(value: number): void {
    if (this.length === this.values.length) {
      const grown = new Int32Array(this.length * 2)
      grown.set(this.values)
      this.values = grown
    }
    this.values[this.length++] = value
  }
}

export class SeriesView {
  private readonly shared: Int32Array
  private arrays: SeriesArrays = EMPTY
  private readonly texts: (string | undefined)[] = []
  private readonly keySymbols = new Map<string, number>()
  private readonly symbols = new Map<string, { symbol: number; searched: number }>()
  private scanned = 0
  private readonly byMeasurement = new Map<number, IntList>()
  private readonly keys = new Map<number, { upTo: number; symbols: Set<number>; names: string[] }>()

  constructor(shared: Int32Array) {
    this.shared = shared
  }

  setArrays(arrays: SeriesArrays): void {
    this.arrays = arrays
  }

  /** The series of a measurement known so far, ascending. Some may have no rows. */
  of(measurement: number): Int32Array {
    this.scan()
    const list = this.byMeasurement.get(measurement)
    return list === undefined ? new Int32Array(0) : list.values.subarray(0, list.length)
  }

  /** Takes given-back series out of the lists; readers that hold an older list keep it. */
  release(series: Int32Array): void {
    this.scan()
    const gone = new Set(series)
    for (const [measurement, list] of this.byMeasurement) {
      const all = list.values.subarray(0, list.length)
      if (!all.some((number) => gone.has(number))) continue
      const kept = new IntList()
      for (const number of all) if (!gone.has(number)) kept.push(number)
      this.byMeasurement.set(measurement, kept)
      this.keys.delete(measurement)
    }
  }

  measurementOf(series: number): number {
    return series < this.arrays.measurement.length ? this.arrays.measurement[series] : -1
  }

  get measurementArray(): Int32Array {
    return this.arrays.measurement
  }

  text(symbol: number): string {
    return (this.texts[symbol] ??= decoder.decode(this.bytes(symbol).slice()))
  }

  /** The symbol's UTF-8, in shared memory. */
  bytes(symbol: number): Uint8Array {
    const { symbolBytes, symbolOffsets } = this.arrays
    return symbolBytes.subarray(symbolOffsets[symbol], symbolOffsets[symbol + 1])
  }

  tags(series: number): Record<string, string> {
    const { offsets, tags } = this.arrays
    const out: Record<string, string> = {}
    for (let i = offsets[series]; i < offsets[series + 1]; i += 2) out[this.text(tags[i])] = this.text(tags[i + 1])
    return out
  }

  /** Symbols of the tag's value, or -1. */
  tagSymbol(series: number, key: number): number {
    const { offsets, tags } = this.arrays
    for (let i = offsets[series], end = offsets[series + 1]; i < end; i += 2) if (tags[i] === key) return tags[i + 1]
    return ABSENT
  }

  /** Those of `series` whose tag has one of the values, none of them empty. Compares numbers: no text is made, however many values the tag has. */
  withTag(series: Int32Array, key: number, values: readonly string[]): Int32Array {
    const wanted = new Set<number>()
    for (const value of values) {
      const symbol = this.symbolOf(value)
      if (symbol !== ABSENT) wanted.add(symbol)
    }
    const out = new Int32Array(wanted.size === 0 ? 0 : series.length)
    if (wanted.size === 0) return out
    const { offsets, tags } = this.arrays
    const only = wanted.size === 1 ? (wanted.values().next().value as number) : ABSENT
    let n = 0
    let place = 0 // where the series before had the key: neighbours mostly have it there too
    for (let i = 0; i < series.length; i++) {
      const start = offsets[series[i]]
      const end = offsets[series[i] + 1]
      if (start + place >= end || tags[start + place] !== key) {
        place = 0
        while (start + place < end && tags[start + place] !== key) place += 2
        if (start + place >= end) continue
      }
      const symbol = tags[start + place + 1]
      if (symbol === only || (only === ABSENT && wanted.has(symbol))) out[n++] = series[i]
    }
    return out.subarray(0, n)
  }

  /** The symbol of a text, or ABSENT. Symbols are never removed, so that a search goes on where the last one for this text ended. */
  private symbolOf(text: string): number {
    let entry = this.symbols.get(text)
    if (entry === undefined) {
      if (this.symbols.size >= KEPT_SYMBOLS) this.symbols.clear()
      this.symbols.set(text, (entry = { symbol: ABSENT, searched: 0 }))
    }
    if (entry.symbol !== ABSENT) return entry.symbol
    const bytes = encoder.encode(text)
    const { symbolOffsets, symbolBytes } = this.arrays
    const count = Math.min(Atomics.load(this.shared, Shared.SYMBOLS), symbolOffsets.length - 1)
    for (let symbol = entry.searched; symbol < count; symbol++) {
      const start = symbolOffsets[symbol]
      if (symbolOffsets[symbol + 1] - start !== bytes.length) continue
      let same = 0
      while (same < bytes.length && symbolBytes[start + same] === bytes[same]) same++
      if (same < bytes.length) continue
      entry.symbol = symbol
      break
    }
    entry.searched = count
    return entry.symbol
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

  /** Series of the measurement that satisfy all matchers, ascending. A regular expression runs once a distinct value. */
  select(measurement: number, matchers: readonly Matcher[]): Int32Array {
    let current = this.of(measurement)
    for (const matcher of matchers) current = this.filter(measurement, current, matcher)
    return current
  }

  private filter(measurement: number, series: Int32Array, matcher: Matcher): Int32Array {
    const key = this.keySymbol(measurement, matcher.tag)
    if (matcher.op === '=' && matcher.value !== '' && key !== ABSENT) return this.withTag(series, key, [matcher.value])
    const test = predicate(matcher)
    const absent = test('')
    const verdicts = new Map<number, boolean>()
    const out = new Int32Array(series.length)
    let n = 0
    for (const s of series) {
      const symbol = key === ABSENT ? ABSENT : this.tagSymbol(s, key)
      let verdict = symbol === ABSENT ? absent : verdicts.get(symbol)
      if (verdict === undefined) verdicts.set(symbol, (verdict = test(this.text(symbol))))
      if (verdict) out[n++] = s
    }
    return out.subarray(0, n)
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

function predicate(matcher: Matcher): (value: string) => boolean {
  const { op, value } = matcher
  if (op === '=') return (v) => v === value
  if (op === '!=') return (v) => v !== value
  const re = compileRegex(value)
  return op === '=~' ? (v) => re.test(v) : (v) => !re.test(v)
}
