import { BLOCK } from '../catalog.ts'

/** What of deletes and drops the catalog does not have yet. Taken for a commit, and put back when it fails. */
export class Unstored {
  /** Measurements whose pending drop began or ended. */
  drops = new Set<number>()
  measurementsGone = new Set<number>()
  /** Own tables that went. */
  tables = new Set<number>()
  /** Blocks of the catalog with series that were given back, which are written again → a stamp of the last that was. */
  released = new Map<number, number>()
  /** The list of ended drops has changed. */
  ended = false
  private stamp = 0

  get some(): boolean {
    return this.ended || this.drops.size + this.measurementsGone.size + this.tables.size + this.released.size > 0
  }

  release(series: Int32Array): void {
    const stamp = ++this.stamp
    let last = -1
    for (const number of series) {
      const block = Math.floor(number / BLOCK)
      if (block !== last) this.released.set(block, stamp)
      last = block
    }
  }

  /** The block was stored as it was at the stamp. */
  stored(block: number, stamp: number): void {
    if (this.released.get(block) === stamp) this.released.delete(block)
  }

  /** The set as it is now; this one begins anew. */
  take(): Unstored {
    const taken = new Unstored()
    const { stamp } = this
    Object.assign(taken, this)
    Object.assign(this, new Unstored())
    this.stamp = stamp
    return taken
  }

  putBack(taken: Unstored): void {
    for (const id of taken.drops) this.drops.add(id)
    for (const id of taken.measurementsGone) this.measurementsGone.add(id)
    for (const id of taken.tables) this.tables.add(id)
    for (const [block, stamp] of taken.released) if (!this.released.has(block)) this.released.set(block, stamp)
    this.ended ||= taken.ended
  }
}
