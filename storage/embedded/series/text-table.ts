/**
 * Texts, each once: a dense number for a text, from 0, and back. Open addressing with linear probing over a keyed hash.
 *
 * Invariants
 * - A text is found from `index` on; until then, and only until then for tables that engine threads read, `truncate` takes it back.
 * - The newest texts can always be taken out of the slots again: none that is older was put behind them.
 */
import { grownBytes, grownInt32, type Memory, newBytes, newInt32, widened } from '../memtable/grow.ts'
import { type HashKey, hashBytes } from './hash.ts'
import { fillSlots, MANY } from './slots.ts'

/** A table that was emptied keeps slots up to so many. */
const KEPT_SLOTS = 1 << 16
const FIRST_TEXTS = 1024
const FIRST_BYTES = 16 * 1024
const ALL = (): boolean => true

/** A byte order mark at the beginning is part of the text. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export class TextTable {
  /** Text → start of its UTF-8 in `bytes`; the end is the next one's start. */
  offsets: Int32Array
  bytes: Uint8Array
  hashes: Int32Array = new Int32Array(FIRST_TEXTS)
  /** text + 1; 0 = free */
  slots: Int32Array
  count = 0
  /** Texts below are found. */
  indexed = 0
  private readonly key: HashKey
  private readonly memory: Memory
  private readonly onGrow: () => void

  /** @param onGrow called when an array was replaced and readers must know. */
  constructor(key: HashKey, memory: Memory, onGrow: () => void = () => {}) {
    this.key = key
    this.memory = memory
    this.onGrow = onGrow
    this.offsets = newInt32(FIRST_TEXTS, memory)
    this.bytes = newBytes(FIRST_BYTES, memory)
    this.slots = newInt32(FIRST_TEXTS * 2, memory)
  }

  hashOf(source: Uint8Array, start: number, end: number): number {
    return hashBytes(this.key, source, start, end)
  }

  /** The number of a text, -1 when it is not there. */
  find(source: Uint8Array, start: number, end: number, hash: number): number {
    const mask = this.slots.length - 1
    let slot = hash & mask
    for (let entry = this.slots[slot]; entry !== 0; entry = this.slots[slot]) {
      if (this.hashes[entry - 1] === hash && this.equals(entry - 1, source, start, end)) return entry - 1
      slot = (slot + 1) & mask
    }
    return -1
  }

  /** Adds a text that is not there. */
  add(source: Uint8Array, start: number, end: number, hash: number): number {
    const text = this.count
    const at = this.offsets[text]
    const length = end - start
    let replaced = false
    if (at + length > this.bytes.length) {
      this.bytes = grownBytes(this.bytes, at + length, this.memory)
      replaced = true
    }
    if (text + 2 > this.offsets.length) {
      this.offsets = grownInt32(this.offsets, text + 2, this.memory)
      replaced = true
    }
    const { bytes } = this
    for (let i = 0; i < length; i++) bytes[at + i] = source[start + i]
    this.offsets[text + 1] = at + length
    if (text >= this.hashes.length) this.hashes = widened(this.hashes, this.hashes.length * 2)
    this.hashes[text] = hash
    this.count = text + 1
    if (replaced) this.onGrow()
    return text
  }

  /** Makes room for so many texts and bytes in all, so that nothing is copied while they are added. */
  reserve(texts: number, bytes: number): void {
    if (bytes > this.bytes.length) this.bytes = grownBytes(this.bytes, bytes, this.memory, 1)
    if (texts + 1 > this.offsets.length) this.offsets = grownInt32(this.offsets, texts + 1, this.memory, 1)
    if (texts > this.hashes.length) this.hashes = widened(this.hashes, texts)
    if (texts * 2 > this.slots.length) this.rehash(this.indexed, texts)
    else this.onGrow()
  }

  /** From now on `find` finds the texts below `end`. */
  index(end: number): void {
    if (end <= this.indexed) return
    if (end * 2 > this.slots.length) return this.rehash(end)
    this.insertAll(this.indexed, end)
    this.indexed = end
  }

  /** Takes the newest texts back. */
  truncate(count: number): void {
    const mask = this.slots.length - 1
    while (this.indexed > count) {
      this.indexed--
      let slot = this.hashes[this.indexed] & mask
      while (this.slots[slot] !== this.indexed + 1) slot = (slot + 1) & mask
      this.slots[slot] = 0
    }
    this.count = count
  }

  clear(): void {
    this.count = 0
    this.indexed = 0
    if (this.slots.length <= KEPT_SLOTS) {
      this.slots.fill(0)
      return
    }
    this.slots = newInt32(FIRST_TEXTS * 2, this.memory)
    this.hashes = new Int32Array(FIRST_TEXTS)
    this.offsets = newInt32(FIRST_TEXTS, this.memory)
    this.bytes = newBytes(FIRST_BYTES, this.memory)
  }

  text(number: number): string {
    // TextDecoder refuses shared memory: copy.
    return decoder.decode(this.bytes.slice(this.offsets[number], this.offsets[number + 1]))
  }

  /** Bytes of all texts. */
  get used(): number {
    return this.offsets[this.count]
  }

  /** Bytes of memory held. */
  get allocated(): number {
    return this.bytes.length + (this.offsets.length + this.slots.length + this.hashes.length) * 4
  }

  private insert(text: number): void {
    const mask = this.slots.length - 1
    let slot = this.hashes[text] & mask
    while (this.slots[slot] !== 0) slot = (slot + 1) & mask
    this.slots[slot] = text + 1
  }

  private insertAll(from: number, end: number): void {
    // Older ones come to lie behind newer ones: only where none is taken out of the slots again.
    if (this.memory === 'shared' && end - from >= MANY) fillSlots(this.slots, this.hashes, from, end, ALL)
    else for (let text = from; text < end; text++) this.insert(text)
  }

  /** @param room for how many texts. */
  private rehash(end: number, room = end): void {
    let length = this.slots.length
    while (room * 2 > length) length *= 2
    this.slots = newInt32(length, this.memory)
    this.insertAll(0, end)
    this.indexed = end
    this.onGrow()
  }

  /** Whether a text is that of some bytes. */
  equals(text: number, source: Uint8Array, start: number, end: number): boolean {
    const at = this.offsets[text]
    if (this.offsets[text + 1] - at !== end - start) return false
    for (let i = start, j = at; i < end; i++, j++) if (source[i] !== this.bytes[j]) return false
    return true
  }
}
