/**
 * Interned raw keys: the bytes of a series as a client writes them, to the numbers the storage gave it.
 *
 * Decoders look the bytes up before they take them apart, so a series is unescaped, sorted and checked once. Open addressing with
 * linear probing; the bytes live in one arena. Invariants: an entry's bytes never change; equal bytes have one entry; a probe ends
 * after MAX_PROBES steps, so that keys made to collide cost a miss each and not a scan of the table.
 */
import { type GrowingMemory, PAGE_BYTES } from '../web-assembly/index.ts'

const MAX_PROBES = 32
/** Small: a source has a table for each topic. */
const FIRST_SLOTS = 128
const FIRST_ARENA = 4096
/** Bytes compared at a time. */
const STEP = 32

export class KeyTable {
  /** What the caller keeps with an entry: the series number, and a number of its own (which measurement). */
  series: Int32Array = new Int32Array(FIRST_SLOTS / 2)
  group: Int32Array = new Int32Array(FIRST_SLOTS / 2)
  /** The entry that came after this one last time, -1 = unknown: senders repeat their order. */
  following: Int32Array = new Int32Array(FIRST_SLOTS / 2)
  size = 0
  private offset = new Int32Array(FIRST_SLOTS / 2)
  private length = new Int32Array(FIRST_SLOTS / 2)
  private hash = new Int32Array(FIRST_SLOTS / 2)
  /** entry + 1, 0 = free */
  private slots = new Int32Array(FIRST_SLOTS)
  private arena = new Uint8Array(FIRST_ARENA)
  private arenaView = new DataView(this.arena.buffer)
  private arenaLength = 0
  /** Where the arena lies, behind `reserved` bytes; undefined = in memory of its own. */
  private memory: GrowingMemory | undefined
  private reserved = 0
  private readonly maxBytes: number
  private readonly seed: number

  /** @param maxBytes the arena is emptied rather than grown beyond this; @param seed random, so that collisions cannot be prepared */
  constructor(maxBytes: number, seed: number) {
    this.maxBytes = maxBytes
    this.seed = seed | 0
  }

  /** Bytes of keys held. */
  get bytes(): number {
    return this.arenaLength
  }

  /** From now on keys lie in this memory, behind so many bytes, as long as it can grow. */
  moveTo(memory: GrowingMemory, reserved: number): void {
    this.memory = memory
    this.reserved = reserved
    this.growArena(0)
  }

  /** Whether keys lie in this memory. */
  liesIn(memory: GrowingMemory): boolean {
    return this.memory === memory
  }

  /**
   * Lists the keys that are expected after `entry`, in the order of the last time: address and length of each, at every fourth place of `list`.
   * @param shortest a shorter key ends the list. @returns how many.
   */
  expected(entry: number, list: Int32Array, from: number, most: number, shortest: number): number {
    const { following, offset, length, size, reserved } = this
    let count = 0
    let next = following[entry]
    for (let at = from; count < most && next >= 0 && next < size && length[next] >= shortest; at += 4) {
      list[at] = reserved + offset[next]
      list[at + 1] = length[next]
      next = following[next]
      count++
    }
    return count
  }

  clear(): void {
    this.size = 0
    this.arenaLength = 0
    this.slots.fill(0)
  }

  hashOf(view: DataView, start: number, end: number): number {
    let h = this.seed ^ (end - start)
    let i = start
    for (; i + 4 <= end; i += 4) {
      h = Math.imul(h ^ view.getInt32(i, true), 0x9e3779b1)
      h ^= h >>> 15
    }
    for (; i < end; i++) h = Math.imul(h ^ view.getUint8(i), 0x01000193)
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
    return h ^ (h >>> 13)
  }

  /** The entry of view[start, end), or -1. */
  find(view: DataView, start: number, end: number, hash: number): number {
    const mask = this.slots.length - 1
    for (let probe = 0; probe < MAX_PROBES; probe++) {
      const entry = this.slots[(hash + probe) & mask] - 1
      if (entry < 0) return -1
      if (this.hash[entry] === hash && this.length[entry] === end - start && this.sameBytes(entry, view, start)) return entry
    }
    return -1
  }

  /** Where the key of `entry` (-1 = none) ends if view[start ...] begins with it, else -1. The view must hold one byte more than the key. */
  matchEnd(entry: number, view: DataView, start: number): number {
    if (entry < 0 || entry >= this.size) return -1
    const end = start + this.length[entry]
    return end < view.byteLength && this.sameBytes(entry, view, start) ? end : -1
  }

