/** LIKE on tags, as DuckDB reads it. */
import { DuckDBInstance } from '@duckdb/node-api'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { isQuickPattern, likeMatcher } from './like.ts'

const CHARACTERS = ['a', 'b', 'ä', '😀', '_', '%', '.', '*', '(', '[', '\n', '$', '^', '-', '/', '}', 'A']

t.test('a text is like a pattern where DuckDB says so', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  const random = seeded(seed)
  const text = (most: number): string =>
    Array.from({ length: Math.floor(random() * (most + 1)) }, () => CHARACTERS[Math.floor(random() * CHARACTERS.length)]).join('')
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  t.teardown(() => connection.closeSync())
  for (let i = 0; i < 150; i++) {
    const pattern = [random() < 0.3 ? '%' : '', text(3), random() < 0.6 ? '%' : ''].join('')
    const part = pattern.replaceAll('%', '')
    const values = [
      ...Array.from({ length: 30 }, () => text(4)),
      part,
      `${part}a`,
      `ä${part}`,
      `b${part}😀`,
      part.replaceAll('_', '😀'),
      `${part.replaceAll('_', 'ä')}\n`,
    ]
    const list = values.map((value) => `'${value}'`).join(', ')
    const rows = (await connection.runAndReadAll(`SELECT v LIKE '${pattern}' FROM (SELECT unnest([${list}]) AS v)`)).getRows()
    const found = values.map(likeMatcher(pattern))
    for (const [at, [like]] of rows.entries()) if (like !== found[at]) t.fail(`SVC_SEED=${seed}: ${JSON.stringify([values[at], pattern])}`)
  }
  t.pass(`SVC_SEED=${seed}`)
})

t.test('patterns of several parts, that the empty text fits or with a backslash are not quick', (t) => {
  for (const pattern of ['', '%', '%%', '%a_%', '%a%b%', 'a\\%', '\\']) t.notOk(isQuickPattern(pattern), pattern)
  for (const pattern of ['a', 'a%', '%a', '%a%', 'a_%', '_', '%a_', 'a%b', '%%a%%']) t.ok(isQuickPattern(pattern), pattern)
  t.end()
})

t.test('a text that is almost like a pattern takes no longer for it', (t) => {
  t.notOk(likeMatcher(`${'%a_'.repeat(40)}b`)('a'.repeat(50_000)))
  t.ok(likeMatcher('%a_'.repeat(40))('a'.repeat(50_000)))
  t.end()
})
