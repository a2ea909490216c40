/**
 * Measurement and tags → a dense number, and back. Open addressing with linear probing; who makes the hash says how hard it is to collide.
 *
 * Invariants: a tuple is found from `index` on until `remove`; numbers are dense from 0, and only the newest ones that are not found yet are taken back
 * (`truncate`).
 */
import { grownInt32, type Memory, newInt32, widened } from '../memtable/grow.ts'
import { fillSlots, MANY } from './slots.ts'

/** In place of the measurement of a number that was given back. */
export const RELEASED = -1
const GONE = -2 // a slot whose tuple was removed
const FIRST_TUPLES = 1024
const FIRST_TAGS = 8192
/** A table that was emptied keeps slots up to so many. */
const KEPT_SLOTS = 1 << 16

export class TupleTable {
  measurement: Int32Array
  /** Number → start of its tags in `tags`; the end is the next one's start. */
  offsets: Int32Array
  /** Pairs (key, value), ordered by key text. */
  tags: Int32Array
  hashes: Int32Array = new Int32Array(FIRST_TUPLES)
  /** number + 1; 0 = free; GONE = was used */
  slots: Int32Array = new Int32Array(FIRST_TUPLES * 2)
  count = 0
  /** Tuples below have been put in slots. */
  indexed = 0
  /** Slots that are not free, and those of them with a tuple. */
  private used = 0
  private found = 0
  private readonly memory: Memory
  private readonly onGrow: () => void

  /** @param onGrow called when an array was replaced and readers must know. */
  constructor(memory: Memory, onGrow: () => void = () => {}) {
    this.memory = memory
    this.onGrow = onGrow
    this.measurement = newInt32(FIRST_TUPLES, memory)
    this.offsets = newInt32(FIRST_TUPLES + 1, memory)
    this.tags = newInt32(FIRST_TAGS, memory)
  }

  /** @param tuple measurement, then key and value of each tag; `length` of it count. @returns its number, -1 when it is not there. */
  find(tuple: Int32Array, length: number, hash: number): number {
    const mask = this.slots.length - 1
    let slot = hash & mask
    for (let entry = this.slots[slot]; entry !== 0; entry = this.slots[slot]) {
      if (entry !== GONE && this.hashes[entry - 1] === hash && this.equals(entry - 1, tuple, length)) return entry - 1
      slot = (slot + 1) & mask
    }
    return -1
  }

  /** Adds a tuple that is not there. */
  append(tuple: Int32Array, length: number, hash: number): number {
    const number = this.count
    this.room(length - 1)
    const at = this.offsets[number]
    this.measurement[number] = tuple[0]
    for (let i = 1; i < length; i++) this.tags[at + i - 1] = tuple[i]
    this.offsets[number + 1] = at + length - 1
    this.hashes[number] = hash
    this.count = number + 1
    return number
  }

  /** Adds a number that was given back. */
  appendReleased(): void {
    this.room(0)
    this.measurement[this.count] = RELEASED
    this.offsets[this.count + 1] = this.offsets[this.count]
    this.count++
  }

  /** Makes room for so many tuples and numbers of tags in all, so that nothing is copied while they are added. */
  reserve(tuples: number, tags: number): void {
    if (tuples > this.measurement.length) {
      this.measurement = grownInt32(this.measurement, tuples, this.memory, 1)
      this.offsets = grownInt32(this.offsets, tuples + 1, this.memory, 1)
      this.hashes = widened(this.hashes, tuples)
    }
    if (tags > this.tags.length) this.tags = grownInt32(this.tags, tags, this.memory, 1)
    if (tuples * 2 > this.slots.length) this.rehash(tuples)
    this.onGrow()
  }

  /** From now on `find` finds the tuples below `end`. */
  index(end: number): void {
    if (end - this.indexed >= MANY) this.indexMany(end)
    for (; this.indexed < end; this.indexed++) if (this.measurement[this.indexed] !== RELEASED) this.insert(this.indexed)
  }

