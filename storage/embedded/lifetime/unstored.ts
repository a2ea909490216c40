/** What of deletes and drops the catalog does not have yet. Taken for a commit, and put back when it fails. */
export class Unstored {
  /** Measurements whose pending drop began or ended. */
  drops = new Set<number>()
  measurementsGone = new Set<number>()
  /** Own tables that went. */
  tables = new Set<number>()
  /** Series given back: their blocks are written again. */
  released = new Set<number>()
  /** The list of ended drops has changed. */
  ended = false

  get some(): boolean {
    return this.ended || this.drops.size + this.measurementsGone.size + this.tables.size + this.released.size > 0
  }

  /** The set as it is now; this one begins anew. */
  take(): Unstored {
    const taken = new Unstored()
    Object.assign(taken, this)
    Object.assign(this, new Unstored())
    return taken
  }

  putBack(taken: Unstored): void {
    for (const id of taken.drops) this.drops.add(id)
    for (const id of taken.measurementsGone) this.measurementsGone.add(id)
    for (const id of taken.tables) this.tables.add(id)
    for (const series of taken.released) this.released.add(series)
    this.ended ||= taken.ended
  }
}