  private sameBytes(entry: number, view: DataView, start: number): boolean {
    return equal(this.arenaView, this.offset[entry], view, start, this.length[entry])
  }

  /** Adds a key that `find` did not find. May empty the table first; returns -1 when the key cannot be held. */
  add(bytes: Uint8Array, start: number, end: number, hash: number, series: number, group: number): number {
    const length = end - start
    if (length > this.maxBytes) return -1
    if (this.arenaLength + length > this.maxBytes) this.clear()
    if (this.size === this.series.length) this.growEntries()
    const slot = this.freeSlot(hash)
    if (slot < 0) return -1
    if (this.arenaLength + length > this.arena.length) this.growArena(length)
    const entry = this.size++
    this.arena.set(bytes.subarray(start, end), this.arenaLength)
    this.offset[entry] = this.arenaLength
    this.length[entry] = length
    this.hash[entry] = hash
    this.series[entry] = series
    this.group[entry] = group
    this.following[entry] = -1
    this.arenaLength += length
    this.slots[slot] = entry + 1
    return entry
  }

  private freeSlot(hash: number): number {
    const mask = this.slots.length - 1
    for (let probe = 0; probe < MAX_PROBES; probe++) {
      const slot = (hash + probe) & mask
      if (this.slots[slot] === 0) return slot
    }
    return -1
  }

  private growArena(length: number): void {
    const bytes = Math.min(this.maxBytes, Math.max(this.arena.length * 2, this.arenaLength + length))
    const held = this.arena.subarray(0, this.arenaLength)
    if (!this.growMemory(bytes)) {
      this.arena = new Uint8Array(bytes)
      this.arena.set(held)
    }
    this.arenaView = new DataView(this.arena.buffer, this.arena.byteOffset, this.arena.length)
  }

  /** @returns false when the arena has, or now needs, memory of its own. */
  private growMemory(bytes: number): boolean {
    const { memory, reserved } = this
    if (memory === undefined) return false
    const held = this.arena.buffer === memory.buffer ? undefined : this.arena.subarray(0, this.arenaLength)
    const pages = Math.ceil((reserved + bytes - memory.buffer.byteLength) / PAGE_BYTES)
    try {
      if (pages > 0) memory.grow(pages)
    } catch {
      this.memory = undefined
      return false
    }
    this.arena = new Uint8Array(memory.buffer, reserved)
    if (held !== undefined) this.arena.set(held)
    return true
  }

  private growEntries(): void {
    const capacity = this.series.length * 2
    this.series = grow(this.series, capacity)
    this.group = grow(this.group, capacity)
    this.following = grow(this.following, capacity)
    this.offset = grow(this.offset, capacity)
    this.length = grow(this.length, capacity)
    this.hash = grow(this.hash, capacity)
    // Twice as many slots as entries; an entry whose probes are all taken is left out and will be a miss.
    this.slots = new Int32Array(capacity * 2)
    for (let entry = 0; entry < this.size; entry++) {
      const slot = this.freeSlot(this.hash[entry])
      if (slot >= 0) this.slots[slot] = entry + 1
    }
  }
}

/** Whether a[from ...] and b[start ...] have the same `length` bytes. Keys have some hundred bytes, and nearly all that come here are equal. */
function equal(a: DataView, from: number, b: DataView, start: number, length: number): boolean {
  if (length < STEP) {
    let i = 0
    for (; i + 4 <= length; i += 4) if (a.getInt32(from + i, true) !== b.getInt32(start + i, true)) return false
    for (; i < length; i++) if (a.getUint8(from + i) !== b.getUint8(start + i)) return false
    return true
  }
  // The last step overlaps the one before it: no bytes are left over.
  const last = length - STEP
  for (let i = 0; i < last; i += STEP) if (differ(a, from + i, b, start + i)) return false
  return !differ(a, from + last, b, start + last)
}

/** Whether STEP bytes differ. The engine keeps words of 64 bits in registers here and makes no BigInt of them: twice as fast as by 32 (decoder.bench.ts). */
function differ(a: DataView, i: number, b: DataView, j: number): boolean {
  const first = a.getBigUint64(i, true) ^ b.getBigUint64(j, true)
  const second = a.getBigUint64(i + 8, true) ^ b.getBigUint64(j + 8, true)
  const third = a.getBigUint64(i + 16, true) ^ b.getBigUint64(j + 16, true)
  const fourth = a.getBigUint64(i + 24, true) ^ b.getBigUint64(j + 24, true)
  return BigInt.asUintN(64, first | second | third | fourth) !== 0n
}

function grow(from: Int32Array, capacity: number): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(capacity)
  grown.set(from)
  return grown
}
