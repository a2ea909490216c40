/** Addresses of a memtable: when they run out, and what becomes of heads and links. */

import type { ByteHeap, TableBatch } from 'svcdb/lib/columns'
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { memtableWriter } from '../testing/memtable-writer.ts'
import type { FieldDef } from '../threads/definitions.ts'
import { HEAP_BUFFERS } from '../threads/memtable-layout.ts'
import { heapBytes } from './row-gather.ts'
import { SeriesTimes } from './series-times.ts'
import { MemtableMemory, SlabPool } from './slabs.ts'

const field: FieldDef = { id: 0, name: 's', column: 's', type: 'string', scale: 0 }
/** So that a few texts take as many addresses as gigabytes of them do. */
const BUFFER = 64
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)

function writer() {
  let written = 0
  const fill = (batch: TableBatch, row: number, _: undefined, heap: ByteHeap): void => {
    const at = heap.reserve(BUFFER)
    heap.bytes.set(text(written++), at)
    batch.column('s', 'string').setPair(row, at, BUFFER)
  }
  const { memtable, events, chunks, ...table } = memtableWriter([field], fill, { memtableBytes: 1 << 20, heapBuffer: BUFFER })
  const write = (rows: number): void => table.write(new Array<undefined>(rows).fill(undefined))
  const texts = (): Uint8Array[] => {
    const heap = events.flatMap((event) => (event.kind === 'heap' ? [event.bytes] : []))
    return chunks().flatMap(({ rows, views: { i32 }, columns: [{ offset }] }) =>
      Array.from({ length: rows }, (_, row) => heapBytes(heap, i32[offset / 4 + row * 2], i32[offset / 4 + row * 2 + 1]).slice()),
    )
  }
  return { memtable, write, texts }
}

function text(i: number): Uint8Array {
  return new TextEncoder().encode(String(i).padStart(BUFFER, '.'))
}

t.test("all addresses that there are lead to their text, and no text is given one that is another one's", async (t) => {
  const { memtable, write, texts } = writer()
  write(HEAP_BUFFERS)
  const read = texts()
  t.equal(read.length, HEAP_BUFFERS)
  t.ok(
    read.every((bytes, i) => Buffer.compare(bytes, text(i)) === 0),
    'beyond 2 GiB the address is a negative number',
  )
  t.throws(() => write(1), { message: /no addresses left/ })
  t.ok(memtable.full)
})

t.test(`in memory that held other texts, a row without one has the address of none (seed ${SEED})`, async (t) => {
  const slabs = new SlabPool({ memtableBytes: 8 << 20, keptBytes: 16 << 20 })
  const used = new MemtableMemory(slabs)
  for (let slab = 0; slab < 8; slab++) new Uint8Array(used.allocate(1 << 20).buffer).fill(0x7f)
  used.release((done) => done())
  const random = new Random(SEED)
  const fields: FieldDef[] = []
  const fill = (batch: TableBatch, row: number, set: readonly number[], heap: ByteHeap): void => {
    for (const id of set) {
      const at = heap.reserve(1)
      heap.bytes[at] = id
      batch.column(fields[id].name, fields[id].type).setPair(row, at, 1)
    }
  }
  const { write, chunks } = memtableWriter(fields, fill, { memory: new MemtableMemory(slabs) })
  const wanted: number[] = []
  // Fields come one after the other: the first ones with chunks of their own, then chunks are copied to have them.
  for (let id = 0; id < 20; id++) {
    fields.push({ id, name: `s${id}`, column: `s${id}`, type: id % 2 === 0 ? 'string' : 'histogram', scale: 0 })
    for (const known of [id, random.below(id + 1), random.below(id + 1)]) {
      const rows = Array.from({ length: random.pick([1, 2]) }, () => [...new Set([known, random.below(id + 1), random.below(id + 1)])])
      write(rows)
      wanted.push(...rows.flat())
    }
  }
  const lengths = chunks().flatMap(({ rows, views: { i32 }, columns }) =>
    columns.flatMap(({ offset }) => Array.from({ length: rows }, (_, row) => i32.subarray(offset / 4 + row * 2, offset / 4 + row * 2 + 2))),
  )
  t.ok(lengths.length > wanted.length, `${chunks().length} chunks, ${lengths.length} places, ${wanted.length} texts`)
  t.equal(lengths.filter(([, length]) => length === 1).length, wanted.length)
  t.ok(lengths.every(([address, length]) => length === 1 || (address === 0 && length === 0)))
})

t.test('a memtable is full while the largest record still has room', async (t) => {
  const { memtable, write } = writer()
  write(HEAP_BUFFERS / 2 - 1)
  t.notOk(memtable.full)
  write(1)
  t.ok(memtable.full)
  write(HEAP_BUFFERS / 2)
})

t.test('which series have rows', async (t) => {
  const { memtable, write } = writer()
  t.notOk(memtable.has(0))
  write(2)
  t.ok(memtable.has(0))
  t.notOk(memtable.has(1))
  memtable.ensureSeries(100_000)
  t.ok(memtable.has(0), 'heads that have grown keep what they had')
  t.notOk(memtable.has(99_999))
  t.ok(memtable.hasAny(Int32Array.of(5, 0)))
  t.notOk(memtable.hasAny(Int32Array.of(5, 200_000)))
})

t.test('the base of a series is its newest time when the memtable began, over more memtables than a byte counts', async (t) => {
  const times = new SeriesTimes()
  times.ensure(2)
  t.ok(times.advance(0, 10, 0))
  t.ok(times.aboveBase(0, 5, 0), 'of the first memtable nothing was known')
  for (let memtable = 0; memtable < 600; memtable++) {
    times.rebase()
    const newest = 10 + memtable * 10
    t.notOk(times.aboveBase(0, newest, 0))
    t.ok(times.aboveBase(0, newest + 1, 0))
    times.advance(0, newest + 10, 0)
    t.notOk(times.aboveBase(0, newest, 0), 'it stays while the series goes on')
    t.ok(times.aboveBase(0, newest + 1, 0))
  }
  t.ok(times.advance(1, 7, 0))
  t.ok(times.aboveBase(1, 1, 0))
  for (let memtable = 0; memtable < 255; memtable++) times.rebase()
  t.notOk(times.aboveBase(1, 7, 0), 'not noted in this generation, though in another of its number')
  t.ok(times.aboveBase(1, 8, 0))
})
