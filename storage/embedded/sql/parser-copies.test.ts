/** What DuckDB's parser writes out, or compares, is counted in the text before the parser has it. */
import t from 'tap'
import { parserCopies } from './parser-copies.ts'
import { openParser } from './testing/parser.ts'

const { treeOf, close } = await openParser()
t.teardown(close)

const MANY = 1e9
const copies = (text: string) => parserCopies(text, 1, MANY)
const repeats = (text: string, most: number): boolean => parserCopies(text, MANY, most).repeated > most

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
    t.notOk(repeats(nested(levels, arms), 6 * repeated + 1), `${levels} levels of ${arms}`)
    if (repeated > 0) t.ok(repeats(nested(levels, arms), repeated - 1), `${levels} levels of ${arms}: ${repeated}`)
  }
  t.ok(repeats(nested(40, 2), 1e9))
  t.ok(repeats(nested(9, 12), 1e9))
  t.notOk(repeats(`SELECT ${'CASE WHEN v > 1 THEN '.repeat(200)}1${' WHEN v > 2 THEN 2 END'.repeat(200)}`, 0), 'conditions are not')
  t.notOk(repeats(`SELECT ${'CASE v WHEN 1 THEN 2 ELSE '.repeat(200)}1${' END'.repeat(200)}`, 0), 'nor what stands behind ELSE')
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
      t.ok(repeats(text, 1e6), JSON.stringify(`${of}${blank}`))
    }
  }
})

const list = (count: number, one: (i: number) => string): string => Array.from({ length: count }, (_, i) => one(i)).join(', ')

t.test('a window is written out for each OVER', async (t) => {
  for (const over of ['w', '(w)', '(w ROWS 1 PRECEDING)', '/**/w', '"w"', '\u00a0w'])
    for (const between of ['FROM a', 'FROM a.window', 'FROM a AS "x"', 'FROM a -- a\n', 'FROM (SELECT 1 AS window) HAVING 1.']) {
      const text = `SELECT ${list(40, () => `max(v) OVER ${over}`)} ${between} WINDOW u AS (), w AS (PARTITION BY ${list(50, () => 'w')}) ORDER BY 1`
      const repeated = await repeatedIn(text)
      t.ok(repeated > 1900, `${text.slice(0, 40)}: ${repeated}`)
      t.ok(repeats(text, repeated - 1), `${over} ${between}`)
    }
  t.notOk(repeats(`SELECT ${list(40, () => 'max(v) OVER (ORDER BY v)')}, (SELECT 1 AS window), a.window FROM a`, 0), 'those of no name are not')
  t.notOk(repeats(`SELECT max(v) OVER w FROM a WINDOW w AS (ORDER BY v) ORDER BY f(${list(50, () => 'v')})`, 10), 'nor what stands behind')
  t.ok(repeats(`SELECT ${list(40, () => 'max(v) OVER w')} FROM a WINDOW w AS (PARTITION BY '${'x'.repeat(64_000)}')`, 40_000), 'long texts count for more')
})

/** Keys of all grouping sets, as the parser has them. */
async function membersIn(text: string): Promise<number> {
  const sets = [...(await treeOf(text)).matchAll(/"group_sets":(\[(?:\[[\d,]*\],?)*\])/g)]
  return sets.flatMap(([, found]) => JSON.parse(found) as number[][]).reduce((members, set) => members + set.length, 0)
}

t.test('keys of grouping sets are counted as often as the parser has them, or more', async (t) => {
  const sets = [
    ...['ROLLUP (a, b, c)', 'CUBE (a, b, c, d)', 'rollup(a, b), cube(c, d)', 'a, CUBE (b, c)', 'CUBE ((a, b), c)', 'GROUPING SETS (a, (a, b), ())'],
    ...[
      'GROUPING/**/SETS (ROLLUP (a, b), CUBE (c, d), e)',
      'GROUPING SETS (GROUPING SETS (a, ROLLUP (b, c)), d), CUBE (e, f)',
      'a IS DISTINCT FROM b, ROLLUP (c, d)',
    ],
    ...[
      'a.having, ROLLUP (b, c)',
      'a.group, CUBE (b, c)',
      '(SELECT 1 AS order), CUBE (b, c)',
      'a."limit", "cube"(a), CUBE (b, c)',
      'f(a, b), ROLLUP (f(c, d))',
    ],
  ]
  for (const group of ['GROUP BY', 'group/* a */by', 'GROUP\u00a0BY', '/**/GROUP -- a\nBY'])
    for (const each of sets)
      for (const text of [
        `SELECT 1 FROM a ${group} ${each}`,
        `SELECT 1 FROM a WHERE v > 1${group.startsWith('G') ? '' : ' '}${group} ${each} HAVING 1 = 1`,
        `SELECT 1 FROM a ${group} ${each} UNION ALL (SELECT 1 FROM a ${group} ${each})`,
        `SELECT (SELECT 1 ${group} ${each}) FROM (SELECT 1 ${group} ${each}) ${group} ${each}`,
      ]) {
        const members = await membersIn(text)
        t.ok(members > 0, text)
        const counted = copies(text).members
        t.ok(counted >= members && counted <= members * 6, `${text}: ${counted} for ${members}`)
      }
  t.equal(copies(`SELECT 1 GROUP BY ROLLUP (${list(999, (i) => `a${i}`)})`).members, 999_000)
  t.equal(copies(`SELECT 1 GROUP BY ${list(40, () => 'CUBE (a, b, c)')}`).members, 8 ** 40 * 120)
  t.equal(copies('SELECT rollup(1, 2), a.cube(3) FROM grouping GROUP BY a, b').members, 0)
})

t.test('keys of GROUP BY are counted wherever DuckDB finds them', (t) => {
  for (const text of [
    'SELECT 1 GROUP BY a, b, c',
    'SELECT 1GROUP BY a.having, b, c',
    'SELECT 1\u00a0GROUP\u00a0BY a IS DISTINCT FROM b, c, "order"',
    'SELECT 1 GROUP BY f(1, 2), (SELECT 1, 2), c',
  ])
    t.equal(copies(text).keys, 3, text)
  t.equal(copies('SELECT 1 GROUP BY a, b ORDER BY 1, 2, 3').keys, 2)
  t.equal(copies('SELECT 1, 2, 3').keys, 0)
  t.end()
})

t.test('what pivots is found, and no other name', (t) => {
  for (const text of [
    'PIVOT a ON b',
    'FROM (UNPIVOT a ON b INTO NAME c VALUE d)',
    'SELECT * FROM a/**/pivot (max(b) FOR c IN (1))',
    'FROM (PIVOT_WIDER a ON b)',
    'SELECT 1PIVOT',
  ])
    t.ok(copies(text).pivots, text)
  for (const text of ['SELECT a.pivot FROM a', 'SELECT 1 AS pivot', 'SELECT "pivot"', "SELECT 'pivot' -- pivot", 'SELECT pivots, $pivot'])
    t.notOk(copies(text).pivots, text)
  t.end()
})
