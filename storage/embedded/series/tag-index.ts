/**
 * One tag of a measurement's series, by value: the value of each series as a small number (its code), and the series of each value.
 *
 * Invariants: it follows the measurement's list of series, to which series are added, and which may lose some (`lose`); codes are dense from 0 in the
 * order in which values were met, and never change.
 */

import { RecentMap } from 'svcdb/lib/cache'
import { IntList } from '../memtable/int-list.ts'
import type { SeriesArrays } from '../threads/series-layout.ts'

export const NO_CODE = -1
export const NO_POSITION = -1
/** Series that came after the lists were made are looked through one by one, up to this share of all. */
const TAIL_SHARE = 8
const MIN_TAIL = 1024
/** Conditions whose verdicts are kept. */
const KEPT_CONDITIONS = 8
/** Values that a condition is put to at a time: their texts are made for it. */
const TESTED_AT_ONCE = 65_536
/** 2^32 divided by the golden ratio: adjacent symbols come to lie apart. */
const SPREAD = 0x9e3779b1

interface Verdicts {
  /** One byte a code, 1 = passes. */
  passes: Uint8Array
  known: number
}

export class TagIndex {
  private codes = new IntList()
  private readonly symbols = new IntList()
  /** Symbol → code, by open addressing: code + 1; 0 = free. A Map takes forty bytes an entry. */
  private slots: Int32Array = new Int32Array(64)
  /** 32 less the bits of a slot's number. */
  private shift = 26
  private readonly texts: string[] = []
  private readonly text: (symbol: number) => string
  private readonly verdicts = new RecentMap<string, Verdicts>(KEPT_CONDITIONS)
  /** Positions of the first `listed` series, ordered by code; those of code c lie at [starts[c], starts[c + 1]). */
  private starts: Int32Array = new Int32Array(1)
  private positions: Int32Array = new Int32Array(0)
  private listed = 0

  constructor(text: (symbol: number) => string) {
    this.text = text
  }

  /** Takes in the series added since the last call. @param list the measurement's series, @param key the tag's symbol. */
  follow(list: Int32Array, key: number, { offsets, tags }: SeriesArrays): void {
    this.codes.room(list.length)
    let place = 0 // where the series before had the key: adjacent series mostly have it there too
    for (let i = this.codes.length; i < list.length; i++) {
      const start = offsets[list[i]]
      const end = offsets[list[i] + 1]
      if (start + place >= end || tags[start + place] !== key) {
        place = 0
        while (start + place < end && tags[start + place] !== key) place += 2
      }
      this.codes.push(start + place < end ? this.codeFor(tags[start + place + 1]) : NO_CODE)
    }
  }

  /**
   * The list has lost series. Those that hold older codes or positions keep them.
   * @param moved for each position of the list until now the one that it has from now on, NO_POSITION for a series that is gone.
   */
  lose(moved: Int32Array): void {
    const { values, length } = this.codes
    const codes = new IntList(length)
    for (let i = 0; i < length; i++) if (moved[i] !== NO_POSITION) codes.push(values[i])
    this.codes = codes
    const starts = new Int32Array(this.starts.length)
    const positions = new Int32Array(this.positions.length)
    let n = 0
    for (let code = 0; code + 1 < starts.length; code++) {
      for (let i = this.starts[code]; i < this.starts[code + 1]; i++) {
        const position = moved[this.positions[i]]
        if (position !== NO_POSITION) positions[n++] = position
      }
      starts[code + 1] = n
    }
    let listed = 0
    for (let i = 0; i < this.listed; i++) if (moved[i] !== NO_POSITION) listed++
    this.starts = starts
    this.positions = positions.subarray(0, n)
    this.listed = listed
  }

  /** Distinct values. */
  get size(): number {
    return this.symbols.length
  }

  /** One a series of the list. */
  get codesOfList(): Int32Array {
    return this.codes.view()
  }

