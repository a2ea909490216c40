import { DuckDBInstance } from '@duckdb/node-api'
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { parse, parsedBefore } from './ast.ts'
import { shapeOf } from './shapes.ts'
import { StatementGenerator } from './testing/statements.ts'

const instance = await DuckDBInstance.create(':memory:')
const connection = await instance.connect()
t.teardown(() => {
  connection.closeSync()
  instance.closeSync()
})

/** The tree as DuckDB gives it for this very text. */
async function direct(text: string): Promise<unknown> {
  // A comment has no shape.
  return (await parse({ connection }, `${text} --`)).tree
}

const bare = (tree: unknown): string => JSON.stringify(tree, (key, value) => (key === 'query_location' ? undefined : value))

const ANSWERED = [
  [
    "SELECT max(f) FROM m WHERE host = 'a' AND _time > TIMESTAMP '2024-01-01'",
    "SELECT max(f) FROM m WHERE host = 'it''s' AND _time > TIMESTAMP '2025-02-03 04:05:06'",
  ],
  ['SELECT f FROM m WHERE _time > 1700000000000000000 AND i = 12345678901', 'SELECT f FROM m WHERE _time > 1700000000000000000 AND i = 99999999999'],
  [
    'SELECT f FROM m WHERE _time > to_timestamp(1700000000) AND _time <= to_timestamp(1700003600)',
    'SELECT f FROM m WHERE _time > to_timestamp(1999999999) AND _time <= to_timestamp(1000000000)',
  ],
  ['SELECT f FROM m WHERE i = 12345678901 AND j = 1234567890', 'SELECT f FROM m WHERE i = 10000000001 AND j = 1000000001'],
  ["SELECT 'x' AS a, time_bucket(INTERVAL '1 minute', _time) FROM m", "SELECT '' AS a, time_bucket(INTERVAL '2 hours', _time) FROM m"],
  ['SELECT "a\'b", \'c\' FROM "d\'e"', 'SELECT "a\'b", \'"\' FROM "d\'e"'],
  ["SELECT * FROM m WHERE h IN ('a', 'b') AND x LIKE 'y%' AND n = $1", "SELECT * FROM m WHERE h IN ('b', 'b') AND x LIKE '--' AND n = $1"],
]

t.test('a statement of a shape that two others had is read without DuckDB', async (t) => {
  for (const [first, second] of ANSWERED) {
    await parse({ connection }, first)
    t.equal(parsedBefore(second), undefined, 'not after one')
    t.equal(bare((await parse({ connection }, second)).tree), bare(await direct(second)), second)
    for (const text of [second, first]) {
      const known = parsedBefore(text)
      t.ok(known !== undefined, text)
      t.equal(bare(known?.tree), bare(await direct(text)))
    }
  }
})

t.test('DuckDB reads the first statement of a shape, the shape with the second one, and nothing more', async (t) => {
  let asked = 0
  const counting = {
    run: (sql: string) => {
      asked++
      return connection.run(sql)
    },
  } as typeof connection
  const asks = async (text: string): Promise<number> => {
    asked = 0
    t.equal(bare((await parse({ connection: counting }, text)).tree), bare(await direct(text)), text)
    return asked
  }
  const of = (host: string): string => `SELECT sum(f) AS counted FROM m WHERE host = '${host}'`
  t.equal(await asks(of('a')), 1)
  t.equal(await asks(of('a')), 0, 'the same text')
  t.equal(await asks(of('b')), 1)
  t.equal(await asks(of('c')), 0)
  t.equal(await asks(of('a')), 0)
  // No constant where it stands: its statements are read one by one.
  const named = (name: string): string => `SELECT f AS '${name}' FROM m AS counted`
  t.equal(await asks(named('a')), 1)
  t.equal(await asks(named('b')), 2, 'the shape in vain')
  t.equal(await asks(named('c')), 1)
  t.equal(await asks(named('c')), 0)
})

t.test('what is no plain literal, or no constant where it stands, is read by DuckDB', async (t) => {
  for (const [first, second, third] of [
    ["SELECT E'a\\n' FROM m", "SELECT E'b\\n' FROM m", "SELECT E'c\\n' FROM m"],
    ['SELECT $$a$$ FROM m', 'SELECT $$b$$ FROM m', 'SELECT $$c$$ FROM m'],
    ["SELECT 1 AS 'a'", "SELECT 1 AS 'b'", "SELECT 1 AS 'c'"],
    ['SELECT -12345678901', 'SELECT -12345678902', 'SELECT -12345678903'],
    ["SELECT 1 /* 'a' */, 'b'", "SELECT 1 /* 'c' */, 'd'", "SELECT 1 /* 'e' */, 'f'"],
    ['SELECT 12345678901, f FROM m', 'SELECT 12345678902, f FROM m', 'SELECT 1234567890, f FROM m'],
    ['SELECT 2000000000, 1700000000 FROM m', 'SELECT 2000000000, 1700000001 FROM m', 'SELECT 2000000000, 1700000002 FROM m'],
    ['SELECT 1700000000.5 FROM m', 'SELECT 1700000001.5 FROM m', 'SELECT 1700000002.5 FROM m'],
    ['SELECT -1700000000 FROM m', 'SELECT -1700000001 FROM m', 'SELECT -1700000002 FROM m'],
    ['SELECT 123456789012345678901', 'SELECT 123456789012345678902', 'SELECT 123456789012345678903'],
  ]) {
    for (const text of [first, second]) t.equal(bare((await parse({ connection }, text)).tree), bare(await direct(text)))
    t.equal(parsedBefore(third), undefined, third)
    t.equal(bare((await parse({ connection }, third)).tree), bare(await direct(third)))
  }
  t.equal(shapeOf("SELECT '\u0001literal 0'"), undefined, 'a literal that looks like a mark')
  for (const prefixed of ["SELECT U&'\\0063'", "SELECT u&'c'"]) t.equal(shapeOf(prefixed), undefined, 'it may have escapes')
  t.same(shapeOf("SELECT a &'c'")?.literals, ['c'])
})

t.test('random statements with other literals', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  const random = new Random(seed)
  const generator = new StatementGenerator(random, { measurements: new Map([['m', ['a', 'b']]]), pool: ['a', 'b', 'c', 'select', "it's"] })
  const literal = (): string =>
    random.pick([
      `'${random.pick(['', 'a', "''", '"', '--', '/*', ';', '$1', '\\', 'ü'])}'`,
      String(1_000_000_000 + random.below(1e9)),
      String(10n ** 10n + BigInt(random.below(1e9)) * 10n ** BigInt(random.below(9))),
    ])
  let known = 0
  for (let i = 0; i < 60; i++) {
    const text = generator.statement()
    // Numbers become literals of either kind.
    const parts = text.split(/(?<=[ (])\d(?=[ ,)])/)
    const filled = (): string => parts.reduce((all, part) => `${all}${literal()}${part}`)
    const [first, second, third] = [filled(), filled(), filled()]
    const read = (sql: string): Promise<string> =>
      parse({ connection }, sql).then(
        ({ tree }) => bare(tree),
        (error) => (error as Error).message,
      )
    await read(first)
    t.equal(await read(second), await direct(second).then(bare, () => read(second)), `SVC_SEED=${seed} ${second}`)
    if (parsedBefore(third) !== undefined) known++
    for (const text of [third, first]) t.equal(await read(text), await direct(text).then(bare, () => read(text)), `SVC_SEED=${seed} ${text}`)
  }
  t.ok(known > 0, `${known} of a known shape`)
})
