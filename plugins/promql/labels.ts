/** Label sets of series: immutable, ordered by name, compared by `key`. */

export const METRIC_NAME = '__name__'
/** What says which metric a series is of: goes wherever its name goes. */
export const METADATA: ReadonlySet<string> = new Set([METRIC_NAME, '__type__', '__unit__'])
const NONE: readonly string[] = []

export class Labels {
  static readonly EMPTY = new Labels(NONE)
  /** name, value, name, value ... ordered by name; no empty values. */
  readonly pairs: readonly string[]
  private text: string | undefined

  /** @param pairs as in the field `pairs`; use `Labels.of` for anything else. */
  constructor(pairs: readonly string[]) {
    this.pairs = pairs
  }

  /** From names and values in any order; empty values are left out. */
  static of(entries: Record<string, string> | Iterable<readonly [string, string]>): Labels {
    const list = Symbol.iterator in entries ? [...(entries as Iterable<readonly [string, string]>)] : Object.entries(entries)
    const sorted = list.filter(([, value]) => value !== '').sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    return new Labels(sorted.flat())
  }

  get size(): number {
    return this.pairs.length / 2
  }

  /** The value of a label, '' when there is none. */
  get(name: string): string {
    const { pairs } = this
    for (let i = 0; i < pairs.length; i += 2) if (pairs[i] === name) return pairs[i + 1]
    return ''
  }

  has(name: string): boolean {
    return this.get(name) !== ''
  }

  /** Equal for equal label sets only. */
  get key(): string {
    return (this.text ??= keyOf(this.pairs))
  }

  equals({ pairs }: Labels): boolean {
    if (pairs.length !== this.pairs.length) return false
    for (let i = 0; i < pairs.length; i++) if (pairs[i] !== this.pairs[i]) return false
    return true
  }

  /** These labels with one set, or taken away when the value is empty. */
  with(name: string, value: string): Labels {
    const out: string[] = []
    let placed = value === ''
    for (let i = 0; i < this.pairs.length; i += 2) {
      const own = this.pairs[i]
      if (own === name) continue
      if (!placed && name < own) {
        out.push(name, value)
        placed = true
      }
      out.push(own, this.pairs[i + 1])
    }
    if (!placed) out.push(name, value)
    return new Labels(out)
  }

  /** Only the labels named. */
  keep(names: ReadonlySet<string>): Labels {
    return this.filter((name) => names.has(name))
  }

  /** All but the labels named. */
  drop(names: ReadonlySet<string>): Labels {
    return this.filter((name) => !names.has(name))
  }

  toJSON(): Record<string, string> {
    // Not by assignment: a label may be called __proto__.
    const pairs: [string, string][] = []
    for (let i = 0; i < this.pairs.length; i += 2) pairs.push([this.pairs[i], this.pairs[i + 1]])
    return Object.fromEntries(pairs)
  }

  private filter(keep: (name: string) => boolean): Labels {
    const out: string[] = []
    for (let i = 0; i < this.pairs.length; i += 2) if (keep(this.pairs[i])) out.push(this.pairs[i], this.pairs[i + 1])
    return out.length === this.pairs.length ? this : new Labels(out)
  }
}

const BETWEEN = '\xff'

/** Where a text has the separator itself, quoted: no other key begins with one, for names are not empty. */
function keyOf(pairs: readonly string[]): string {
  for (const text of pairs) if (text.includes(BETWEEN)) return BETWEEN + JSON.stringify(pairs)
  return pairs.join(BETWEEN)
}

/** One label over many series: `codes[i]` is the place in `texts` of series i's value, -1 when it has none. */
export interface LabelColumn {
  codes: Int32Array
  texts: readonly string[]
}

/** The label sets of many series. Made lazily: a million series are grouped by their columns without a label set each. */
export interface LabelSets {
  readonly length: number
  /** No two have the same labels, as far as that is known. */
  distinct: boolean
  at(i: number): Labels
  column(name: string): LabelColumn
  /** Names of all labels that series have; some may have no value left. Absent: found by asking every series. */
  names?(): readonly string[]
}

export class LabelList implements LabelSets {
  distinct = false
  readonly list: readonly Labels[]

  constructor(list: readonly Labels[]) {
    this.list = list
  }

  get length(): number {
    return this.list.length
  }

  at(i: number): Labels {
    return this.list[i]
  }

  column(name: string): LabelColumn {
    const codes = new Int32Array(this.list.length)
    const texts: string[] = []
    const known = new Map<string, number>([['', -1]])
    for (const [i, labels] of this.list.entries()) {
      const value = labels.get(name)
      let code = known.get(value)
      if (code === undefined) {
        known.set(value, (code = texts.length))
        texts.push(value)
      }
      codes[i] = code
    }
    return { codes, texts }
  }
}
