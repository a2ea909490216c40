import { seeded } from 'svcdb/lib/random'
import { FakeResolver } from 'svcdb/testkit'
import t from 'tap'
import { type TableBatch, WriteBatch } from './batch.ts'
import { Column } from './column.ts'
import type { FieldType } from './schema.ts'

const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
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

function table(): TableBatch {
  return new WriteBatch(resolver).table(resolver.measurement('', 'm'))
}

/** Values of each row by field, as they are kept. */
function rowsOf({ rows, columns }: TableBatch): Record<string, number>[] {
  return Array.from({ length: rows }, (_, row) =>
    Object.fromEntries(columns.filter((column) => column.has(row)).map((column) => [column.name, column.f64[row]])),
  )
}

t.test(`rows that are taken back leave nothing, in tables of few and of many columns, SEED=${SEED}`, async (t) => {
  const random = seeded(SEED)
  const below = (n: number): number => Math.floor(random() * n)
  for (const fields of [3, 250, 300, 2000]) {
    const batch = table()
    let expected: Record<string, number>[] = []
    for (let step = 0; step < 400; step++) {
      const row = batch.addRow(0, step, 0, step)
      const values: Record<string, number> = {}
      for (let i = below(8); i >= 0; i--) {
        const name = `f${below(fields)}`
        values[name] = random()
        batch.column(name, 'float64').setF64(row, values[name])
      }
      expected.push(values)
      const fate = below(10)
      if (fate < 3) for (let i = below(2); i >= 0 && expected.length > 0; i--) [batch.dropRow(), expected.pop()]
      else if (fate === 3) {
        const kept = below(expected.length + 1)
        batch.dropRows(kept)
        expected = expected.slice(0, kept)
      } else if (fate === 4 && below(20) === 0) {
        batch.reset()
        expected = []
      }
    }
    t.same(rowsOf(batch), expected, `${fields} fields`)
  }
})

t.test('to take a row back costs what the row has set, not what its table has', async (t) => {
  const batch = table()
  const first = batch.addRow(0, 0, 0, 0)
  for (let i = 0; i < 5000; i++) batch.column(`f${i}`, 'float64').setF64(first, i)
  let looks = 0
  const { cut } = Column.prototype
  t.teardown(() => {
    Column.prototype.cut = cut
  })
  Column.prototype.cut = function (rows: number) {
    looks++
    cut.call(this, rows)
  }
  for (let n = 0; n < 1000; n++) {
    const row = batch.addRow(0, n, 0, n)
    batch.column(`f${n}`, 'float64').setF64(row, 1)
    batch.dropRow()
  }
  t.equal(looks, 1000)
  t.same(rowsOf(batch), [Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`f${i}`, i]))])
})

t.test('a column without values is replaced where it is', async (t) => {
  const batch = table()
  for (const type of ['float64', 'bool'] as const) {
    const row = batch.addRow(0, 0, 0, 0)
    for (let i = 0; i < 300; i++) {
      const column = batch.column(`f${i}`, type)
      if (type === 'bool') column.setBool(row, true)
      else column.setF64(row, i)
    }
    if (type === 'float64') batch.dropRow()
  }
  t.same(
    batch.columns.map(({ name, type }) => [name, type]),
    Array.from({ length: 300 }, (_, i) => [`f${i}`, 'bool']),
  )
  batch.reset()
  t.equal(batch.columns.length, 300)
})

t.test('a column has the type of its first value, and none when that value is taken back', async (t) => {
  const batch = table()
  const set = (name: string, type: 'float64' | 'bool'): void => {
    const row = batch.addRow(0, 0, 0, 0)
    const column = batch.column(name, type)
    if (type === 'bool') column.setBool(row, true)
    else column.setF64(row, 1)
  }
  set('a', 'float64')
  set('b', 'float64')
  batch.dropRow()
  t.doesNotThrow(() => set('b', 'bool'))
  t.throws(() => set('a', 'bool'), { code: 'SCHEMA_ERROR', message: /field "a" of measurement "m": it is of type float64, the point has bool/ })
})

t.test('a column that is replaced in a later write takes no other’s place', async (t) => {
  const batch = table()
  const set = (name: string, type: 'float64' | 'bool', row = batch.addRow(0, 0, 0, 0)): void => {
    const column = batch.column(name, type)
    if (type === 'bool') column.setBool(row, true)
    else column.setF64(row, 1)
  }
  set('gone', 'float64')
  batch.dropRow()
  set('a', 'float64')
  set('b', 'float64', 0)
  batch.reset()
  set('a', 'float64')
  batch.dropRow()
  set('a', 'bool')
  set('b', 'float64', 0)
  t.same(
    batch.columns.map(({ name, type }) => [name, type]),
    [
      ['a', 'bool'],
      ['b', 'float64'],
    ],
  )
})

t.test('a run behind a row without a value is set as a whole', async (t) => {
  const batch = table()
  batch.addRow(0, 0, 0, 0)
  const column = batch.column('f', 'float64')
  for (let i = 1; i < 4; i++) batch.addRow(0, i, 0, i)
  column.setRun(1, new Uint8Array(Float64Array.of(1, 2, 3).buffer), 3)
  t.same(rowsOf(batch), [{}, { f: 1 }, { f: 2 }, { f: 3 }])
})

