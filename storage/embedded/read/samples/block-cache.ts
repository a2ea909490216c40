/** Units that were made, up to a number of bytes; the one used longest ago goes first. */
import type { Unit } from './sample-block.ts'

interface Entry {
  unit: Unit
  bytes: number
  owner: number
  key: number
  home: Map<number, Entry>
}

/** The units of one owner (a segment's measurement, a memtable chunk), each under a number. */
export class UnitShelf {
  readonly entries = new Map<number, Entry>()
  readonly owner: number

  /** @param owner what `UnitCache.forget` is told: a segment's id, or -1 - a memtable's id. */
  constructor(owner: number) {
    this.owner = owner
  }
}

export class UnitCache {
  /** In order of use. */
  private readonly order = new Set<Entry>()
  private readonly budget: number
  private held = 0

  constructor(budget: number) {
    this.budget = budget
  }

  get bytes(): number {
    return this.held
  }

  /** Whether a unit of this size is worth keeping. */
  accepts(bytes: number): boolean {
    return bytes * 4 <= this.budget
  }

  /** Whether units of this size in all have room at once. */
  holds(bytes: number): boolean {
    return bytes <= this.budget
  }

  get(shelf: UnitShelf, key: number): Unit | undefined {
    const entry = shelf.entries.get(key)
    if (entry === undefined) return undefined
    this.order.delete(entry)
    this.order.add(entry)
    return entry.unit
  }

  put(shelf: UnitShelf, key: number, unit: Unit, bytes: number): void {
    this.remove(shelf, key)
    if (!this.accepts(bytes)) return
    const entry: Entry = { unit, bytes, owner: shelf.owner, key, home: shelf.entries }
    shelf.entries.set(key, entry)
    this.order.add(entry)
    this.held += bytes
    for (const oldest of this.order) {
      if (this.held <= this.budget) break
      this.drop(oldest)
    }
  }

  remove(shelf: UnitShelf, key: number): void {
    const entry = shelf.entries.get(key)
    if (entry !== undefined) this.drop(entry)
  }

  /** Drops the units of owners that are gone. */
  forget(gone: ReadonlySet<number>): void {
    for (const entry of [...this.order]) if (gone.has(entry.owner)) this.drop(entry)
  }

  private drop(entry: Entry): void {
    if (entry.home.get(entry.key) === entry) entry.home.delete(entry.key)
    if (this.order.delete(entry)) this.held -= entry.bytes
  }
}
