/** Views and groupings of many label sets that need no label set for each series. */
import { type LabelColumn, LabelList, type LabelSets, Labels } from '../labels.ts'

export const NO_SERIES: LabelSets = markDistinct(new LabelList([]))
/** One series without labels. */
export const ONE_SERIES: LabelSets = markDistinct(new LabelList([Labels.EMPTY]))

/** No two series of the set have the same labels. */
export function markDistinct<T extends LabelSets>(labels: T): T {
  labels.distinct = true
  return labels
}

/** So many times fewer series than their base has are looked at one by one. */
const FEW = 16

/** Series of another set, in an order of its own. */
export class SomeSeries implements LabelSets {
  distinct = false
  readonly length: number
  private readonly base: LabelSets
  private readonly rows: Int32Array
  private list: LabelList | undefined

  constructor(base: LabelSets, rows: Int32Array) {
    this.base = base
    this.rows = rows
    this.length = rows.length
  }

  at(i: number): Labels {
    return this.base.at(this.rows[i])
  }

  column(name: string): LabelColumn {
    const { rows } = this
    if (rows.length * FEW < this.base.length) {
      this.list ??= new LabelList(Array.from(rows, (row) => this.base.at(row)))
      return this.list.column(name)
    }
    const { codes, texts } = this.base.column(name)
    const own = new Int32Array(rows.length)
    for (let i = 0; i < rows.length; i++) own[i] = codes[rows[i]]
    return { codes: own, texts }
  }

  names(): readonly string[] {
    return labelNames(this.base)
  }
}

/** Some of the series of a set, none twice. */
export function someOf(base: LabelSets, rows: Int32Array): LabelSets {
  const some = new SomeSeries(base, rows)
  return base.distinct ? markDistinct(some) : some
}

export function labelNames(labels: LabelSets): readonly string[] {
  if (labels.names !== undefined) return labels.names()
  const names = new Set<string>()
  for (let i = 0; i < labels.length; i++) {
    const { pairs } = labels.at(i)
    for (let p = 0; p < pairs.length; p += 2) names.add(pairs[p])
  }
  return [...names]
}

interface SeriesGroups {
  /** For each set given the group of each series; groups are numbered as they come up. */
  ordinals: Int32Array[]
  count: number
}

/** Groups series of one or more sets that agree in all these labels. */
export function groupByLabels(sets: readonly LabelSets[], names: readonly string[]): SeriesGroups {
  const ordinals = sets.map((set) => new Int32Array(set.length))
  let count = sets.some((set) => set.length > 0) ? 1 : 0
  for (const name of names.length > MANY_NAMES ? known(sets, names) : names) {
    const { columns, width } = sharedCodes(sets, name)
    if (width > 1) count = refine(ordinals, columns, count, width)
  }
  return { ordinals, count }
}

/** Above so many names it is worth to ask first which of them any series has. */
const MANY_NAMES = 32

function known(sets: readonly LabelSets[], names: readonly string[]): string[] {
  const own = new Set(sets.flatMap((set) => labelNames(set)))
  return [...new Set(names)].filter((name) => own.has(name))
}

/** Columns of one label in which the same code means the same text in all sets; 0 is no value. */
function sharedCodes(sets: readonly LabelSets[], name: string): { columns: LabelColumn[]; width: number } {
  const known = new Map<string, number>([['', 0]])
  /** Sets often have their texts in common. */
  const translations = new Map<readonly string[], Int32Array>()
  const columns = sets.map((set) => {
    const column = set.column(name)
    let shared = translations.get(column.texts)
    // Texts may have been added since the set before was looked at.
    if (shared === undefined || shared.length < column.texts.length) {
      const longer = new Int32Array(column.texts.length).fill(-1)
      if (shared !== undefined) longer.set(shared)
      translations.set(column.texts, (shared = longer))
    }
    const codes = new Int32Array(set.length)
    for (let i = 0; i < codes.length; i++) {
      const own = column.codes[i]
      if (own < 0) continue
      if (shared[own] < 0) {
        const text = column.texts[own]
        let code = known.get(text)
        if (code === undefined) known.set(text, (code = known.size))
        shared[own] = code
      }
      codes[i] = shared[own]
    }
    return { codes, texts: column.texts }
  })
  return { columns, width: known.size }
}

/** A pair table up to this size is an array, a larger one a map. */
const TABLE_ENTRIES = 1 << 20

/** Splits groups by one more label. */
function refine(ordinals: readonly Int32Array[], columns: readonly LabelColumn[], groups: number, width: number): number {
  const table = groups * width <= TABLE_ENTRIES ? new Int32Array(groups * width) : undefined
  const map = table === undefined ? new Map<number, number>() : undefined
  let count = 0
  for (const [s, own] of ordinals.entries()) {
    const { codes } = columns[s]
    for (let i = 0; i < own.length; i++) {
      const pair = own[i] * width + codes[i]
      let ordinal = table !== undefined ? table[pair] - 1 : (map?.get(pair) ?? -1)
      if (ordinal < 0) {
        ordinal = count++
        if (table !== undefined) table[pair] = ordinal + 1
        else map?.set(pair, ordinal)
      }
      own[i] = ordinal
    }
  }
  return count
}

/** The first series of each group of one set. */
export function firstOfGroups(ordinals: Int32Array, count: number): Int32Array {
  const first = new Int32Array(count).fill(-1)
  for (let i = 0; i < ordinals.length; i++) if (first[ordinals[i]] < 0) first[ordinals[i]] = i
  return first
}
