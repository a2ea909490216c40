/**
 * Interned raw keys: the bytes of a series as a client writes them, to the numbers the storage gave it.
 *
 * Decoders look the bytes up before they take them apart, so a series is unescaped, sorted and checked once. Open addressing with
 * linear probing; the bytes live in one arena. Invariants: an entry's bytes never change; equal bytes have one entry; a probe ends
 * after MAX_PROBES steps, so that keys made to collide cost a miss each and not a scan of the table. One series can be written in
 * millions of ways: so entries count as the memory that they take, and a table never grows as a whole at once.
 */
import { type GrowingMemory, growingMemory, PAGE_BYTES } from '../web-assembly/index.ts'

const MAX_PROBES = 32
/** Small: a source has a table for each topic. */
const FIRST_SLOTS = 128
const FIRST_ARENA = 4096
/** Bytes compared at a time. */
const STEP = 32
/** What an entry takes beside its key: six numbers, and two to four slots. */
const ENTRY_BYTES = 40
/** An arena from here on grows where it lies: 64 MB are copied in some 50 ms. */
const LARGE_ARENA = 8 << 20
/** The six numbers of entries grow one after the other, this part of their capacity apart. */
const GROWTH_GAP = 16
/** Entries that move to new slots with each one that is added or was not found there: all are moved long before there are twice as many again. */
const MOVES = 8

/** Numbers of series by the bytes that a client writes for them: one for each decoder and namespace. */
export class KeyTable {
  /** What the caller keeps with an entry: the series number, and a number of its own (which measurement). */
  series: Int32Array = new Int32Array(FIRST_SLOTS / 2)
  group: Int32Array = new Int32Array(FIRST_SLOTS / 2)
  /** The entry that came after this one last time, -1 = unknown: senders repeat their order. */
  following: Int32Array = new Int32Array(FIRST_SLOTS / 2)
  size = 0
  private offset = new Uint32Array(FIRST_SLOTS / 2)
  private length = new Int32Array(FIRST_SLOTS / 2)
  private hash = new Int32Array(FIRST_SLOTS / 2)
  /** entry + 1, 0 = free */
  private slots = new Int32Array(FIRST_SLOTS)
  /** Numbers of entries that have been given more room since there were new slots, and the size at which the next is. */
  private grown = 0
  private nextGrowth = growthAt(FIRST_SLOTS / 2, 0)
  /** The slots before these, while entries move; undefined = all are in `slots`. */
  private formerSlots: Int32Array | undefined
  /** Entries that have moved, of so many. */
  private moved = 0
  private toMove = 0
  private arena = new Uint8Array(FIRST_ARENA)
  private arenaView = new DataView(this.arena.buffer)
  private arenaLength = 0
  /** Where the arena lies, behind `reserved` bytes; undefined = in memory of its own. */
  private memory: GrowingMemory | undefined
  private reserved = 0
  private readonly maxBytes: number
  private readonly seed: number

  /** @param maxBytes of memory, about, at most 4 GiB but for tables that never have as much; the table is emptied rather than grown beyond this. @param seed random, so that collisions cannot be prepared */
  constructor(maxBytes: number, seed: number) {
    this.maxBytes = maxBytes
    this.seed = seed | 0
  }

  /** Bytes of memory that the keys take, about. */
  get bytes(): number {
    return this.arenaLength + this.size * ENTRY_BYTES
  }

  /** Whether so many keys more, of so many bytes together, have room without the table being emptied. */
  hasRoom(keys: number, bytes: number): boolean {
    return this.bytes + bytes + keys * ENTRY_BYTES <= this.maxBytes
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
    this.formerSlots = undefined
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
    const { formerSlots } = this
    const entry = this.findIn(this.slots, view, start, end, hash)
    if (entry >= 0 || formerSlots === undefined) return entry
    this.moveSome()
    return this.findIn(formerSlots, view, start, end, hash)
  }

  private findIn(slots: Int32Array, view: DataView, start: number, end: number, hash: number): number {
    const mask = slots.length - 1
    for (let probe = 0; probe < MAX_PROBES; probe++) {
      const entry = slots[(hash + probe) & mask] - 1
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
    if (length + ENTRY_BYTES > this.maxBytes) return -1
    if (!this.hasRoom(1, length)) this.clear()
    while (this.size >= this.nextGrowth) this.grow()
    if (this.formerSlots !== undefined) this.moveSome()
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
    if (bytes > LARGE_ARENA) this.memory ??= growingMemory()
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

  /** Gives one of the numbers room for twice as many entries, and once all have it, the slots. */
  private grow(): void {
    const slots = this.slots.length
    switch (this.grown++) {
      case 0:
        this.series = twice(this.series)
        break
      case 1:
        this.group = twice(this.group)
        break
      case 2:
        this.following = twice(this.following)
        break
      case 3:
        this.offset = twice(this.offset)
        break
      case 4:
        this.length = twice(this.length)
        break
      case 5:
        this.hash = twice(this.hash)
        break
      default:
        this.formerSlots = this.slots
        // Twice as many slots as entries.
        this.slots = new Int32Array(slots * 2)
        this.moved = this.grown = 0
        this.toMove = this.size
    }
    this.nextGrowth = growthAt(this.slots.length / 2, this.grown)
  }

  /** An entry whose probes are all taken is left out and will be a miss. */
  private moveSome(): void {
    const end = Math.min(this.moved + MOVES, this.toMove)
    for (let entry = this.moved; entry < end; entry++) {
      const slot = this.freeSlot(this.hash[entry])
      if (slot >= 0) this.slots[slot] = entry + 1
    }
    this.moved = end
    if (end === this.toMove) this.formerSlots = undefined
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

/** The size at which the next of the numbers grows, or, where all six have, the slots: when there are as many entries as they are for. */
function growthAt(capacity: number, grown: number): number {
  return capacity - (6 - grown) * (capacity / GROWTH_GAP)
}

function twice<T extends Int32Array | Uint32Array>(from: T): T {
  const grown = new (from.constructor as new (length: number) => T)(from.length * 2)
  grown.set(from)
  return grown
}
