/**
 * Shared memory of memtables, used again. A SharedArrayBuffer goes when the last thread has collected what it has of it, and the main thread, whose
 * heap hardly grows under writes, collects that once in gigabytes of rows: so buffers are never left to the collector as long as they can be of use.
 *
 * Invariants: a buffer is in one memtable, or free; what is in no memtable any more becomes free when no snapshot has it (threads/publishing/readers.ts);
 * memory that was used before holds what was there: who takes it clears what readers may look at.
 */
const ALIGNMENT = 64
const SMALLEST_SLAB = 1 << 20
const LARGEST_SLAB = 8 << 20
/** Slabs of a memtable that are looked at for room left. */
const OPEN_SLABS = 4
/** A buffer larger than a slab is used again for what takes at least this share of it. */
const FIT = 0.75
/** How often `look` is to be called. */
export const LOOK_MS = 500
/** What is free is given back, which costs a collection in all threads, after so many looks at which nothing was taken, or at an idle server. */
const RESTING_LOOKS = 60
const IDLE_LOOKS = 2
/** What was free all the time for so many times of so many looks is more than writes need. */
const SPARE_TIMES = 4
const SPARE_LOOKS = 30
/** Of what is kept: less is not worth a collection. */
const SPARE_SHARE = 1 / 8

/** A buffer as numbers: made once for all that lies in it. */
export interface SlabViews {
  readonly u8: Uint8Array
  readonly i16: Int16Array
  readonly i32: Int32Array
}

interface Memory {
  buffer: SharedArrayBuffer
  offset: number
  views: SlabViews
}

/** Why buffers are left: writes need less than there was, or the server does nothing. */
export type LeftFor = 'spare' | 'idle'

export interface SlabOptions {
  /** Rows in bytes that a memtable holds when it is full. */
  memtableBytes: number
  /** Bytes that all memtables may take: one that fills and one that is flushed must have room in them. Absent = no matter. */
  maxMemtableMemory?: number
  /** Bytes of free buffers that are kept; more is left to the collector. */
  keptBytes: number
}

export class SlabPool {
  readonly slabBytes: number
  /** Bytes of buffers that are free. */
  freeBytes = 0
  /** Bytes of buffers that are in no memtable any more and that somebody may read yet. */
  retiredBytes = 0
  private readonly keptBytes: number
  private readonly slabs: SharedArrayBuffer[] = []
  private readonly larger: SharedArrayBuffer[] = []
  private readonly left: (bytes: number, reason?: LeftFor) => void
  private taken = false
  private looks = 0
  /** Looks since something was taken, and since the server was not idle. */
  private resting = 0
  private idle = 0
  /** Since spare memory was looked for last, and of the times before. */
  private leastFree = 0
  private readonly spare: number[] = []

  /** @param left called with bytes that are left to the collectors of all threads; with a reason they are worth a collection by themselves. */
  constructor({ memtableBytes, maxMemtableMemory = Infinity, keptBytes }: SlabOptions, left: (bytes: number, reason?: LeftFor) => void = () => {}) {
    const wanted = Math.max(SMALLEST_SLAB, Math.min(LARGEST_SLAB, memtableBytes / 8))
    this.slabBytes = 2 ** Math.floor(Math.log2(Math.min(wanted, maxMemtableMemory / 4)))
    this.keptBytes = keptBytes
    this.left = left
  }

  /** At least this many bytes: a slab, or, where that is too small, a buffer of its own. */
  take(bytes: number): SharedArrayBuffer {
    this.taken = true
    const known = bytes <= this.slabBytes ? this.slabs.pop() : this.fitting(bytes)
    if (known === undefined) return new SharedArrayBuffer(Math.max(bytes, this.slabBytes))
    this.freeBytes -= known.byteLength
    this.leastFree = Math.min(this.leastFree, this.freeBytes)
    return known
  }

