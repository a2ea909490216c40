/**
 * Byte keys within a parent: equal bytes under different parents are different keys.
 *
 * The parent's number goes into the hash by steps that lose nothing, so equal bytes have different hashes under different parents, and a key
 * that is found (its hash and its bytes compared) is the parent's.
 */
import { KeyTable } from 'svcdb/lib/columns'

export class NestedKeys {
  readonly table: KeyTable
  /** The entry that `find`, `expected` or `add` met last, -1 = none. */
  private last = -1

  constructor(maxBytes: number, seed: number) {
    this.table = new KeyTable(maxBytes, seed)
  }

  clear(): void {
    this.table.clear()
    this.last = -1
  }

  /** Senders repeat their order: the value of the key that came after the last one, if the bytes from `start` to `end` are that key; else -1. */
  expected(view: DataView, start: number, end: number, parent: number): number {
    if (this.last < 0) return -1
    const { table } = this
    const entry = table.following[this.last]
    if (entry < 0 || entry >= table.size || table.group[entry] !== parent || table.matchEnd(entry, view, start) !== end) return -1
    this.last = entry
    return table.series[entry]
  }

  /** The value of the key view[start, end), or -1. */
  find(view: DataView, start: number, end: number, parent: number): number {
    const { table } = this
    const entry = table.find(view, start, end, this.hash(view, start, end, parent))
    if (entry < 0) return -1
    this.follow(entry)
    return table.series[entry]
  }

  /** Adds a key that was not found; it may not be kept, or the table be emptied for it. @param value not negative */
  add(bytes: Uint8Array, view: DataView, start: number, end: number, parent: number, value: number): void {
    const { table } = this
    const { size } = table
    const entry = table.add(bytes, start, end, this.hash(view, start, end, parent), value, parent)
    if (table.size <= size) this.last = -1
    if (entry >= 0) this.follow(entry)
  }

  private follow(entry: number): void {
    if (this.last >= 0) this.table.following[this.last] = entry
    this.last = entry
  }

  private hash(view: DataView, start: number, end: number, parent: number): number {
    let h = this.table.hashOf(view, start, end) ^ Math.imul(parent, 0x9e3779b1)
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
    return h ^ (h >>> 13)
  }
}
