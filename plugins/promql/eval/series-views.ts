/** Label sets made of others, without a label set for each series before somebody asks. */
import type { LabelColumn, LabelSets, Labels } from '../labels.ts'
import { labelNames, SomeSeries } from './series-sets.ts'

/** All series of one set, and some of another after them. */
export class BothSeries implements LabelSets {
  distinct = false
  readonly length: number
  private readonly left: LabelSets
  private readonly right: SomeSeries
  /** Of unions of unions each column would otherwise be put together anew at every level. */
  private readonly columns = new Map<string, LabelColumn>()

  constructor(left: LabelSets, right: LabelSets, extra: Int32Array) {
    this.left = left
    this.right = new SomeSeries(right, extra)
    this.length = left.length + extra.length
  }

  at(i: number): Labels {
    return i < this.left.length ? this.left.at(i) : this.right.at(i - this.left.length)
  }

  column(name: string): LabelColumn {
    let column = this.columns.get(name)
    if (column === undefined) this.columns.set(name, (column = joined(this.left.column(name), this.right.column(name))))
    return column
  }

  names(): readonly string[] {
    return [...new Set([...labelNames(this.left), ...labelNames(this.right)])]
  }
}

function joined(left: LabelColumn, right: LabelColumn): LabelColumn {
  const before = left.codes.length
  const codes = new Int32Array(before + right.codes.length)
  codes.set(left.codes)
  // Metrics of one measurement have the texts of its tags in common.
  if (left.texts === right.texts) {
    codes.set(right.codes, before)
    return { codes, texts: left.texts }
  }
  const shift = left.texts.length
  for (let i = 0; i < right.codes.length; i++) codes[before + i] = right.codes[i] < 0 ? -1 : right.codes[i] + shift
  return { codes, texts: [...left.texts, ...right.texts] }
}

export interface ChangedLabels {
  /** Only these stay. */
  keep?: ReadonlySet<string>
  /** These go, also when they are in `keep`. */
  drop: ReadonlySet<string>
  /** These are taken from the other set, or go when it has none. */
  include: readonly string[]
}

/** The series of one set with labels taken away, and some labels of another set's series in the same place. */
export class ChangedSeries implements LabelSets {
  distinct = false
  readonly length: number
  private readonly base: LabelSets
  private readonly other: LabelSets
  private readonly change: ChangedLabels

  constructor(base: LabelSets, other: LabelSets, change: ChangedLabels) {
    this.base = base
    this.other = other
    this.change = change
    this.length = base.length
  }

  at(i: number): Labels {
    const base = this.base.at(i)
    // Asked for only when needed: in nested views each level would double the work below.
    const other = this.change.include.length === 0 || this.other === this.base ? base : this.other.at(i)
    return changeLabels(base, other, this.change)
  }

  column(name: string): LabelColumn {
    const { keep, drop, include } = this.change
    if (include.includes(name)) return this.other.column(name)
    if (drop.has(name) || (keep !== undefined && !keep.has(name))) return { codes: new Int32Array(this.length).fill(-1), texts: [] }
    return this.base.column(name)
  }

  names(): readonly string[] {
    const { keep, drop, include } = this.change
    const own = labelNames(this.base).filter((name) => !drop.has(name) && (keep === undefined || keep.has(name)))
    return [...new Set([...own, ...include])]
  }
}

export function changeLabels(base: Labels, other: Labels, { keep, drop, include }: ChangedLabels): Labels {
  let labels = keep === undefined ? base : base.keep(keep)
  labels = labels.drop(drop)
  for (const name of include) labels = labels.with(name, other.get(name))
  return labels
}
