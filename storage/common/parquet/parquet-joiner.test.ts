/** Joined files, and footers that are none. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { ParquetJoiner } from './parquet-joiner.ts'
import { readStruct, writeStruct } from './thrift-compact.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-joiner-'))
const at = (name: string): string => join(folder, name)
const instance = await DuckDBInstance.create(':memory:')
const connection = await instance.connect()
t.teardown(() => {
  connection.disconnectSync()
  instance.closeSync()
  rmSync(folder, { recursive: true, force: true })
})
const sql = async (text: string): Promise<unknown[][]> => (await connection.runAndReadAll(text)).getRows() as unknown[][]

async function part(name: string, select: string, options = 'WRITE_BLOOM_FILTER false'): Promise<string> {
  await sql(`COPY (${select}) TO '${at(name)}' (FORMAT PARQUET, PARQUET_VERSION V2, ROW_GROUP_SIZE 2048, ${options})`)
  return at(name)
}

const BLOOM = 'WRITE_BLOOM_FILTER true, DICTIONARY_SIZE_LIMIT 2048'

function footer(path: string): Uint8Array {
  const bytes = readFileSync(path)
  return bytes.subarray(bytes.length - 8 - bytes.readUInt32LE(bytes.length - 8), bytes.length - 8)
}

const select = (from: number, to: number): string =>
  `SELECT i, 'tag ' || (i % 5) AS tag, i % 2 = 0 AS even, CASE WHEN i % 3 = 0 THEN i / 7 END AS x FROM range(${from}, ${to}) t(i)`

t.test('many row groups of several files become those of one', async (t) => {
  const paths = [
    await part('empty', select(0, 0)),
    await part('a', select(0, 50_000)),
    await part('b', select(50_000, 50_001)),
    await part('c', select(50_001, 90_000)),
  ]
  const joiner = await ParquetJoiner.create(at('whole.parquet'))
  for (const path of paths) t.ok(await joiner.append(path, Number.POSITIVE_INFINITY))
  const bytes = await joiner.finish()
  await joiner.close()
  t.equal(joiner.rows, 90_000)
  t.equal(readFileSync(at('whole.parquet')).length, bytes)
  t.same(await sql(`SELECT count(*) FROM (SELECT * FROM '${at('whole.parquet')}' EXCEPT ALL (${select(0, 90_000)}))`), [[0n]])
  t.same(await sql(`SELECT num_rows, num_row_groups FROM parquet_file_metadata('${at('whole.parquet')}')`), [[90_000n, 46n]])
  t.same(
    await sql(`SELECT i, tag FROM '${at('whole.parquet')}' WHERE i = 49_999 OR i = 50_000`),
    [
      [49_999n, 'tag 4'],
      [50_000n, 'tag 0'],
    ],
    'statistics find the right row groups',
  )
})

t.test('bloom filters come along and tell of the row groups they were made for', async (t) => {
  const joiner = await ParquetJoiner.create(at('bloom.parquet'))
  const texts = (from: number) => `SELECT 'text ' || (${from} + i // 2048) AS text FROM range(10_000) t(i)`
  for (const [i, from] of [0, 100, 200].entries()) t.ok(await joiner.append(await part(`bloom${i}`, texts(from), BLOOM), Number.POSITIVE_INFINITY))
  await joiner.finish()
  await joiner.close()
  const found = async (text: string) =>
    (await sql(`SELECT row_group_id FROM parquet_bloom_probe('${at('bloom.parquet')}', 'text', '${text}') WHERE NOT bloom_filter_excludes`)).flat()
  t.same(await found('text 101'), [6n])
  t.same(await found('text 3'), [3n])
  t.same(await found('text 9'), [])
  t.same(await sql(`SELECT count(*) FROM '${at('bloom.parquet')}' WHERE text = 'text 202'`), [[2048n]])
})

t.test('columns are called as is wished, and mean it; what is stored of them is found as before', async (t) => {
  const values = (from: number) => `SELECT make_timestamp_ns(${from} + i)::TIMESTAMPTZ AS c0, 'text ' || i AS c1, i AS c2 FROM range(5000) t(i)`
  const names = ['_time', 'a "b"', 'ü']
  const columns = [{ name: names[0], as: 'local' }, { name: names[1], as: 'bytes' }, { name: names[2] }] as const
  const joiner = await ParquetJoiner.create(at('named.parquet'), columns)
  for (const from of [0, 10_000]) t.ok(await joiner.append(await part(`named${from}`, values(from)), Number.POSITIVE_INFINITY))
  await joiner.finish()
  await joiner.close()
  const described = await sql(`SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM '${at('named.parquet')}')`)
  t.same(described, [
    [names[0], 'TIMESTAMP'],
    [names[1], 'BLOB'],
    [names[2], 'BIGINT'],
  ])
  t.same(await sql(`SELECT DISTINCT path_in_schema FROM parquet_metadata('${at('named.parquet')}') ORDER BY 1`), names.map((name) => [name]).sort())
  t.same(await sql(`SELECT count(*), sum("ü"), max("a ""b""")::VARCHAR FROM '${at('named.parquet')}' WHERE "ü" >= 2048`), [[5904n, 20_802_744n, 'text 4999']])
  const other = await ParquetJoiner.create(at('fewer.parquet'), columns.slice(1))
  t.teardown(() => other.close())
  await other.append(at('named0'), Number.POSITIVE_INFINITY)
  await t.rejects(other.finish(), /3 columns, 2 are expected/)
})

t.test('a part of another kind is refused', async (t) => {
  const joiner = await ParquetJoiner.create(at('refused'))
  t.teardown(() => joiner.close())
  await t.rejects(joiner.finish(), /has no parts/)
  await joiner.append(await part('first', select(0, 10)), Number.POSITIVE_INFINITY)
  await t.rejects(joiner.append(await part('other', 'SELECT 1::BIGINT AS i'), Number.POSITIVE_INFINITY), /its schema is not that of the parts/)
  await t.rejects(joiner.append(await part('bloom', select(0, 30_000), BLOOM), 1 << 20), /bloom filters/, 'it could not be taken whole')
  writeFileSync(at('text'), 'no Parquet file at all')
  await t.rejects(joiner.append(at('text'), Number.POSITIVE_INFINITY), /it is no Parquet file/)
  writeFileSync(at('short'), 'PAR1')
  await t.rejects(joiner.append(at('short'), Number.POSITIVE_INFINITY), /it is no Parquet file/)
  await t.rejects(ParquetJoiner.create(at('refused')), { code: 'EEXIST' })
})

t.test('a footer is written as it was read; corrupt ones are read or refused', async (t) => {
  const bytes = footer(await part('footer', select(0, 50_000)))
  t.same(writeStruct(readStruct(bytes)), bytes)
  const seed = Number(process.env.SVC_FUZZ_SEED ?? Date.now() % 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  let refused = 0
  for (let i = 0; i < 500; i++) {
    const corrupted = Uint8Array.from(bytes.subarray(0, Math.ceil(random() * bytes.length)))
    for (let n = Math.floor(random() * 4); n >= 0; n--) corrupted[Math.floor(random() * corrupted.length)] = Math.floor(random() * 256)
    try {
      writeStruct(readStruct(corrupted))
    } catch (error) {
      refused++
      if (!(error instanceof RangeError)) t.fail(`${error}`)
    }
  }
  t.ok(refused > 100, `${refused} refused`)
})
