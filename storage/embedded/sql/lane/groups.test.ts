import t from 'tap'
import { groupingOf } from './groups.ts'
import type { LaneRows } from './host.ts'
import type { Expression, GroupsPlan } from './plan.ts'

t.test('patterns that would take long are left to DuckDB', (t) => {
  const texts = Array.from({ length: 1000 }, (_, i) => 'a'.repeat(1000) + i)
  const rows = { series: texts.length, tag: () => ({ codes: Int32Array.from(texts.keys()), texts }) } as unknown as LaneRows
  const grouped = (...patterns: string[]) => {
    const tagFilters = patterns.map((like) => ({ tag: 'host', is: { like }, negated: false }))
    return groupingOf({ keys: [], aggregates: [], expressions: [], tagFilters } as unknown as GroupsPlan, rows, [0, 1])
  }
  t.equal(grouped('%a7')?.groupOf.filter((group) => group === 0).length, 1)
  t.equal(grouped(`%${'a_'.repeat(30)}%`)?.groupOf.includes(-1), false)
  t.equal(grouped(`%${'a_'.repeat(40)}%`), undefined)
  t.equal(grouped(...Array.from({ length: 3 }, () => `%${'a_'.repeat(15)}%`)), undefined, 'several take as long as one')
  t.end()
})

t.test('groups of more numbers than are taken, arithmetic among them, are left to DuckDB', (t) => {
  const rows = { series: 1, tag: () => undefined } as unknown as LaneRows
  const one: Expression = { kind: 'aggregate', aggregate: 0 }
  const sum = (steps: number): Expression => (steps <= 1 ? one : { kind: 'call', name: '+', operands: [one, sum(steps - 2)] })
  const grouped = (more: object) =>
    groupingOf(
      { keys: [{ kind: 'bucket', step: 1, anchor: 0 }], aggregates: [{ kind: 'avg' }], expressions: [], tagFilters: [], ...more } as unknown as GroupsPlan,
      rows,
      [0, 999_999],
    )
  t.equal(grouped({})?.buckets.count, 1_000_000)
  t.equal(grouped({ expressions: [sum(3)] }), undefined)
  t.equal(grouped({ aggregates: [{ kind: 'first' }, { kind: 'last' }] }), undefined)
  t.end()
})
