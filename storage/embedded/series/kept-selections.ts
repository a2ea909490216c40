/** Which series passed the conditions asked last. What is kept holds while the measurement's list neither gains nor loses series. */
import type { Matcher } from 'svcdb'

/** Numbers of all selections together: a mebibyte. */
const MAX_NUMBERS = 1 << 18
/** What an entry takes beside its numbers, in numbers. */
const ENTRY_NUMBERS = 64
const CHARS_PER_NUMBER = 2

interface Selection {
  /** Of the list that was looked through. */
  length: number
  losses: number
  positions: Int32Array
}

export class KeptSelections {
  private readonly entries = new Map<string, Selection>()
  private readonly maxNumbers: number
  private numbers = 0

  constructor(maxNumbers: number = MAX_NUMBERS) {
    this.maxNumbers = maxNumbers
  }

  static key(measurement: number, matchers: readonly Matcher[]): string {
    let key = String(measurement)
    // The length before each text: no text can pass for two.
    for (const { tag, op, value } of matchers) key += `,${tag.length}:${tag}${op}${value.length}:${value}`
    return key
  }

  /** @returns positions, not to be changed. */
  get(key: string, length: number, losses: number): Int32Array | undefined {
    const entry = this.entries.get(key)
    if (entry === undefined || entry.length !== length || entry.losses !== losses) return undefined
    this.entries.delete(key)
    this.entries.set(key, entry) // the one used last goes last
    return entry.positions
  }

  set(key: string, length: number, losses: number, positions: Int32Array): void {
    this.drop(key)
    // A copy: what was found may be part of a larger array.
    const entry = { length, losses, positions: positions.slice() }
    const size = sizeOf(key, entry)
    if (size > this.maxNumbers) return
    this.numbers += size
    for (const oldest of this.entries.keys()) {
      if (this.numbers <= this.maxNumbers) break
      this.drop(oldest)
    }
    this.entries.set(key, entry)
  }

  private drop(key: string): void {
    const entry = this.entries.get(key)
    if (entry === undefined) return
    this.numbers -= sizeOf(key, entry)
    this.entries.delete(key)
  }
}

function sizeOf(key: string, { positions }: Selection): number {
  return positions.length + ENTRY_NUMBERS + Math.ceil(key.length / CHARS_PER_NUMBER)
}