  /** Leaves what is free to the collectors once nothing was taken for a while, and else what was free all the time. @param idle nothing has been written or done since the last call. */
  look(idle: boolean): void {
    this.looks++
    this.resting = this.taken ? 0 : this.resting + 1
    this.idle = idle && !this.taken ? this.idle + 1 : 0
    this.taken = false
    if (this.idle >= IDLE_LOOKS) this.leave(this.freeBytes, 'idle')
    else if (this.resting >= RESTING_LOOKS) this.leave(this.freeBytes, 'spare')
    if (this.looks % SPARE_LOOKS === 0) this.leaveSpare()
  }

  private leaveSpare(): void {
    this.spare.push(this.leastFree)
    if (this.spare.length > SPARE_TIMES) this.spare.shift()
    this.leastFree = this.freeBytes
    const spare = this.spare.length < SPARE_TIMES ? 0 : Math.min(...this.spare)
    if (spare < this.keptBytes * SPARE_SHARE) return
    this.leave(spare, 'spare')
    this.spare.length = 0
  }

  /** Leaves so much to the collectors, at most, of what is free. */
  private leave(bytes: number, reason: LeftFor): void {
    let left = 0
    for (const list of [this.larger, this.slabs])
      while (list.length > 0 && left + list[0].byteLength <= bytes) left += (list.shift() as SharedArrayBuffer).byteLength
    this.freeBytes -= left
    this.leastFree = this.freeBytes
    if (left > 0) this.left(left, left >= this.keptBytes * SPARE_SHARE ? reason : undefined)
  }

  /** Buffers that nobody reads any more. */
  give(buffers: readonly SharedArrayBuffer[]): void {
    let left = 0
    for (const buffer of buffers) {
      const { byteLength } = buffer
      if (this.freeBytes + byteLength > this.keptBytes) {
        left += byteLength
        continue
      }
      this.freeBytes += byteLength
      if (byteLength === this.slabBytes) this.slabs.push(buffer)
      else this.larger.push(buffer)
    }
    if (left > 0) this.left(left)
  }

  private fitting(bytes: number): SharedArrayBuffer | undefined {
    const i = this.larger.findIndex(({ byteLength }) => byteLength >= bytes && byteLength * FIT <= bytes)
    return i < 0 ? undefined : this.larger.splice(i, 1)[0]
  }
}

/** What one memtable has of a pool. */
export class MemtableMemory {
  /** Bytes of its buffers. */
  bytes = 0
  private readonly pool: SlabPool
  private readonly buffers: SharedArrayBuffer[] = []
  private readonly open: Memory[] = []

  constructor(pool: SlabPool) {
    this.pool = pool
  }

  /** What one allocation may take to share a slab with others. */
  get slabBytes(): number {
    return this.pool.slabBytes
  }

  allocate(bytes: number): Memory {
    const taken = (bytes + ALIGNMENT - 1) & -ALIGNMENT
    let slab = this.open.find(({ buffer, offset }) => offset + taken <= buffer.byteLength)
    if (slab === undefined) {
      const buffer = this.pool.take(taken)
      slab = { buffer, offset: 0, views: { u8: new Uint8Array(buffer), i16: new Int16Array(buffer), i32: new Int32Array(buffer) } }
      this.buffers.push(slab.buffer)
      this.bytes += slab.buffer.byteLength
      this.open.push(slab)
      if (this.open.length > OPEN_SLABS) this.open.splice(fullest(this.open), 1)
    }
    const { buffer, offset, views } = slab
    slab.offset += taken
    return { buffer, offset, views }
  }

  /** Gives everything back, once nobody can read it. @param unread calls back then. */
  release(unread: (done: () => void) => void): void {
    const { pool, bytes } = this
    const buffers = this.buffers.splice(0)
    this.open.length = 0
    this.bytes = 0
    pool.retiredBytes += bytes
    unread(() => {
      pool.retiredBytes -= bytes
      pool.give(buffers)
    })
  }
}

function fullest(slabs: readonly Memory[]): number {
  let found = 0
  const room = (i: number): number => slabs[i].buffer.byteLength - slabs[i].offset
  for (let i = 1; i < slabs.length; i++) if (room(i) < room(found)) found = i
  return found
}