  /** The code of a value, NO_CODE when no series has it. */
  codeOfSymbol(symbol: number): number {
    return this.slots[this.slotOf(symbol)] - 1
  }

  /** The texts of all codes; grows in place. */
  allTexts(): readonly string[] {
    const { symbols, texts } = this
    for (let code = texts.length; code < symbols.length; code++) texts.push(this.text(symbols.values[code]))
    return texts
  }

  /** Series with a value, at most. */
  count(code: number): number {
    return (code + 1 < this.starts.length ? this.starts[code + 1] - this.starts[code] : 0) + this.codes.length - this.listed
  }

  /** Positions in the list of the series with a value, ascending. */
  withCode(code: number): Int32Array {
    if (this.codes.length - this.listed > Math.max(MIN_TAIL, this.codes.length / TAIL_SHARE)) this.relist()
    const from = code < this.starts.length - 1 ? this.starts[code] : 0
    const to = code < this.starts.length - 1 ? this.starts[code + 1] : 0
    const listed = this.positions.subarray(from, to)
    const tail: number[] = []
    const { values } = this.codes
    for (let i = this.listed; i < this.codes.length; i++) if (values[i] === code) tail.push(i)
    if (tail.length === 0) return listed
    const out = new Int32Array(listed.length + tail.length)
    out.set(listed)
    out.set(tail, listed.length)
    return out
  }

  /** Which codes pass a condition: each value is tested once. @param name tells conditions apart. */
  passing(name: string, test: (values: readonly string[]) => Uint8Array): Uint8Array {
    let entry = this.verdicts.get(name)
    if (entry === undefined || entry.known < this.size) {
      entry ??= { passes: new Uint8Array(0), known: 0 }
      const passes = new Uint8Array(this.size)
      passes.set(entry.passes)
      for (let from = entry.known; from < this.size; from += TESTED_AT_ONCE)
        passes.set(test(this.someTexts(from, Math.min(this.size, from + TESTED_AT_ONCE))), from)
      entry = { passes, known: this.size }
      this.verdicts.set(name, entry)
    }
    return entry.passes
  }

  /** Texts of some codes; those of a tag with many values are not kept for it. */
  private someTexts(from: number, to: number): string[] {
    const { symbols, texts } = this
    if (symbols.length <= TESTED_AT_ONCE) return this.allTexts().slice(from, to)
    const out: string[] = []
    for (let code = from; code < to; code++) out.push(code < texts.length ? texts[code] : this.text(symbols.values[code]))
    return out
  }

  private codeFor(symbol: number): number {
    const slot = this.slotOf(symbol)
    if (this.slots[slot] !== 0) return this.slots[slot] - 1
    const code = this.symbols.length
    this.symbols.push(symbol)
    this.slots[slot] = code + 1
    if ((code + 1) * 2 > this.slots.length) this.rehash()
    return code
  }

  /** Where a symbol is, or would go. */
  private slotOf(symbol: number): number {
    const { slots } = this
    const { values } = this.symbols
    const mask = slots.length - 1
    let slot = Math.imul(symbol, SPREAD) >>> this.shift
    while (slots[slot] !== 0 && values[slots[slot] - 1] !== symbol) slot = (slot + 1) & mask
    return slot
  }

  private rehash(): void {
    this.slots = new Int32Array(this.slots.length * 2)
    this.shift--
    for (let code = 0; code < this.size; code++) this.slots[this.slotOf(this.symbols.values[code])] = code + 1
  }

  private relist(): void {
    const { values, length } = this.codes
    const starts = new Int32Array(this.size + 1)
    for (let i = 0; i < length; i++) if (values[i] !== NO_CODE) starts[values[i] + 1]++
    for (let code = 0; code < this.size; code++) starts[code + 1] += starts[code]
    const next = starts.slice()
    const positions = new Int32Array(starts[this.size])
    for (let i = 0; i < length; i++) if (values[i] !== NO_CODE) positions[next[values[i]]++] = i
    this.starts = starts
    this.positions = positions
    this.listed = length
  }
}
