import { type TableBatch, WriteBatch } from 'svcdb/lib/columns'
import { FakeResolver } from 'svcdb/testkit'
import t from 'tap'

const MIB = 1 << 20
const resolver = new FakeResolver()

/** Bytes of a table as who remembers it holds it, with its columns of before. */
const bytesOf = (table: TableBatch, columns = table.columns): number =>
  columns.reduce((sum, { buffer, validity, scales }) => sum + buffer.byteLength + (validity?.length ?? 0) + (scales?.length ?? 0), table.capacity * 16)

/** Rows of which each sets one field of many. */
function fill(batch: WriteBatch, measurement: string, rows: number, fields: number): TableBatch {
  const table = batch.table(resolver.measurement('', measurement))
  for (let i = 0; i < rows; i++) {
    const row = table.addRow(0, 0, 0, i)
    const column = table.column(`f${i % fields}`, i % 2 === 0 ? 'float64' : 'decimal')
    if (column.type === 'decimal') column.setDecimal(row, 1n, 1)
    else column.setF64(row, 1)
  }
  return table
}

t.test('a batch that was large keeps little, also for decoders that remember its tables and columns', async (t) => {
  const batch = new WriteBatch(resolver)
  for (const tables of [1, 5, 100]) {
    const held = Array.from({ length: tables }, (_, i) => fill(batch, `m${i}`, 20_000 / tables, 200))
    const columns = held.map((table) => [...table.columns])
    batch.text('x'.repeat(10 * MIB))
    const before = held.reduce((sum, table, i) => sum + bytesOf(table, columns[i]), batch.heap.bytes.length)
    t.ok(before > 30 * MIB, `${before} bytes of ${tables} tables`)
    batch.reset()
    const after = held.reduce((sum, table, i) => sum + bytesOf(table, columns[i]), batch.heap.bytes.length)
    t.ok(after < 8 * MIB, `${after} bytes are kept`)
    t.equal(batch.rows, 0)
  }
  const [column] = fill(batch, 'again', 3, 3).columns
  t.same(
    [0, 1, 2].map((row) => column.has(row)),
    [true, false, false],
    'it is used again',
  )
})

t.test('a batch of usual size is used again as it is', async (t) => {
  const batch = new WriteBatch(resolver)
  const table = fill(batch, 'm', 10_000, 2)
  const [{ buffer }] = table.columns
  batch.reset()
  t.equal(batch.table(resolver.measurement('', 'm')), table)
  t.equal(table.columns[0].buffer, buffer)
})

t.test('what is mostly gaps is bounded over all tables of a batch', async (t) => {
  const batch = new WriteBatch(resolver)
  const fillAll = (): void => {
    for (let i = 0; i < 50; i++) fill(batch, `m${i}`, 2048, 2048)
  }
  t.throws(fillAll, { code: 'INVALID_POINT', message: /cannot hold \d+ fields of measurement "m\d+" for \d+ points in one write/ })
  const cells = batch.tables.reduce((sum, { columns, capacity }) => sum + columns.length * capacity, 0)
  t.ok(cells <= 2 ** 24 + 50 * 2048 * 16, `${cells} cells`)
  batch.reset()
  t.doesNotThrow(() => fill(batch, 'm0', 2048, 2048), 'the next write has its own')
})

t.test('first rows of many measurements are no gaps', async (t) => {
  const batch = new WriteBatch(resolver)
  for (let i = 0; i < 2000; i++) fill(batch, `few${i}`, 16, 16)
  t.equal(batch.tables.length, 2000)
})
