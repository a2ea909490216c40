/** What is known of series by their tags, for all measurements together: bounded, and forgotten whole when it becomes too much. */

export interface Facts {
  /** Of each tag comparison: 1 = it holds. */
  tags: Uint8Array
  /** Tagged triggers that may hold. */
  triggers: Int32Array
}

/** Of a map's entry. */
const ENTRY_BYTES = 64
const MAX_FACT_BYTES = 32 * 2 ** 20

/** The parts of all measurements, to be forgotten together. */
export class FactsBudget {
  private readonly holders = new Set<SeriesFacts>()
  private readonly most: number
  private held = 0

  constructor(most = MAX_FACT_BYTES) {
    this.most = most
  }

  add(holder: SeriesFacts, bytes: number): void {
    if (this.held + bytes > this.most) {
      for (const each of this.holders) each.clear()
      this.holders.clear()
      this.held = 0
    }
    this.holders.add(holder)
    this.held += bytes
  }
}

/** Of the series of one measurement. Series of which the same comparisons hold share one entry. */
export class SeriesFacts {
  private readonly budget: FactsBudget
  private readonly bySeries = new Map<number, Facts>()
  private readonly byTags = new Map<string, Facts>()

  constructor(budget: FactsBudget) {
    this.budget = budget
  }

  get(series: number): Facts | undefined {
    return this.bySeries.get(series)
  }

  /** @param triggers called when there is no entry for these tags yet. */
  add(series: number, tags: Uint8Array, triggers: () => Int32Array): Facts {
    const key = Buffer.from(tags.buffer, tags.byteOffset, tags.length).toString('latin1')
    let facts = this.byTags.get(key)
    let bytes = ENTRY_BYTES
    if (facts === undefined) {
      facts = { tags, triggers: triggers() }
      bytes += ENTRY_BYTES + tags.length * 2 + facts.triggers.byteLength
    }
    this.budget.add(this, bytes)
    this.byTags.set(key, facts)
    this.bySeries.set(series, facts)
    return facts
  }

  clear(): void {
    this.bySeries.clear()
    this.byTags.clear()
  }
}
