/** Our reader against DuckDB's, on random tables of every type, null pattern, row group size, compression and encoding; and on damaged ones. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { type Duck, sqlText } from '../duckdb/duckdb.ts'
import { streamSql } from '../duckdb/stream.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { ColumnDecoder, type Validity } from './column-decoder.ts'
import { Physical } from './footer.ts'
import { milliseconds, restOf } from './nanoseconds.ts'
import { PageFault } from './page-fault.ts'
import { ChunkRoom, ParquetFile } from './parquet-file.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const COLUMNS = ['i', 'l', 'u', 'd', 'b', 't'] as const
type Column = (typeof COLUMNS)[number]

/** A column of `rows` values for DuckDB, from the row's number n. */
function expression(random: Random, column: Column): string {
  const noise = `hash(n * 8 + ${random.below(1 << 30)})`
  const signed = `(${noise} >> 1)::BIGINT`
  const nulls = random.pick(['', '', 'n % 7 = 3', 'true', 'n > 1000', `hash(n) % ${1 + random.below(4)} = 0`])
  const of: Record<Column, string[]> = {
    i: [
      '7',
      'n',
      `(${noise} % ${2 + random.below(5000)})::INTEGER - 100`,
      `(${noise} % 4294967296)::BIGINT - 2147483648`,
      'CASE WHEN n % 2 = 0 THEN -2147483648 ELSE 2147483647 END',
    ],
    l: [
      'n',
      `${signed} % 1000`,
      `(${signed} - 4611686018427387904) * 2`,
      'CASE WHEN n % 2 = 0 THEN -9223372036854775808 ELSE 9223372036854775807 END',
      `9007199254740993 + n * ${1 + random.below(1e6)}`,
    ],
    u: ['n', `${noise}`, `18446744073709551615 - (${noise} % 100)`],
    d: [
      'n / 4',
      `(${noise} % 9) / 3`,
      `(${signed} - 4611686018427387904) / 1e9`,
      '0',
      `CASE n % 3 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN '-inf'::DOUBLE ELSE -0.0 END`,
    ],
    b: ['n % 2 = 0', 'true', `${noise} % 10 = 0`, 'n < 300'],
    t: [
      `make_timestamp_ns(1700000000000000000 + n * 10000000000)`,
      `make_timestamp_ns(1700000000000000000 + (${signed} % 1000000000000))`,
      `make_timestamp_ns(-1700000000000000001 + (n // 100) * -1000000007)`,
      `make_timestamp_ns((n % 5) * 15000000000 + ${random.below(2)})`,
    ],
  }
  const types: Record<Column, string> = { i: 'INTEGER', l: 'BIGINT', u: 'UBIGINT', d: 'DOUBLE', b: 'BOOLEAN', t: 'TIMESTAMP_NS' }
  const value = `(${random.pick(of[column])})::${types[column]}`
  return `${nulls === '' || column === 't' ? value : `CASE WHEN NOT (${nulls}) THEN ${value} END`} AS ${column}`
}

function copySql(random: Random, path: string, rows: number): string {
  const columns = COLUMNS.map((column) => expression(random, column)).join(', ')
  const options = [
    'FORMAT PARQUET',
    random.pick(['PARQUET_VERSION V2', 'PARQUET_VERSION V1']),
    `COMPRESSION ${random.pick(['ZSTD', 'ZSTD', 'LZ4', 'UNCOMPRESSED'])}`,
    `ROW_GROUP_SIZE ${random.pick([2048, 4096, 122_880])}`,
    ...(random.below(2) === 0 ? ['DICTIONARY_SIZE_LIMIT 1'] : []),
  ]
  return `COPY (SELECT ${columns} FROM (SELECT range AS n FROM range(${rows}))) TO ${sqlText(path)} (${options.join(', ')})`
}

/** Rows as text: bits of doubles, halves as integers, null. */
type Rows = Record<Column, string[]>

async function byDuck(duck: Duck, path: string): Promise<Rows> {
  const out = Object.fromEntries(COLUMNS.map((column) => [column, [] as string[]])) as Rows
  const wanted = 'i, l, u, d, b::INTEGER AS b, epoch_ns(t) AS t'
  for await (const { rows, columns } of streamSql(duck, `SELECT ${wanted} FROM read_parquet(${sqlText(path)})`, undefined)) {
    for (const [c, name] of COLUMNS.entries()) {
      const { values, validity } = columns[c]
      const bits = name === 'd' ? new BigInt64Array((values as Float64Array).slice(0, rows).buffer) : (values as ArrayLike<number | bigint>)
      for (let i = 0; i < rows; i++) out[name].push(validity?.[i] === 0 ? 'null' : String(bits[i]))
    }
  }
  return out
}

