/**
 * Tag keys and values, each text once: a number for a text and back. The bytes lie in shared memory, so engine threads read them
 * without copying. Symbols are never removed; numbers are dense from 0 and symbol 0 is the empty text.
 */

import { grownBytes, grownInt32, sharedBytes, sharedInt32 } from './grow.ts'
import { Shared } from './layout.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export class SymbolTable {
  offsets: Int32Array = sharedInt32(1024)
  bytes: Uint8Array = sharedBytes(16 * 1024)
  count = 0
  private slots = new Int32Array(2048) // symbol + 1; 0 = free
  private hashes = new Int32Array(1024)
  private scratch = new Uint8Array(1024)
  private readonly shared: Int32Array
  private readonly onGrow: () => void

  /** @param onGrow called when an array was replaced and readers must be told. */
  constructor(shared: Int32Array, onGrow: () => void) {
    this.shared = shared
    this.onGrow = onGrow
    this.intern('')
  }

  intern(text: string): number {
    if (this.scratch.length < text.length * 3) this.scratch = new Uint8Array(text.length * 3)
    const { written } = encoder.encodeInto(text, this.scratch)
    return this.internBytes(this.scratch, 0, written)
  }

  internBytes(source: Uint8Array, start: number, end: number): number {
    const hash = hashBytes(source, start, end)
    const mask = this.slots.length - 1
    let slot = hash & mask
    for (let entry = this.slots[slot]; entry !== 0; entry = this.slots[slot]) {
      if (this.hashes[entry - 1] === hash && this.equals(entry - 1, source, start, end)) return entry - 1
      slot = (slot + 1) & mask
    }
    return this.add(hash, slot, source, start, end)
  }

  /** The symbol of a text, or -1 when it was never interned. */
  find(text: string): number {
    const bytes = encoder.encode(text)
    const hash = hashBytes(bytes, 0, bytes.length)
    const mask = this.slots.length - 1
    for (let slot = hash & mask; this.slots[slot] !== 0; slot = (slot + 1) & mask) {
      const symbol = this.slots[slot] - 1
      if (this.hashes[symbol] === hash && this.equals(symbol, bytes, 0, bytes.length)) return symbol
    }
    return -1
  }

  text(symbol: number): string {
    // TextDecoder refuses shared memory: copy.
    return decoder.decode(this.bytes.slice(this.offsets[symbol], this.offsets[symbol + 1]))
  }

  /** Bytes held in memory by the table. */
  get memory(): number {
    return this.bytes.length + this.offsets.length * 4 + this.slots.length * 4 + this.hashes.length * 4
  }

  private add(hash: number, slot: number, source: Uint8Array, start: number, end: number): number {
    const symbol = this.count
    const at = this.offsets[symbol]
    const length = end - start
    if (at + length > 0x7fffffff) throw new RangeError('the symbol table is full: more than 2 GiB of distinct tag text')
    let replaced = false
    if (at + length > this.bytes.length) {
      this.bytes = grownBytes(this.bytes, at + length)
      replaced = true
    }
    if (symbol + 2 > this.offsets.length) {
      this.offsets = grownInt32(this.offsets, symbol + 2)
      replaced = true
    }
    for (let i = 0; i < length; i++) this.bytes[at + i] = source[start + i]
    this.offsets[symbol + 1] = at + length
    if (symbol >= this.hashes.length) {
      const hashes = new Int32Array(this.hashes.length * 2)
      hashes.set(this.hashes)
      this.hashes = hashes
    }
    this.hashes[symbol] = hash
    this.slots[slot] = symbol + 1
    this.count = symbol + 1
    if (this.count * 2 > this.slots.length) this.rehash()
    if (replaced) this.onGrow()
    Atomics.store(this.shared, Shared.SYMBOLS, this.count)
    return symbol
  }

  private rehash(): void {
    this.slots = new Int32Array(this.slots.length * 2)
    const mask = this.slots.length - 1
    for (let symbol = 0; symbol < this.count; symbol++) {
      let slot = this.hashes[symbol] & mask
      while (this.slots[slot] !== 0) slot = (slot + 1) & mask
      this.slots[slot] = symbol + 1
    }
  }

  private equals(symbol: number, source: Uint8Array, start: number, end: number): boolean {
    const at = this.offsets[symbol]
    if (this.offsets[symbol + 1] - at !== end - start) return false
    for (let i = start, j = at; i < end; i++, j++) if (source[i] !== this.bytes[j]) return false
    return true
  }
}

/** FNV-1a with a final mix; 32 bits. */
export function hashBytes(source: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ source[i], 0x01000193)
  return mix(hash)
}

/** Spreads the bits of a hash over the low ones (murmur3's finaliser). */
export function mix(hash: number): number {
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}
