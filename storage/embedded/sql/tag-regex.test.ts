/** Regular expressions on tags, as DuckDB reads them. */
import { DuckDBInstance } from '@duckdb/node-api'
import { seeded } from 'svcdb/lib/random'
import { TextPattern } from 'svcdb/lib/regex'
import t from 'tap'
import { exactRegex } from './tag-regex.ts'

const CHARACTERS = ['a', 'b', 'web', '-', '1', '7', 'ä', '😀', '_', '.', ' ', '\n', '\r', '\u2028', 'A', '|', '*', '\\']
const TOKENS = [
  'a',
  'b',
  'web-',
  '.',
  '.',
  '[ab]',
  '[^a]',
  '[0-9]',
  '[a-z_.-]',
  '\\.',
  '\\d',
  '\\w',
  '\\|',
  'ä',
  '😀',
  '*',
  '+',
  '?',
  '(',
  ')',
  '|',
  '^',
  '$',
  '-',
  '{',
  ']',
  '\\b',
  '(?i)',
]

t.test('a text matches where DuckDB says so', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  const random = seeded(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const many = (list: readonly string[], most: number): string => Array.from({ length: Math.floor(random() * (most + 1)) }, () => pick(list)).join('')
  const group = (): string => `(${many(TOKENS.slice(0, 15), 3)}|${many(TOKENS.slice(0, 15), 2)})`
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  t.teardown(() => connection.closeSync())
  const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`
  let exact = 0
  for (let i = 0; i < 400; i++) {
    const inner = random() < 0.4 ? many(TOKENS, 4) : `${many(TOKENS.slice(0, 18), 3)}${random() < 0.5 ? group() : ''}${many(TOKENS.slice(0, 18), 2)}`
    const pattern = `${random() < 0.3 ? '^' : ''}${inner}${random() < 0.3 ? '$' : ''}`
    const values = [...Array.from({ length: 30 }, () => many(CHARACTERS, 5)), 'web-1', 'web-17.b', 'aweb-', 'a\nb', `${inner}`, 'ab', 'ba']
    const [name, whole] = pick([
      ['regexp_full_match', true],
      ['regexp_matches', false],
    ] as const)
    const regex = exactRegex(pattern, whole)
    if (regex === undefined) continue
    exact++
    const rows = (
      await connection.runAndReadAll(`SELECT ${name}(v, ${quoted(pattern)}) FROM (SELECT unnest([${values.map(quoted).join(', ')}]) AS v)`)
    ).getRows()
    const found = new TextPattern(regex).flags(values)
    for (const [at, [matches]] of rows.entries())
      if (matches !== (found[at] === 1)) t.fail(`SVC_SEED=${seed}: ${name} ${JSON.stringify([values[at], pattern, regex])} ${matches}`)
  }
  t.ok(exact > 40, `${exact} of 400, SVC_SEED=${seed}`)
})

t.test("what may read otherwise, matches the empty text or takes long is DuckDB's", (t) => {
  for (const pattern of [
    '',
    '.*',
    'a*',
    '(?i)a',
    'a{2}',
    '\\ba',
    '^a|b',
    'a|b$',
    'a^b',
    '(a+)+',
    'a.*b.*c',
    '(a|aa)(a|aa)(a|aa)(a|aa)(a|aa)b',
    'a)(b',
    ')a(',
    '[[:alpha:]]',
    '[\\d]',
    '(',
    'a)',
    '*a',
    'a**',
    '\\',
    'x'.repeat(300),
    'a|',
  ])
    t.equal(exactRegex(pattern, true), undefined, pattern)
  for (const pattern of ['a.*b', '[0-9]+$', 'a*.*', 'a|b|c|d|e|f|g|h|i']) t.equal(exactRegex(pattern, false), undefined, `${pattern} anywhere`)
  for (const [pattern, whole, exact] of [
    ['^(web|db)-[0-9]+$', false, '(?:(web|db)-[0-9]+)'],
    ['^web', false, '(?:web).*'],
    ['a|b', false, '.*(?:a|b).*'],
    ['a.c', true, '(?:a[^\\n]c)'],
    ['.*-eu-.*', true, '(?:[^\\n]*-eu-[^\\n]*)'],
    ['web-[0-9]+', false, '.*(?:web-[0-9]+).*'],
    ['cost\\$', true, '(?:cost\\$)'],
  ] as const)
    t.equal(exactRegex(pattern, whole), exact, pattern)
  t.end()
})
