/** Rows that set few of the many fields of their measurement: they take memory for what they hold, and are read as they were written. */
import { TableBatch } from 'svcdb/lib/columns'
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { memtableWriter } from '../testing/memtable-writer.ts'
import type { FieldDef } from '../threads/definitions.ts'
import { ChunkView } from './chunk-view.ts'
import { FieldViews } from './field-views.ts'
import { Gathered, GatheredColumn } from './row-gather.ts'
import { rowParts } from './row-parts.ts'

const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const MIB = 1 << 20
const WIDE = 900
const ROWS = 16_000

type Row = ReadonlyMap<number, number>

function writer(count: number) {
  const fields = Array.from({ length: count }, (_, id): FieldDef => ({ id, name: `f${id}`, column: `f${id}`, type: 'float64', scale: 0 }))
  const fill = (batch: TableBatch, row: number, values: Row): void => {
    for (const [id, value] of values) batch.column(fields[id].name, 'float64').setF64(row, value)
  }
  const { events, ...table } = memtableWriter(fields, fill)
  /** What other threads see. */
  const read = (): Row[] => {
    const chunks: ChunkView[] = []
    for (const event of events) {
      if (event.kind === 'chunk-grown') chunks.pop()
      if (event.kind === 'chunk' || event.kind === 'chunk-grown') chunks.push(new ChunkView(event.chunk))
    }
    const positions = Int32Array.from(chunks.flatMap((chunk, c) => Array.from({ length: chunk.published() }, (_, row) => (c << 16) | row)))
    const found = Array.from(positions, () => new Map<number, number>())
    const out = new Gathered(positions.length, 8)
    for (const { id } of fields) {
      new GatheredColumn(new FieldViews(chunks, [id]), id).gather(positions, 0, positions.length, 8, out)
      for (let i = 0; i < positions.length; i++) if (!out.isNull(i)) found[i].set(id, out.f64[i])
    }
    return found
  }
  return { ...table, read }
}

const whole: Row = new Map(Array.from({ length: WIDE }, (_, id) => [id, id + 0.5]))
const one = (id: number): Row => new Map([[id, id + 0.25]])
const some = (rows: number, row: (i: number) => Row): Row[] => Array.from({ length: rows }, (_, i) => row(i))

for (const { what, batches, most } of [
  { what: 'one field of 900', batches: [[whole], some(ROWS, () => one(0))], most: 4 },
  { what: 'one field of 900 after points that set all', batches: [some(40, () => whole), some(ROWS, () => one(0))], most: 4 },
  { what: 'one point of all 900 fields among those of one', batches: [some(ROWS, (i) => (i === ROWS / 2 ? whole : one(0)))], most: 8 },
  { what: 'each another field', batches: [some(ROWS, (i) => one((i * 7) % WIDE))], most: 10 },
  { what: 'each another field beside a common one', batches: [some(ROWS, (i) => new Map([...one(0), ...one(1 + ((i * 7) % (WIDE - 1)))]))], most: 10 },
  { what: 'each another field, a point a write', batches: some(3000, (i) => one((i * 7) % WIDE)).map((row) => [row]), most: 10 },
  { what: 'all fields and one by turns, a point a write', batches: some(400, (i) => (i % 2 === 0 ? whole : one(i % WIDE))).map((row) => [row]), most: 10 },
])
  t.test(`memory for what is set: ${what}`, async (t) => {
    const { memtable, memory, write, read } = writer(WIDE)
    for (const batch of batches) write(batch)
    t.ok(memory.bytes <= most * MIB, `${memory.bytes / MIB} MiB`)
    t.ok(memtable.bytes <= memory.bytes * 2, `counted as ${memtable.bytes / MIB} MiB`)
    t.same(read(), batches.flat(), 'as it was written')
  })

t.test(`rows of all kinds come back (seed ${SEED})`, async (t) => {
  for (let round = 0; round < 12; round++) {
    const random = new Random(SEED + round)
    const width = random.pick([3, 40, 300])
    const { write, read, chunks } = writer(width)
    const wanted: Row[] = []
    for (let n = 0; n < 40; n++) {
      const share = random.pick([1, 0.5, 0.05, 1 / width])
      const fields = Array.from({ length: width }, (_, id) => id).filter(() => random.chance(random.pick([1, share])))
      const rows = some(
        random.pick([1, 3, 50]),
        () => new Map([...fields.filter(() => random.chance(share)), random.below(width)].map((id) => [id, random.below(1e9) / 4])),
      )
      write(rows)
      wanted.push(...rows)
    }
    const sorted = (rows: readonly Row[]): unknown[] => rows.map((row) => [...row].sort(([a], [b]) => a - b))
    t.same(sorted(read()), sorted(wanted))
    if (width === 3) t.ok(chunks().length <= 4, 'a few fields have their columns in all chunks')
  }
})

t.test('rows that set all fields, or most, are one part', async (t) => {
  const batch = new TableBatch({ namespace: '', name: 'm', id: 0, fields: new Map() })
  for (let i = 0; i < 1000; i++) {
    const row = batch.addRow(0, i, 0, 0)
    for (let f = 0; f < 20; f++) if (f < 10 || i % 50 === 0) batch.column(`f${f}`, 'float64').setF64(row, f)
  }
  t.same(rowParts(batch), [{ from: 0, rows: 1000, columns: Array.from({ length: 20 }, (_, i) => i) }])
})
