import { Turn } from 'svcdb/lib/event-loop'
import t from 'tap'
import { groupingOf } from './groups.ts'
import type { LaneRows } from './host.ts'
import type { Expression, GroupsPlan } from './plan.ts'

t.test('patterns that would take long are left to DuckDB', async (t) => {
  const texts = Array.from({ length: 1000 }, (_, i) => 'a'.repeat(1000) + i)
  const rows = { series: texts.length, tag: () => ({ codes: Int32Array.from(texts.keys()), texts }) } as unknown as LaneRows
  const grouped = (...patterns: string[]) => {
    const tagFilters = patterns.map((like) => ({ tag: 'host', is: { like }, negated: false }))
    return groupingOf(
      { keys: [], aggregates: [], conditions: [], expressions: [], having: [], order: [], tagFilters } as unknown as GroupsPlan,
      rows,
      [0, 1],
      new Turn(),
    )
  }
  t.equal((await grouped('%a7'))?.groupOf.filter((group) => group === 0).length, 1)
  t.equal((await grouped(`%${'a_'.repeat(30)}%`))?.groupOf.includes(-1), false)
  t.equal(await grouped(`%${'a_'.repeat(40)}%`), undefined)
  t.equal(await grouped(...Array.from({ length: 3 }, () => `%${'a_'.repeat(15)}%`)), undefined, 'several take as long as one')
})

t.test('values that are left out are looked up, and very many conditions are left to DuckDB', async (t) => {
  const texts = Array.from({ length: 100_000 }, (_, i) => `a${i}`)
  const rows = { series: texts.length, tag: () => ({ codes: Int32Array.from(texts.keys()), texts }) } as unknown as LaneRows
  const grouped = (conditions: number, values: number) => {
    const oneOf = texts.slice(0, values)
    const tagFilters = Array.from({ length: conditions }, () => ({ tag: 'host', is: { oneOf }, negated: true }))
    return groupingOf(
      { keys: [], aggregates: [], conditions: [], expressions: [], having: [], order: [], tagFilters } as unknown as GroupsPlan,
      rows,
      [0, 1],
      new Turn(),
    )
  }
  const used = process.threadCpuUsage()
  t.equal((await grouped(1, 50_000))?.groupOf.filter((group) => group === 0).length, 50_000)
  t.ok(process.threadCpuUsage(used).user < 2_000_000, 'not each compared with each')
  t.equal((await grouped(40, 1))?.groupOf.filter((group) => group === 0).length, 99_999)
  t.equal(await grouped(100, 1), undefined)
})

t.test('others have their turns while series are looked for and groups are divided', async (t) => {
  const texts = Array.from({ length: 100_000 }, (_, i) => `a${i}`)
  const rows = { series: texts.length, tag: () => ({ codes: Int32Array.from(texts.keys()), texts }) } as unknown as LaneRows
  const turnsOf = async (more: object): Promise<number> => {
    let turns = 0
    const turn = { isOver: true, next: async () => turns++ } as unknown as Turn
    const plan = { keys: [], aggregates: [], conditions: [], expressions: [], having: [], order: [], tagFilters: [], ...more } as unknown as GroupsPlan
    t.ok(await groupingOf(plan, rows, [0, 1], turn))
    return turns
  }
  const tagFilters = [{ tag: 'host', is: { oneOf: ['a1'] }, negated: true }]
  const one = await turnsOf({ tagFilters })
  t.ok(one > 4, 'one condition')
  t.equal(await turnsOf({ conditions: Array.from({ length: 16 }, () => ({ tagFilters })) }), 16 * one, 'conditions of aggregates')
  t.ok((await turnsOf({ tagFilters: [{ tag: 'host', is: { like: '%a_a_a_a%' }, negated: true }] })) > 4 * one, 'a pattern takes longer')
  t.ok((await turnsOf({ keys: [{ kind: 'tag', tag: 'host' }] })) > 4, 'a key')
  t.ok((await turnsOf({ aggregates: [{ kind: 'distinct', tag: 'host' }] })) > 16, 'values that are counted')
})

t.test('groups of more numbers than are taken, arithmetic among them, are left to DuckDB', async (t) => {
  const rows = { series: 1, tag: () => undefined } as unknown as LaneRows
  const one: Expression = { kind: 'aggregate', aggregate: 0 }
  const sum = (steps: number): Expression => (steps <= 1 ? one : { kind: 'call', name: '+', operands: [one, sum(steps - 2)] })
  const grouped = (more: object) =>
    groupingOf(
      {
        keys: [{ kind: 'bucket', step: 1, anchor: 0 }],
        aggregates: [{ kind: 'avg' }],
        conditions: [],
        expressions: [],
        having: [],
        order: [],
        tagFilters: [],
        ...more,
      } as unknown as GroupsPlan,
      rows,
      [0, 999_999],
      new Turn(),
    )
  t.equal((await grouped({}))?.buckets.count, 1_000_000)
  t.equal(await grouped({ expressions: [sum(3)] }), undefined)
  t.equal(await grouped({ order: Array.from({ length: 40 }, () => ({})) } as unknown as Partial<GroupsPlan>), undefined)
  t.equal(await grouped({ aggregates: [{ kind: 'first' }, { kind: 'last' }] }), undefined)
})

t.test('groups divided by very many values of tags, and very often, are left to DuckDB', async (t) => {
  const texts = Array.from({ length: 100_000 }, (_, i) => `a${i}`)
  const rows = { series: texts.length, tag: () => ({ codes: Int32Array.from(texts.keys()), texts }) } as unknown as LaneRows
  const grouped = (tags: number, milliseconds: number) =>
    groupingOf(
      {
        keys: [{ kind: 'bucket', step: 1, anchor: 0 }],
        aggregates: Array.from({ length: tags }, () => ({ kind: 'distinct', tag: 'host' })),
        conditions: [],
        expressions: [],
        having: [],
        order: [],
        tagFilters: [],
      } as unknown as GroupsPlan,
      rows,
      [0, milliseconds - 1],
      new Turn(),
    )
  t.equal((await grouped(1, 1))?.finer[0]?.parents.length, 100_000)
  t.ok(await grouped(1, 40))
  t.equal(await grouped(1, 42), undefined, 'more cells than are taken')
  t.ok(await grouped(8, 1))
  t.equal(await grouped(11, 1), undefined, 'they would take long')
})
