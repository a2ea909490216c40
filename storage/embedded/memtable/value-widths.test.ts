/** Numbers of a memtable come back as they were written, whatever the width of their chunks; small ones take little memory, and nobody makes many chunks by their size. */
import type { TableBatch } from 'svcdb/lib/columns'
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { memtableWriter } from '../testing/memtable-writer.ts'
import type { FieldDef } from '../threads/definitions.ts'
import { ChunkView } from './chunk-view.ts'
import { FieldViews } from './field-views.ts'
import { Gathered, GatheredColumn } from './row-gather.ts'

const MEMTABLE = 64 << 20
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const FIELDS: FieldDef[] = (['int64', 'uint64', 'float64', 'int64', 'uint64', 'float64', 'float64'] as const).map((type, id) => ({
  id,
  name: `f${id}`,
  column: `f${id}`,
  type,
  scale: 0,
}))

type Row = (bigint | undefined)[]
const text = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : (value ?? null))

function writer(fields: readonly FieldDef[], memtableBytes = MEMTABLE) {
  const fill = (batch: TableBatch, row: number, values: Row): void => {
    for (const [i, value] of values.entries())
      if (value !== undefined)
        batch.column(fields[i].name, fields[i].type).setPair(row, Number(BigInt.asIntN(32, value)), Number(BigInt.asIntN(32, value >> 32n)))
  }
  const table = memtableWriter(fields, fill, { memtableBytes })
  return { ...table, chunks: (): ChunkView[] => table.chunks().map(({ def }) => new ChunkView(def)) }
}

const bitsOf = (value: number): bigint => new BigInt64Array(Float64Array.of(value).buffer)[0]

/** All rows as they are read, floats by their bits. */
function read(chunks: readonly ChunkView[], fields: readonly FieldDef[]): Row[] {
  const positions = Int32Array.from(chunks.flatMap((chunk, c) => Array.from({ length: chunk.published() }, (_, row) => (c << 16) | row)))
  const out = new Gathered(positions.length, 8)
  const columns = fields.map(({ id, type }) => {
    new GatheredColumn(new FieldViews(chunks, [id]), id).gather(positions, 0, positions.length, 8, out)
    const values = new (type === 'uint64' ? BigUint64Array : BigInt64Array)(out.buffer)
    return Array.from(positions, (_, i) => (out.isNull(i) ? undefined : values[i]))
  })
  return Array.from(positions, (_, i) => columns.map((column) => column[i]))
}

t.test(`numbers of all sizes (seed ${SEED})`, async (t) => {
  for (let round = 0; round < 20; round++) {
    const random = new Random(SEED + round)
    const { write, chunks } = writer(FIELDS)
    const wanted: Row[] = []
    let sizes = FIELDS.map(() => random.pick([3, 7, 12, 15, 30]))
    for (let batch = 0; batch < 12; batch++) {
      if (random.chance(0.4)) sizes = sizes.map((size) => Math.min(63, size + random.below(20)))
      const missing = random.pick([0, 0, 0.3, 1])
      const rows = Array.from({ length: 1 + random.below(400) }, () =>
        FIELDS.map(({ type }, i): bigint | undefined => {
          if (i > 0 && random.chance(missing)) return undefined
          const value = (BigInt(random.below(2 ** 31)) * 2n ** 32n + BigInt(random.below(2 ** 31))) % 2n ** BigInt(sizes[i])
          if (type === 'float64') return bitsOf(i === 6 ? random.pick([0.5, -0, Number.NaN, 1e300, 3]) : Number(value) * random.pick([1, -1]))
          if (type === 'uint64') return random.chance(0.01) && sizes[i] > 60 ? 2n ** 64n - 1n - value : value
          return random.pick([value, -value, -(2n ** BigInt(sizes[i]))])
        }),
      )
      write(rows)
      wanted.push(...rows)
    }
    const found = read(chunks(), FIELDS)
    if (JSON.stringify(found, text) !== JSON.stringify(wanted, text)) return t.fail(`SVC_SEED=${SEED + round}`)
    t.pass(`${wanted.length} rows, ${new Set(chunks().flatMap(({ columns }) => columns.fields().map((id) => columns.get(id)?.width))).size} widths`)
  }
})

t.test('numbers at the ends of what each width holds', async (t) => {
  for (const [bits, before] of [
    [15n, 1n],
    [31n, 2n ** 20n],
  ])
    for (const value of [2n ** bits - 1n, 2n ** bits, 2n ** bits + 1n, 1n - 2n ** bits, -(2n ** bits), -(2n ** bits) - 1n]) {
      const { write, chunks } = writer(FIELDS)
      const rowOf = (number: bigint): Row =>
        FIELDS.map(({ type }) => (type === 'float64' ? bitsOf(Number(number)) : type === 'uint64' && number < 0n ? -number : number))
      // Of a width that the next ones may be too large for.
      write([rowOf(before)])
      write([rowOf(value)])
      t.same(read(chunks(), FIELDS), [rowOf(before), rowOf(value)])
    }
})

t.test('the largest unsigned numbers are not small negative ones', async (t) => {
  const fields: FieldDef[] = [{ id: 0, name: 'u', column: 'u', type: 'uint64', scale: 0 }]
  for (const value of [2n ** 64n - 1n, 2n ** 64n - 2n ** 15n, 2n ** 64n - 2n ** 31n, 2n ** 63n, 2n ** 31n, 2n ** 32n - 1n]) {
    const { write, chunks } = writer(fields)
    write([[value], [1n]])
    t.same(read(chunks(), fields), [[value], [1n]])
    t.equal(chunks()[0].columns.get(0)?.width, 8, 'readers take narrow values for signed ones')
  }
})

t.test('rows of small numbers take a third of the memory', async (t) => {
  const fields: FieldDef[] = Array.from({ length: 10 }, (_, id) => ({
    id,
    name: `f${id}`,
    column: `f${id}`,
    type: id % 2 === 0 ? 'int64' : 'float64',
    scale: 0,
  }))
  const rows = Array.from({ length: 5000 }, (_, i) =>
    fields.map(({ id, type }) => (type === 'float64' ? bitsOf((i * (id + 1)) % 100) : BigInt((i * (id + 1)) % 100))),
  )
  const { memtable, memory, write } = writer(fields)
  for (let batch = 0; batch < 60; batch++) write(rows)
  t.equal(memtable.rows, 300_000)
  t.ok(memory.bytes < 17 << 20, `${memory.bytes} bytes, of rows of 36 bytes`)
  t.equal(memtable.bytes, 300_000 * 96, 'a memtable is full after as many rows as ever')
})

t.test('values that grow from row to row, in one field after the other, make a few chunks only', async (t) => {
  const fields: FieldDef[] = Array.from({ length: 30 }, (_, id) => ({ id, name: `f${id}`, column: `f${id}`, type: 'int64', scale: 0 }))
  const { write, chunks, memory } = writer(fields, 8 << 20)
  const before = Array.from({ length: 10_000 }, () => fields.map(() => 1n))
  write(before)
  const chunksBefore = chunks().length
  const wanted: Row[] = []
  for (let row = 0; row < 60; row++) {
    const values = fields.map(({ id }) => (id === row >> 1 ? (row % 2 === 0 ? 10n ** 6n : 10n ** 12n) : 1n))
    write([values])
    wanted.push(values)
  }
  t.ok(chunks().length <= chunksBefore + 18, `${chunks().length} chunks, ${chunksBefore} before`)
  t.ok(memory.bytes < 8 << 20, `${memory.bytes} bytes`)
  t.same(read(chunks(), fields).slice(before.length), wanted)
})
