/** Texts on their way to DuckDB's lexer mean what they meant, whatever stands next to a comment. */
import { DuckDBInstance } from '@duckdb/node-api'
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { literal } from './ast.ts'
import { lexable, repeatsMore } from './lexable.ts'

const SEED = Number(process.env.SVC_SEED ?? 11)
const TEXTS = 1200

const instance = await DuckDBInstance.create(':memory:')
const connection = await instance.connect()
t.teardown(() => {
  connection.closeSync()
  instance.closeSync()
})

async function treeOf(text: string): Promise<string> {
  const rows = await (await connection.run(`SELECT json_serialize_sql(${literal(text)})`)).getRows()
  const tree = JSON.parse(String(rows[0][0]))
  // What an error quotes of the text is the text's.
  if (tree.error === true) return 'refused'
  return JSON.stringify(tree, (key, value) => (key === 'query_location' ? undefined : value))
}

/** Undefined where DuckDB's lexer could take another way than ours, or would take long. */
function madeOf(text: string): string | undefined {
  try {
    return lexable(text)
  } catch (error) {
    if (/"[^"]*[^\w]e" without a blank$|there is no operator/i.test((error as Error).message)) return undefined
    throw error
  }
}

const PARTS = [
  ...['/*', '*/', '/*', '*/', '/**/', '--', '\n', ' ', ' ', '\r', '/*/', '**/', '/***/', '//', '/', '*', '+', '-', '*-', '<', '=', '||', '->>', '@'],
  ...["'a'", "'", "''", "E'\\'", "e'", '"', '"b"', '$$', '$a$', '$', '$1', 'a', 'e', '1', '1.5', '1e', 'b', '(', ')', ',', '.', '\\', 'é', '?', ':', '::INT'],
]

t.test(`texts mean the same (seed ${SEED})`, async (t) => {
  const random = new Random(SEED)
  let changed = 0
  let read = 0
  for (let i = 0; i < TEXTS; i++) {
    let text = 'SELECT 1'
    for (let n = 1 + random.below(12); n > 0; n--) text += PARTS[random.below(PARTS.length)]
    if (i % 2 === 0) text += ' /* */ + 2'
    const made = madeOf(text)
    if (made === undefined) continue
    if (made !== text) changed++
    const tree = await treeOf(text)
    if (tree !== 'refused') read++
    if ((await treeOf(made)) !== tree) t.fail(`${JSON.stringify(text)} became ${JSON.stringify(made)}`)
  }
  t.ok(changed > TEXTS / 4 && read > TEXTS / 20, `${changed} were changed, ${read} are statements`)
})

t.test('what is quoted stays as it is', (t) => {
  for (const text of ["SELECT '/* a */'", 'SELECT "/* a */"', 'SELECT $$/* a */$$', 'SELECT $x$/* a */$$$x$', "SELECT E'\\'/* a */'", 'SELECT 1 -- /* a', '/*'])
    t.equal(lexable(text), text)
  t.equal(lexable('SELECT 1/* a /* b */ c */+ 2 /* d */'), 'SELECT 1/**/ + 2 /**/ ')
  t.equal(lexable(`SELECT '${'+-'.repeat(20)}' --${'-'.repeat(40)}`), `SELECT '${'+-'.repeat(20)}' --${'-'.repeat(40)}`)
  t.throws(() => lexable(`SELECT ${'+-'.repeat(5)}1`), /there is no operator "\+-\+-\+-\+-\.\.\."; write blanks between operators/)
  t.equal(lexable(`SELECT ${'+-'.repeat(4)}1`), `SELECT ${'+-'.repeat(4)}1`)
  t.end()
})

/** The words that DuckDB has beyond those of the text, about: constants and names of the tree. */
async function repeatedIn(text: string): Promise<number> {
  const leaves = (await treeOf(text)).match(/"class":"(?:CONSTANT|COLUMN_REF|PARAMETER)"/g)?.length ?? 0
  return leaves - (text.match(/\b(?:v|w|\d+)\b/g)?.length ?? 0)
}

t.test('what CASE compares is repeated for each WHEN', async (t) => {
  const nested = (levels: number, arms: number, within = 'v'): string => {
    return `SELECT ${'CASE '.repeat(levels)}${within}${` ${Array.from({ length: arms }, (_, i) => `WHEN ${i} THEN ${i}`).join(' ')} ELSE 0 END`.repeat(levels)}`
  }
  for (const [levels, arms] of [
    [1, 1],
    [1, 40],
    [3, 3],
    [6, 2],
  ]) {
    const repeated = await repeatedIn(nested(levels, arms))
    t.notOk(repeatsMore(nested(levels, arms), 6 * repeated + 1), `${levels} levels of ${arms}`)
    if (repeated > 0) t.ok(repeatsMore(nested(levels, arms), repeated - 1), `${levels} levels of ${arms}: ${repeated}`)
  }
  t.ok(repeatsMore(nested(40, 2), 1e9))
  t.ok(repeatsMore(nested(9, 12), 1e9))
  t.notOk(repeatsMore(`SELECT ${'CASE WHEN v > 1 THEN '.repeat(200)}1${' WHEN v > 2 THEN 2 END'.repeat(200)}`, 0), 'conditions are not')
  t.notOk(repeatsMore(`SELECT ${'CASE v WHEN 1 THEN 2 ELSE '.repeat(200)}1${' END'.repeat(200)}`, 0), 'nor what stands behind ELSE')
})

t.test('keywords of CASE are found wherever DuckDB finds them', async (t) => {
  for (const operand of [
    ...[
      'v.end',
      'v. end',
      'v./* a */end',
      'v.-- a\n end',
      '(SELECT 1 AS end)',
      '(SELECT 1 AS/**/when)',
      'v.as',
      'v.case',
      '$end',
      '$ end',
      '$as',
      '$1',
      '"end"',
      'v."end"',
      "'end'",
    ],
    ...[
      '1',
      '1.',
      '.5',
      '1.5e1',
      '1_0',
      "e'\\' end'",
      "x'41'",
      '[1][1:]',
      'END.end',
      '#1',
      '$$ end $$',
      '\u00a0v\u00a0',
      '\u3000v\u200b',
      '\u00e9end',
      'v$end',
      'list_transform([1], x -> x)',
    ],
  ]) {
    for (const blank of ['', ' ', '\u00a0', '/**/']) {
      const of = operand === 'END.end' ? 'CASE 1 WHEN 1 THEN 2END.end' : operand
      let text = `SELECT CASE ${of}${blank}WHEN 1THEN 2${blank}WHEN 3THEN 4END`
      if ((await treeOf(text)) === 'refused') continue
      text = `SELECT ${'CASE '.repeat(24)}${of}${`${blank}WHEN 1THEN 2${blank}WHEN 3THEN 4END `.repeat(24)}`
      t.ok(repeatsMore(text, 1e6), JSON.stringify(`${of}${blank}`))
    }
  }
})
