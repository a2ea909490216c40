/** The values of one label over many metrics, each once. Metrics of one measurement share a column's texts: their codes tell what is known already. */

import type { SeriesSet, TagColumn } from 'svcdb/lib/columns'
import { sortTexts } from '../text-order.ts'

/** The texts of a tag in order, as many as there were: they only grow, and those added are few. */
const SORTED = new WeakMap<readonly string[], readonly string[]>()

export class LabelValues {
  private readonly name: string
  private readonly values = new Set<string>()
  /** A byte a code, 1 = among the values. */
  private readonly known = new Map<readonly string[], Uint8Array>()

  constructor(name: string) {
    this.name = name
  }

  /** Values that are known. */
  get size(): number {
    return this.values.size
  }

  /** How many the series have at most. */
  mostOf(set: SeriesSet): number {
    const column = this.columnOf(set)
    return column === undefined ? 0 : Math.min(column.texts.length, set.series.length)
  }

  /** Whether the series have a value that is not known yet. */
  lacks(set: SeriesSet): boolean {
    const column = this.columnOf(set)
    if (column === undefined) return false
    const { codes, texts } = column
    const known = this.knownOf(texts)
    for (const code of codes) {
      if (code < 0 || known[code] === 1) continue
      if (!this.values.has(texts[code])) return true
      known[code] = 1
    }
    return false
  }

  add(set: SeriesSet): void {
    const column = this.columnOf(set)
    if (column === undefined) return
    const { codes, texts } = column
    const known = this.knownOf(texts)
    for (const code of codes) {
      if (code < 0 || known[code] === 1) continue
      known[code] = 1
      this.values.add(texts[code])
    }
  }

  sorted(): readonly string[] {
    const [[texts, known] = []] = this.known
    const all = this.known.size === 1 && texts !== undefined && known?.length === texts.length && this.values.size === texts.length
    return all ? sortedTexts(texts) : sortTexts([...this.values])
  }

  private columnOf({ tags }: SeriesSet): TagColumn | undefined {
    return tags.keys().includes(this.name) ? tags.column(this.name) : undefined
  }

  private knownOf(texts: readonly string[]): Uint8Array {
    const known = this.known.get(texts)
    if (known !== undefined && known.length >= texts.length) return known
    const grown = new Uint8Array(texts.length)
    if (known !== undefined) grown.set(known)
    this.known.set(texts, grown)
    return grown
  }
}

function sortedTexts(texts: readonly string[]): readonly string[] {
  const before = SORTED.get(texts)
  if (before?.length === texts.length) return before
  // Near what it was, and so soon in order.
  const sorted = sortTexts([...(before ?? []), ...texts.slice(before?.length ?? 0)])
  SORTED.set(texts, sorted)
  return sorted
}
