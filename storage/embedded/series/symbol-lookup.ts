/** Texts to symbols, by the hash table that the main thread keeps in shared memory. */

import type { SeriesArrays } from '../threads/series-layout.ts'
import { type HashKey, hashBytes } from './hash.ts'

export const NO_SYMBOL = -1
const encoder = new TextEncoder()

/** @param count symbols that may be read. Those whose arrays are under way are not found. */
export function findSymbol(key: HashKey, text: string, { symbolOffsets, symbolBytes, symbolSlots }: SeriesArrays, count: number): number {
  const bytes = encoder.encode(text)
  const mask = symbolSlots.length - 1
  let slot = hashBytes(key, bytes, 0, bytes.length) & mask
  for (let symbol = symbolSlots[slot] - 1; symbol !== NO_SYMBOL; symbol = symbolSlots[slot] - 1) {
    if (symbol < count && isText(symbolBytes, symbolOffsets[symbol], symbolOffsets[symbol + 1], bytes)) return symbol
    slot = (slot + 1) & mask
  }
  return NO_SYMBOL
}

function isText(source: Uint8Array, start: number, end: number, bytes: Uint8Array): boolean {
  if (end - start !== bytes.length || end > source.length) return false
  for (let i = 0; i < bytes.length; i++) if (source[start + i] !== bytes[i]) return false
  return true
}
