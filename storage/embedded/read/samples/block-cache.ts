/** Sample blocks that were made, up to a number of bytes; the one used longest ago goes first. */
import type { SampleBlock } from './sample-block.ts'

interface Entry {
  block: SampleBlock
  bytes: number
  owner: number
  key: number
  home: Map<number, Entry>
}

/** The blocks of one owner (a segment's measurement, a memtable chunk), each under a number. */
export class OwnedBlocks {
  readonly entries = new Map<number, Entry>()
  readonly owner: number

  /** @param owner what `BlockCache.forget` takes: a segment's id, or -1 - a memtable's id. */
  constructor(owner: number) {
    this.owner = owner
  }
}

export class BlockCache {
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

  /** Whether a block of this size is worth keeping. */
  accepts(bytes: number): boolean {
    return bytes * 4 <= this.budget
  }

  /** Whether blocks of this size in all have room at once. */
  holds(bytes: number): boolean {
    return bytes <= this.budget
  }

  get(owned: OwnedBlocks, key: number): SampleBlock | undefined {
    const entry = owned.entries.get(key)
    if (entry === undefined) return undefined
    this.order.delete(entry)
    this.order.add(entry)
    return entry.block
  }

  put(owned: OwnedBlocks, key: number, block: SampleBlock, bytes: number): void {
    this.remove(owned, key)
    if (!this.accepts(bytes)) return
    const entry: Entry = { block, bytes, owner: owned.owner, key, home: owned.entries }
    owned.entries.set(key, entry)
    this.order.add(entry)
    this.held += bytes
    for (const oldest of this.order) {
      if (this.held <= this.budget) break
      this.drop(oldest)
    }
  }

  remove(owned: OwnedBlocks, key: number): void {
    const entry = owned.entries.get(key)
    if (entry !== undefined) this.drop(entry)
  }

  /** Drops the blocks of owners that are gone. */
  forget(gone: ReadonlySet<number>): void {
    for (const entry of [...this.order]) if (gone.has(entry.owner)) this.drop(entry)
  }

  private drop(entry: Entry): void {
    if (entry.home.get(entry.key) === entry) entry.home.delete(entry.key)
    if (this.order.delete(entry)) this.held -= entry.bytes
  }
}
