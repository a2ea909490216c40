/** Which series passed the conditions asked last. What is kept holds while the measurement's list neither gains nor loses series. */
import type { Matcher } from 'svcdb'
import { RecentMap } from 'svcdb/lib/cache'

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
  private readonly entries: RecentMap<string, Selection>

  constructor(maxNumbers: number = MAX_NUMBERS) {
    this.entries = new RecentMap(maxNumbers, sizeOf)
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
    return entry !== undefined && entry.length === length && entry.losses === losses ? entry.positions : undefined
  }

  set(key: string, length: number, losses: number, positions: Int32Array): void {
    // A copy: what was found may be part of a larger array.
    this.entries.set(key, { length, losses, positions: positions.slice() })
  }
}

function sizeOf({ positions }: Selection, key: string): number {
  return positions.length + ENTRY_NUMBERS + Math.ceil(key.length / CHARS_PER_NUMBER)
}