  /** Passes numbers that were given back before they were to be found. */
  indexReleased(): void {
    while (this.indexed < this.count && this.measurement[this.indexed] === RELEASED) this.indexed++
  }

  /** The number is given back: it is not found any more. */
  remove(number: number): void {
    if (number < this.indexed) {
      const mask = this.slots.length - 1
      let slot = this.hashes[number] & mask
      while (this.slots[slot] !== number + 1) slot = (slot + 1) & mask
      this.slots[slot] = GONE
      this.found--
    }
    this.measurement[number] = RELEASED
  }

  /** Undoes `remove`. */
  putBack(number: number, measurement: number): void {
    this.measurement[number] = measurement
    if (number < this.indexed) this.insert(number)
  }

  /** Takes the newest number back, which is not found yet. */
  pop(): void {
    this.count--
  }

  clear(): void {
    this.count = 0
    this.indexed = 0
    this.used = 0
    this.found = 0
    if (this.slots.length <= KEPT_SLOTS) {
      this.slots.fill(0)
      return
    }
    this.slots = new Int32Array(FIRST_TUPLES * 2)
    this.hashes = new Int32Array(FIRST_TUPLES)
    this.measurement = newInt32(FIRST_TUPLES, this.memory)
    this.offsets = newInt32(FIRST_TUPLES + 1, this.memory)
    this.tags = newInt32(FIRST_TAGS, this.memory)
  }

  /** Bytes of memory held. */
  get allocated(): number {
    return (this.measurement.length + this.offsets.length + this.tags.length + this.hashes.length + this.slots.length) * 4
  }

  private indexMany(end: number): void {
    const { measurement, hashes } = this
    const most = end - this.indexed
    if ((this.used + most) * 2 > this.slots.length) this.rehash(this.found + most)
    const put = fillSlots(this.slots, hashes, this.indexed, end, (number) => measurement[number] !== RELEASED)
    this.used += put
    this.found += put
    this.indexed = end
  }

  private insert(number: number): void {
    if ((this.used + 1) * 2 > this.slots.length) this.rehash()
    const mask = this.slots.length - 1
    let slot = this.hashes[number] & mask
    while (this.slots[slot] !== 0) slot = (slot + 1) & mask
    this.slots[slot] = number + 1
    this.used++
    this.found++
  }

  /** Anew, without those that were removed, in as many slots as the others need. @param room for how many. */
  private rehash(room = 0): void {
    const before = this.slots
    let length = FIRST_TUPLES * 2
    while (length < Math.max((this.found + 1) * 3, room * 2)) length *= 2
    this.slots = new Int32Array(length)
    const mask = length - 1
    for (const entry of before) {
      if (entry <= 0) continue
      let slot = this.hashes[entry - 1] & mask
      while (this.slots[slot] !== 0) slot = (slot + 1) & mask
      this.slots[slot] = entry
    }
    this.used = this.found
  }

  private room(tags: number): void {
    const number = this.count
    let replaced = false
    if (number + 2 > this.offsets.length || number + 1 > this.measurement.length) {
      this.measurement = grownInt32(this.measurement, number + 1, this.memory)
      this.offsets = grownInt32(this.offsets, this.measurement.length + 1, this.memory)
      replaced = true
    }
    if (this.offsets[number] + tags > this.tags.length) {
      this.tags = grownInt32(this.tags, this.offsets[number] + tags, this.memory)
      replaced = true
    }
    if (number >= this.hashes.length) this.hashes = widened(this.hashes, this.measurement.length)
    if (replaced) this.onGrow()
  }

  private equals(number: number, tuple: Int32Array, length: number): boolean {
    if (this.measurement[number] !== tuple[0]) return false
    const at = this.offsets[number]
    if (this.offsets[number + 1] - at !== length - 1) return false
    for (let i = 1; i < length; i++) if (this.tags[at + i - 1] !== tuple[i]) return false
    return true
  }
}
