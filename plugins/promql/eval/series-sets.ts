/** Views and groupings of many label sets that need no label set for each series. */
import { type LabelColumn, LabelList, type LabelSets, Labels } from '../labels.ts'

export const NO_SERIES: LabelSets = new LabelList([])
/** One series without labels. */
export const ONE_SERIES: LabelSets = new LabelList([Labels.EMPTY])

/** Some of the series of another set, in an order of its own. */
export class SomeSeries implements LabelSets {
  private readonly base: LabelSets
  readonly rows: Int32Array

  constructor(base: LabelSets, rows: Int32Array) {
    this.base = base
    this.rows = rows
  }

  get length(): number {
    return this.rows.length
  }

  at(i: number): Labels {
    return this.base.at(this.rows[i])
  }

  column(name: string): LabelColumn {
    const { codes, texts } = this.base.column(name)
    const { rows } = this
    const own = new Int32Array(rows.length)
    for (let i = 0; i < rows.length; i++) own[i] = codes[rows[i]]
    return { codes: own, texts }
  }

  names(): readonly string[] {
    return labelNames(this.base)
  }
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

export interface SeriesGroups {
  /** For each set given the group of each series; groups are numbered as they come up. */
  ordinals: Int32Array[]
  count: number
}

/** Groups series of one or more sets that agree in all these labels. */
export function groupByLabels(sets: readonly LabelSets[], names: readonly string[]): SeriesGroups {
  const ordinals = sets.map((set) => new Int32Array(set.length))
  let count = sets.some((set) => set.length > 0) ? 1 : 0
  for (const name of names) {
    const { columns, width } = sharedCodes(sets, name)
    if (width > 1) count = refine(ordinals, columns, count, width)
  }
  return { ordinals, count }
}

/** Columns of one label in which the same code means the same text in all sets; 0 is no value. */
function sharedCodes(sets: readonly LabelSets[], name: string): { columns: LabelColumn[]; width: number } {
  const known = new Map<string, number>([['', 0]])
  const columns = sets.map((set) => {
    const column = set.column(name)
    const shared = new Int32Array(column.texts.length)
    for (let i = 0; i < shared.length; i++) {
      let code = known.get(column.texts[i])
      if (code === undefined) known.set(column.texts[i], (code = known.size))
      shared[i] = code
    }
    const codes = new Int32Array(set.length)
    for (let i = 0; i < codes.length; i++) codes[i] = column.codes[i] < 0 ? 0 : shared[column.codes[i]]
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