function byPages(path: string): Rows {
  const out = Object.fromEntries(COLUMNS.map((column) => [column, [] as string[]])) as Rows
  const decoder = new ColumnDecoder()
  const file = ParquetFile.open(path, readFileSync(path).length, new ChunkRoom())
  try {
    const { footer } = file
    for (const name of COLUMNS) {
      const column = footer.column(name)
      for (let group = 0; group < footer.groups; group++) {
        const rows = footer.rows[group]
        const bytes = file.chunk(group, column)
        const add = (validity: Validity, text: (row: number) => string): void => {
          const nulls = validity === undefined ? 0 : validity.reduce((sum, one) => sum + (one === 0 ? 1 : 0), 0)
          if (footer.nulls[column + group * footer.columns.length] !== nulls) throw new Error('the footer counts other nulls')
          for (let row = 0; row < rows; row++) out[name].push(validity?.[row] === 0 ? 'null' : text(row))
        }
        if (name === 't') {
          const [ms, rests] = [new Float64Array(rows), new Int32Array(rows)]
          add(decoder.times(footer, group, column, bytes, ms, rests), (row) => String(BigInt(ms[row]) * 1_000_000n + BigInt(rests[row])))
        } else if (name === 'i') {
          const values = new Int32Array(rows)
          add(decoder.int32(footer, group, column, bytes, values), (row) => String(values[row]))
        } else if (name === 'b') {
          const values = new Uint8Array(rows)
          add(decoder.boolean(footer, group, column, bytes, values), (row) => String(values[row]))
        } else {
          const halves = new Int32Array(rows * 2)
          const validity =
            name === 'd' ? decoder.double(footer, group, column, bytes, new Float64Array(halves.buffer)) : decoder.int64(footer, group, column, bytes, halves)
          const values = name === 'u' ? new BigUint64Array(halves.buffer) : new BigInt64Array(halves.buffer)
          add(validity, (row) => String(values[row]))
        }
      }
    }
  } finally {
    file.close()
  }
  return out
}

t.test(`as DuckDB reads it, SVC_SEED=${seed}`, async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const { duck } = await db.context()
  const random = new Random(seed)
  const path = join(db.dataDir, 'segments', 'random.parquet')
  let values = 0
  for (let round = 0; round < 40; round++) {
    const sql = copySql(random, path, random.pick([1, 2, 33, 500, 2049, 9000]))
    await duck.run(sql)
    const [found, right] = [byPages(path), await byDuck(duck, path)]
    for (const name of COLUMNS) {
      const at = right[name].findIndex((text, i) => found[name][i] !== text)
      if (at >= 0 || found[name].length !== right[name].length) return t.equal(found[name][at], right[name][at], `${name}, row ${at} of ${sql}`)
      values += right[name].length
    }
  }
  t.ok(values >= 40 * COLUMNS.length, `${values} values`)
})

t.test('bounds of row groups', async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const { duck } = await db.context()
  const path = join(db.dataDir, 'segments', 'bounds.parquet')
  await duck.run(
    `COPY (SELECT range::INTEGER - 5 AS i, range * -10000000000 AS l, range / 4 AS d, NULL::INTEGER AS e FROM range(5000)) TO ${sqlText(path)} (FORMAT PARQUET, PARQUET_VERSION V2, ROW_GROUP_SIZE 2048)`,
  )
  const file = ParquetFile.open(path, readFileSync(path).length, new ChunkRoom())
  const { footer } = file
  file.close()
  t.same(footer.columns, [
    { name: 'i', type: Physical.INT32, optional: true },
    { name: 'l', type: Physical.INT64, optional: true },
    { name: 'd', type: Physical.DOUBLE, optional: true },
    { name: 'e', type: Physical.INT32, optional: true },
  ])
  t.same([...footer.rows], [2048, 2048, 904])
  t.same(footer.numbers(1, 0), { min: 2043, max: 4090 })
  t.same(footer.integers(1, 1), { min: -40_950_000_000_000n, max: -20_480_000_000_000n })
  t.same(footer.numbers(1, 2), { min: 512, max: 1023.75 })
  t.equal(footer.numbers(1, 3), undefined, 'of nothing')
  t.equal(footer.integers(1, 0), undefined)
  t.equal(footer.column('none'), -1)
  t.equal(footer.nulls[footer.columns.length + 3], 2048)
})

t.test(`damaged files are a PageFault or other values, SVC_SEED=${seed}`, async (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const { duck } = await db.context()
  const random = new Random(seed)
  const path = join(db.dataDir, 'segments', 'damaged.parquet')
  let faults = 0
  for (let round = 0; round < 6; round++) {
    await duck.run(copySql(random, path, random.pick([33, 500, 2049])))
    const whole = readFileSync(path)
    for (let n = 0; n < 50; n++) {
      const bytes = Buffer.from(random.below(8) === 0 ? whole.subarray(0, random.below(whole.length)) : whole)
      // Footers and headers are a small part of a file: half of the damage is done at its ends.
      for (let k = 0; k <= random.below(4) && bytes.length > 0; k++) {
        const at = random.below(2) === 0 ? random.below(bytes.length) : bytes.length - 1 - random.below(Math.min(bytes.length, 800))
        bytes[at] = random.pick([0, 255, 127, 128, random.below(256)])
      }
      writeFileSync(path, bytes)
      try {
        byPages(path)
      } catch (error) {
        if (!(error instanceof PageFault) && !(error as Error).message.includes('other nulls')) throw error
        faults++
      }
    }
  }
  t.ok(faults > 0, `${faults} faults`)
})

t.test('nanoseconds in two halves', async (t) => {
  for (const ns of [0n, -1n, 1n, 2n ** 63n - 1n, -(2n ** 63n), 1_700_000_000_123_456_789n]) {
    const low = Number(BigInt.asIntN(32, ns))
    const ms = milliseconds(low, Number(ns >> 32n))
    t.equal(BigInt(ms) * 1_000_000n + BigInt(restOf(low, ms)), ns)
  }
})
