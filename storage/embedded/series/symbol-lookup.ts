/** Texts to symbols: a hash table over the shared symbol bytes, grown as symbols are added. Symbols are never removed. */

import type { SeriesArrays } from '../threads/series-layout.ts'
import { type HashKey, hashBytes } from './hash.ts'

export const NO_SYMBOL = -1
const encoder = new TextEncoder()

export class SymbolLookup {
  private slots = new Int32Array(2048) // symbol + 1; 0 = free
  private known = 0
  private readonly key: HashKey

  constructor(key: HashKey) {
    this.key = key
  }

  /** @param count symbols that may be read. */
  find(text: string, { symbolOffsets, symbolBytes }: SeriesArrays, count: number): number {
    this.follow(symbolOffsets, symbolBytes, count)
    const bytes = encoder.encode(text)
    const mask = this.slots.length - 1
    for (let slot = hashBytes(this.key, bytes, 0, bytes.length) & mask; this.slots[slot] !== 0; slot = (slot + 1) & mask) {
      const symbol = this.slots[slot] - 1
      const start = symbolOffsets[symbol]
      if (symbolOffsets[symbol + 1] - start !== bytes.length) continue
      let same = 0
      while (same < bytes.length && symbolBytes[start + same] === bytes[same]) same++
      if (same === bytes.length) return symbol
    }
    return NO_SYMBOL
  }

  private follow(offsets: Int32Array, bytes: Uint8Array, count: number): void {
    if (count * 2 > this.slots.length) {
      let length = this.slots.length
      while (count * 2 > length) length *= 2
      this.slots = new Int32Array(length)
      this.known = 0
    }
    const mask = this.slots.length - 1
    // Of a symbol whose bytes lie beyond the array, the array is under way.
    for (; this.known < count && offsets[this.known + 1] <= bytes.length; this.known++) {
      let slot = hashBytes(this.key, bytes, offsets[this.known], offsets[this.known + 1]) & mask
      while (this.slots[slot] !== 0) slot = (slot + 1) & mask
      this.slots[slot] = this.known + 1
    }
  }
}
