/** Patterns of LIKE, as DuckDB has them. */
import { DuckDBInstance } from '@duckdb/node-api'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { likeMatcher } from './conditions.ts'
import { groupingOf } from './groups.ts'
import type { LaneRows } from './host.ts'
import type { GroupsPlan } from './plan.ts'

const { SVC_SEED } = process.env
const seed = SVC_SEED === undefined ? Date.now() % 1e9 : Number(SVC_SEED)

t.test('a text is like a pattern where DuckDB says so', async (t) => {
  const random = new Random(seed)
  const instance = await DuckDBInstance.create()
  const connection = await instance.connect()
  t.teardown(() => {
    connection.closeSync()
    instance.closeSync()
  })
  const letters = ['a', 'b', 'ä', '😀', '\u{1F1E9}', '_', '\\', "'"]
  const made = (of: readonly string[], most: number): string => Array.from({ length: random.below(most) }, () => random.pick(of)).join('')
  const pairs = Array.from({ length: 4000 }, () => [made([...letters, '%'], 7), made(['%', '%', '_', 'a', 'b', 'ä', '😀', '\\', "'"], 6)])
  const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`
  const values = pairs.map(([text, pattern], i) => `(${i}, ${quoted(text)}, ${quoted(pattern)})`).join(', ')
  const reader = await connection.runAndReadAll(`SELECT a LIKE b FROM (VALUES ${values}) v(i, a, b) ORDER BY i`)
  const wrong = reader.getRows().flatMap(([like], i) => (likeMatcher(pairs[i][1])(pairs[i][0]) === like ? [] : [{ pair: pairs[i], like }]))
  t.same(wrong.slice(0, 5), [], `SVC_SEED=${seed}`)
})

t.test('a pattern that matches almost takes no longer for it', (t) => {
  t.notOk(likeMatcher(`${'%a_'.repeat(40)}b`)('a'.repeat(50_000)))
  t.ok(likeMatcher(`${'%a_'.repeat(40)}`)('a'.repeat(50_000)))
  t.end()
})

t.test('patterns that would take long are left to DuckDB', (t) => {
  const texts = Array.from({ length: 1000 }, (_, i) => 'a'.repeat(1000) + i)
  const rows = { series: texts.length, tag: () => ({ codes: Int32Array.from(texts.keys()), texts }) } as unknown as LaneRows
  const grouped = (like: string) =>
    groupingOf({ keys: [], aggregates: [], tagFilters: [{ tag: 'host', is: { like }, negated: false }] } as unknown as GroupsPlan, rows, [0, 1])
  t.equal(grouped('%a7')?.groupOf.filter((group) => group === 0).length, 1)
  t.equal(grouped(`%${'a_'.repeat(30)}%`)?.groupOf.includes(-1), false)
  t.equal(grouped(`%${'a_'.repeat(40)}%`), undefined)
  t.end()
})
