/**
 * What the catalog does not have yet: marks on its entries whose state in memory has changed.
 *
 * Invariants
 * - A commit takes no mark out. It stores the state of all that is marked, and settles exactly these marks once it is durable: one that fails leaves
 *   nothing to put back.
 * - What is marked again while a commit is under way stays marked.
 */

/** What a mark is on: `series` counts blocks of the catalog, the last two are one entry each. */
export type Kind = 'measurement' | 'table' | 'tombstone' | 'drop' | 'series' | 'retention' | 'ended-drops'

/** Numbers of the entries, and when each was marked last. */
export type Marks = ReadonlyMap<Kind, ReadonlyMap<number, number>>

const DEFINITIONS: readonly Kind[] = ['measurement', 'table']

export class Unstored {
  private readonly marks = new Map<Kind, Map<number, number>>()
  private count = 0

  /** The entry has changed, come or gone. */
  mark(kind: Kind, id = 0): void {
    let marked = this.marks.get(kind)
    if (marked === undefined) this.marks.set(kind, (marked = new Map()))
    marked.set(id, ++this.count)
  }

  /** There is something beside definitions: these are of no use without rows, whose flush stores them. */
  get waiting(): boolean {
    for (const [kind, marked] of this.marks) if (marked.size > 0 && !DEFINITIONS.includes(kind)) return true
    return false
  }

  /** The marks as they are now. */
  copy(): Marks {
    return new Map([...this.marks].map(([kind, marked]) => [kind, new Map(marked)]))
  }

  /** How many are marked. */
  countOf(kind: Kind): number {
    return this.marks.get(kind)?.size ?? 0
  }

  /** Numbers of those that are marked. */
  *ids(kind: Kind): Generator<number> {
    yield* this.marks.get(kind)?.keys() ?? []
  }

  has(kind: Kind, id: number): boolean {
    return this.marks.get(kind)?.has(id) === true
  }

  /** The marks of up to so many of a kind, as they are now. */
  some(kind: Kind, max: number): ReadonlyMap<number, number> {
    return this.upTo(kind, max, () => 1)
  }

  /** The first marks of a kind that have so much weight together, or one that has more. @param weightOf of an entry; undefined: it is passed over. */
  upTo(kind: Kind, most: number, weightOf: (id: number) => number | undefined): ReadonlyMap<number, number> {
    const found = new Map<number, number>()
    let sum = 0
    for (const [id, at] of this.marks.get(kind) ?? []) {
      if (sum >= most) break
      const weight = weightOf(id)
      if (weight === undefined) continue
      sum += weight
      if (sum > most && found.size > 0) break
      found.set(id, at)
    }
    return found
  }

  /** A commit that stored the state of these marks, or a later one, is durable. */
  settle(stored: Marks): void {
    for (const [kind, numbers] of stored) {
      const marked = this.marks.get(kind)
      for (const [id, at] of numbers) if (marked?.get(id) === at) marked.delete(id)
    }
  }
}
