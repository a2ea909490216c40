import t from 'tap'
import { groupingOf } from './groups.ts'
import type { LaneRows } from './host.ts'
import type { GroupsPlan } from './plan.ts'

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
