import { FifoMap } from './fifo-map.ts'

/** A map with room for so much: what was used longest ago goes first. */
export class RecentMap<K, V> {
  private readonly room: number
  private readonly sizeOf: (value: V, key: K) => number
  /** In order of use, the longest unused first. */
  private readonly entries = new FifoMap<K, V>()
  /** Asked for again and again, it is in its place. */
  private newest: K | undefined
  private held = 0

  /** @param sizeOf what an entry takes of the room: the same each time it is asked; 1 when absent. */
  constructor(room: number, sizeOf: (value: V, key: K) => number = one) {
    this.room = room
    this.sizeOf = sizeOf
  }

  /** Entries. */
  get size(): number {
    return this.entries.size
  }

  /** What the entries take of the room. */
  get taken(): number {
    return this.held
  }

  get(key: K): V | undefined {
    const value = this.entries.get(key)
    if (value === undefined || key === this.newest) return value
    this.entries.delete(key)
    this.entries.set(key, value)
    this.newest = key
    return value
  }

  /** What is larger than the room is not kept. */
  set(key: K, value: V): void {
    const { entries, room } = this
    this.delete(key)
    const size = this.sizeOf(value, key)
    if (size > room) return
    this.held += size
    while (this.held > room && entries.size > 0) this.delete(entries.oldest() as K)
    entries.set(key, value)
    this.newest = key
  }

  delete(key: K): void {
    const value = this.entries.get(key) as V
    if (!this.entries.delete(key)) return
    this.held -= this.sizeOf(value, key)
    if (key === this.newest) this.newest = undefined
  }
}

const one = (): number => 1
