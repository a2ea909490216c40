/**
 * Tag keys and values of durable series, each text once. The bytes lie in shared memory, so engine threads read them without copying. Symbols are never
 * removed once they are published, and symbol 0 is the empty text.
 */

import { Shared } from '../threads/shared-header.ts'
import type { HashKey } from './hash.ts'
import { TextTable } from './text-table.ts'

const encoder = new TextEncoder()

export class SymbolTable extends TextTable {
  private readonly shared: Int32Array

  /** @param onGrow called when an array was replaced and readers must know. */
  constructor(shared: Int32Array, key: HashKey, onGrow: () => void) {
    super(key, 'shared', onGrow)
    this.shared = shared
    this.intern(new Uint8Array(0), 0, 0)
  }

  /** The symbol of a text that is durable already: read back from the catalog or the log. */
  intern(source: Uint8Array, start: number, end: number): number {
    const hash = this.hashOf(source, start, end)
    const known = this.find(source, start, end, hash)
    if (known >= 0) return known
    const symbol = this.add(source, start, end, hash)
    this.publish(symbol + 1)
    return symbol
  }

  /** Adds a text that is not there and is durable already; `publish` comes when all are there. */
  restore(source: Uint8Array, start: number, end: number): void {
    this.add(source, start, end, this.hashOf(source, start, end))
  }

  /** Symbols below are visible to the engine threads and will be in the catalog: those of durable series. */
  publish(end: number): void {
    if (end <= this.indexed) return
    this.index(end)
    Atomics.store(this.shared, Shared.SYMBOLS, end)
  }

  get published(): number {
    return this.indexed
  }

  /** The symbol of a text, or -1. */
  symbolOf(text: string): number {
    const bytes = encoder.encode(text)
    return this.find(bytes, 0, bytes.length, this.hashOf(bytes, 0, bytes.length))
  }
}
