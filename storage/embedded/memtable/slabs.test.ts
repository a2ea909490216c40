/** Shared memory of memtables: used again, not before its readers have ended, and within its bounds. */
import t from 'tap'
import { Readers } from '../threads/publishing/readers.ts'
import { type LeftFor, MemtableMemory, SlabPool } from './slabs.ts'

const SLAB = 1 << 20
const pool = (keptBytes = 16 * SLAB, left?: (bytes: number, reason?: LeftFor) => void) => new SlabPool({ memtableBytes: 8 * SLAB, keptBytes }, left)
const now = (done: () => void): void => done()

t.test('allocations of one memtable share slabs without touching one another', (t) => {
  const memory = new MemtableMemory(pool())
  const seen = new Map<SharedArrayBuffer, [from: number, to: number][]>()
  for (let i = 1; i < 200; i++) {
    const bytes = (i * 7919) % 300_000
    const { buffer, offset } = memory.allocate(bytes)
    t.equal(offset % 8, 0, 'aligned for all types')
    const others = seen.get(buffer) ?? []
    t.ok(offset + bytes <= buffer.byteLength && others.every(([from, to]) => offset + bytes <= from || offset >= to))
    seen.set(buffer, [...others, [offset, offset + bytes]])
  }
  t.equal(memory.bytes, seen.size * SLAB)
  t.ok(seen.size < 40, `${seen.size} slabs for 30 MB`)
  t.end()
})

t.test('memtable after memtable lives in the same buffers', (t) => {
  const slabs = pool()
  const first = new Set<SharedArrayBuffer>()
  for (let generation = 0; generation < 10; generation++) {
    const memory = new MemtableMemory(slabs)
    for (let i = 0; i < 30; i++) {
      const { buffer } = memory.allocate(SLAB / 4)
      if (generation === 0) first.add(buffer)
      else t.ok(first.has(buffer), 'used before')
    }
    // More than a slab: heads of many series.
    const { buffer } = memory.allocate(3 * SLAB - generation * 1000)
    if (generation === 0) first.add(buffer)
    else t.ok(first.has(buffer), 'used before, though it is a little larger than what was asked for')
    memory.release(now)
    t.equal(slabs.freeBytes, 8 * SLAB + 3 * SLAB)
  }
  t.end()
})

t.test('a buffer that somebody may read is not used again until that reader has ended', (t) => {
  const slabs = pool()
  const readers = new Readers()
  const memory = new MemtableMemory(slabs)
  const { buffer } = memory.allocate(SLAB)
  const early = readers.begin()
  memory.release((unread) => readers.afterAll(unread))
  t.equal(slabs.retiredBytes, SLAB)
  const late = readers.begin()
  t.not(new MemtableMemory(slabs).allocate(SLAB).buffer, buffer)
  readers.end(early)
  t.equal(slabs.retiredBytes, 0, 'who came later does not read it')
  t.equal(new MemtableMemory(slabs).allocate(SLAB).buffer, buffer)
  readers.end(late)
  t.end()
})

t.test('no more is kept than was said', (t) => {
  let left = 0
  const slabs = pool(3 * SLAB, (bytes) => {
    left += bytes
  })
  const memory = new MemtableMemory(slabs)
  for (let i = 0; i < 5; i++) memory.allocate(SLAB)
  memory.release(now)
  t.equal(slabs.freeBytes, 3 * SLAB)
  t.equal(left, 2 * SLAB)
  t.end()
})

const looks = (slabs: SlabPool, count: number, idle: boolean): void => {
  for (let i = 0; i < count; i++) slabs.look(idle)
}

for (const { what, idle, after, why } of [
  { what: 'an idle server', idle: true, after: 2, why: 'idle' },
  { what: 'one that answers questions', idle: false, after: 60, why: 'spare' },
])
  t.test(`what is free is given back once writes rest, and not before: ${what}`, (t) => {
    let left = 0
    const reasons: (LeftFor | undefined)[] = []
    const slabs = pool(16 * SLAB, (bytes, reason) => {
      left += bytes
      reasons.push(reason)
    })
    const memory = new MemtableMemory(slabs)
    for (let i = 0; i < 5; i++) memory.allocate(SLAB)
    memory.allocate(3 * SLAB)
    memory.release(now)
    looks(slabs, after, idle)
    t.equal(slabs.freeBytes, 8 * SLAB, 'some was taken before the first look')
    const next = new MemtableMemory(slabs)
    next.allocate(SLAB)
    looks(slabs, after, idle)
    t.equal(slabs.freeBytes, 7 * SLAB)
    looks(slabs, 1, idle)
    t.equal(slabs.freeBytes, 0)
    t.equal(left, 7 * SLAB)
    next.release(now)
    t.equal(slabs.freeBytes, SLAB, 'what is in use stays')
    looks(slabs, 1, idle)
    t.equal(left, 8 * SLAB)
    t.strictSame(reasons, [why, undefined], 'little is not worth a collection')
    t.end()
  })

t.test('what was free all the time for a minute is left, though writes go on', (t) => {
  let left = 0
  const slabs = pool(16 * SLAB, (bytes) => {
    left += bytes
  })
  const memtable = (): MemtableMemory => {
    const memory = new MemtableMemory(slabs)
    for (let i = 0; i < 6; i++) memory.allocate(SLAB)
    return memory
  }
  const two = [memtable(), memtable()]
  for (const memory of two) memory.release(now)
  t.equal(slabs.freeBytes, 12 * SLAB)
  for (let look = 0; look < 240; look++) {
    memtable().release(now)
    slabs.look(false)
    if (look < 119) t.equal(left, 0)
  }
  t.equal(left, 6 * SLAB, 'the second memtable')
  t.equal(slabs.freeBytes, 6 * SLAB)
  memtable().release(now)
  t.equal(slabs.freeBytes, 6 * SLAB, 'and what is used is used again')
  looks(slabs, 61, false)
  t.equal(slabs.freeBytes, 0, 'nothing is taken any more')
  t.equal(left, 12 * SLAB)
  t.end()
})