t.test('nothing of a write is in the next one, of many measurements too', async (t) => {
  for (const measurements of [2, 100]) {
    const batch = new WriteBatch(resolver)
    for (let i = 0; i < measurements; i++) {
      const table = batch.table(resolver.measurement('', `m${i}`))
      table.column('d', 'decimal').setDecimal(table.addRow(0, 0, 0, 0), 1n, 9)
    }
    batch.mixed().addRow(0, 0, 0, 0)
    batch.reset()
    const again = batch.table(resolver.measurement('', 'm1'))
    const column = again.column('d', 'decimal')
    t.equal(column.scale, 0, 'how many digits a decimal has')
    column.setDecimal(again.addRow(0, 0, 0, 0), 1n, 2)
    batch.mixed().addRow(0, 0, 0, 0)
    t.equal(batch.rows, 2, `each row is in a table that is written, with ${measurements} measurements before`)
    t.equal(column.scale, 2)
  }
})

t.test('an engine says how many fields and cells a write may have', async (t) => {
  const batch = new WriteBatch(Object.assign(new FakeResolver(), { writeLimits: { fields: 6, cells: 100 } }))
  for (const others of ['b', 'c', 'd']) {
    t.doesNotThrow(() => fill(batch, others, 6, 6), 'a write is not refused for what the one before has left')
    t.throws(() => fill(batch, `${others}2`, 6, 6), { code: 'INVALID_POINT', message: /more than 6 fields .* max_fields_per_write/ })
    batch.reset()
  }
  fill(batch, 'e', 17, 4)
  t.throws(() => fill(batch, 'f', 40, 2), { code: 'INVALID_POINT', message: /cannot hold 2 fields of measurement "f" for 64 points .* max_cells_per_write/ })
})

t.test('a column that the write before has left grows with the rows once it is asked for', async (t) => {
  const batch = new WriteBatch(Object.assign(new FakeResolver(), { writeLimits: { fields: 100, cells: 240 } }))
  const table = batch.table(resolver.measurement('', 'm'))
  const first = table.addRow(0, 0, 0, 0)
  for (let i = 0; i < 50; i++) table.column(`f${i}`, 'float64').setF64(first, i)
  batch.reset()
  const known = table.column('f0', 'float64')
  for (let i = 0; i < 64; i++) known.setF64(table.addRow(0, i, 0, i), i)
  const late = table.column('f1', 'float64')
  late.setF64(63, 5)
  for (let i = 64; i < 100; i++) late.setF64(table.addRow(0, i, 0, i), i)
  t.same([late.has(62), late.has(63), late.f64[63], late.f64[99], known.f64[63], known.has(64)], [false, true, 5, 99, 63, false])
  t.throws(() => table.column('f2', 'float64'), { message: /cannot hold 3 fields of measurement "m" for 128 points/ })
  batch.reset()
  const row = table.addRow(0, 0, 0, 0)
  for (let i = 0; i < 100; i++) t.doesNotThrow(() => table.column(`f${i}`, 'float64').setF64(row, i), 'nor are rows counted that it has left')
})

t.test('rows that set few of very many fields take room for what they set, in tables that follow each other', async (t) => {
  const resolver = new FakeResolver()
  const batch = new WriteBatch(resolver)
  const ref = resolver.measurement('', 'm')
  const [rows, fields] = [5000, 900]
  for (const time of [1, 2]) {
    for (let i = 0; i < rows; i++) {
      const table = batch.tableForRow(ref)
      table.column(`f${(i * 7) % fields}`, 'float64').setF64(table.addRow(i, time, 0, i), i)
    }
    t.equal(batch.rows, rows)
    t.same(
      batch.tables.flatMap(({ series, rows }) => [...series.subarray(0, rows)]),
      Array.from({ length: rows }, (_, i) => i),
      'in order',
    )
    for (const { rows, columns, series } of batch.tables)
      for (let row = 0; row < rows; row++) {
        const set = columns.filter((column) => column.has(row)).map((column) => [column.name, column.f64[row]])
        t.same(set, [[`f${(series[row] * 7) % fields}`, series[row]]])
      }
    const bytes = batch.tables.reduce((sum, { reserved }) => sum + reserved, 0)
    t.ok(bytes < rows * 2000, `${bytes} bytes`)
    batch.reset()
    t.equal(batch.tables.length, 0, 'nothing is kept of them')
  }
})

t.test('rows that set a good part of the fields, or set some of few, stay in one table, and so do decimals that are new', async (t) => {
  const resolver = new FakeResolver()
  const kinds: [string, number, number, FieldType][] = [
    ['a fifth of 100', 100, 20, 'float64'],
    ['one of 8', 8, 1, 'float64'],
    ['one of 200 decimals', 200, 1, 'decimal'],
  ]
  for (const [what, fields, set, type] of kinds) {
    const batch = new WriteBatch(resolver)
    const ref = resolver.measurement('', what)
    for (let i = 0; i < 4000; i++) {
      const table = batch.tableForRow(ref)
      const row = table.addRow(0, i, 0, i)
      for (let n = 0; n < set; n++) {
        const column = table.column(`f${(i * 7 + n) % fields}`, type)
        if (type === 'decimal') column.setDecimal(row, 1n, i % 3)
        else column.setF64(row, i)
      }
    }
    t.equal(batch.tables.length, 1, what)
  }
})

t.test('ever new fields are refused, after few tables', async (t) => {
  const resolver = new FakeResolver()
  const batch = new WriteBatch(resolver)
  const ref = resolver.measurement('', 'm')
  let n = 0
  t.throws(
    () => {
      for (; n < 100_000; n++) {
        const table = batch.tableForRow(ref)
        table.column(`f${n}`, 'float64').setF64(table.addRow(0, n, 0, n), n)
      }
    },
    { code: 'INVALID_POINT', message: /cannot hold more than 4096 new fields of measurement "m" in one write/ },
  )
  t.ok(n > 4096 && n < 5000, `after ${n}`)
})

t.test('new fields of a write that was refused do not count in the next one', async (t) => {
  const resolver = new FakeResolver()
  const batch = new WriteBatch(resolver)
  const ref = resolver.measurement('', 'm')
  const row = (fields: readonly number[]): void => {
    const table = batch.tableForRow(ref)
    const at = table.addRow(0, 0, 0, 0)
    for (const field of fields) table.column(`f${field}`, 'float64').setF64(at, 1)
  }
  const all = Array.from({ length: 5000 }, (_, i) => i)
  t.throws(
    () => {
      row(all)
      for (let i = 0; i < 100; i++) row([i])
    },
    { message: /more than 4096 new fields/ },
  )
  batch.reset()
  for (let i = 0; i < 1000; i++) row([i])
  t.equal(batch.rows, 1000)
})

/** Counts how often the columns of a table are looked at, by one of them. */
function looksAt({ columns }: TableBatch): () => number {
  let looks = 0
  const [column] = columns
  let { left } = column
  const get = (): boolean => {
    looks++
    return left
  }
  const set = (is: boolean): void => {
    left = is
  }
  Object.defineProperties(column, { left: { get, set, configurable: true }, values: { get: () => Number(get()) + column.next, configurable: true } })
  return () => looks
}

t.test('a table that takes no more rows says so without looking at all its columns each time', async (t) => {
  const resolver = Object.assign(new FakeResolver(), { writeLimits: { fields: 1e6, cells: 50_000 } })
  const ref = resolver.measurement('', 'm')
  const ways: [string, number, RegExp, (batch: WriteBatch) => TableBatch][] = [
    ['of any rows', 4096, /cannot hold 4096 fields of measurement "m" for 32 points/, (batch) => batch.table(ref)],
    ['of points', 4096, /cannot hold 4096 fields of measurement "m" for 32 points/, (batch) => batch.tableForRow(ref)],
    ['of points with new fields', 257, /more than 4096 new fields of measurement "m"/, (batch) => batch.tableForRow(ref)],
  ]
  for (const [what, each, message, tableOf] of ways) {
    const batch = new WriteBatch(resolver)
    const add = (i: number): number => tableOf(batch).addRow(0, i, 0, i)
    for (const time of [1, 2]) {
      for (let i = 0; i < 16; i++) {
        const row = add(i)
        for (let n = 0; n < each; n++)
          batch
            .table(ref)
            .column(`f${each === 257 ? i * each + n : n}`, 'float64')
            .setF64(row, time)
      }
      const looks = looksAt(batch.table(ref))
      t.throws(() => add(16), { code: 'INVALID_POINT', message: message }, what)
      const before = looks()
      t.ok(before > 0, `${before} looks`)
      for (let i = 0; i < 100; i++) t.throws(() => add(16), { code: 'INVALID_POINT', message })
      t.equal(looks(), before)
      batch.table(ref).dropRows(10)
      for (let i = 10; i < 16; i++) t.equal(add(i), i, 'there is room again')
      t.throws(() => add(16), { code: 'INVALID_POINT', message })
      batch.reset()
      t.doesNotThrow(() => add(0))
      batch.reset()
    }
  }
})

t.test('the fields of a batch are bounded, over all of its measurements', async (t) => {
  const resolver = new FakeResolver()
  const batch = new WriteBatch(resolver)
  const fill = (measurements: number, fields: number): void => {
    for (let m = 0; m < measurements; m++) {
      const table = batch.table(resolver.measurement('', `m${m}`))
      const row = table.addRow(0, 0, 0, 0)
      for (let i = 0; i < fields; i++) table.column(`f${i}`, 'float64').setF64(row, i)
    }
  }
  for (const measurements of [8, 128]) {
    fill(measurements, 131_072 / measurements)
    t.throws(() => fill(1, 131_073 / measurements + 1), { code: 'INVALID_POINT', message: /more than 131072 fields/ }, 'one more')
    fill(1, 1)
    batch.reset()
  }
  fill(1, 2)
})
