/** Answers for newest rows out of what is known of each series: which series count, how they are grouped, and in what order. */
import t from 'tap'
import type { NewestPlan, NewestValue } from './newest.ts'
import { type NewestTable, newestChunks } from './newest-answer.ts'

interface Tag {
  codes: readonly number[]
  texts: readonly string[]
}

/** Series that have a row each, but for those that are `unknown`. */
function tableOf(tags: Readonly<Record<string, Tag>>, unknown: readonly number[] = []): NewestTable {
  const series = Object.values(tags)[0].codes.length
  return {
    series,
    tag: (name) => ({ codes: Int32Array.from(tags[name].codes), texts: tags[name].texts }),
    rows: {
      known: Uint8Array.from({ length: series }, (_, i) => (unknown.includes(i) ? 0 : 1)),
      times: BigInt64Array.from({ length: series }, (_, i) => BigInt(i)),
      bits: new Int32Array(series * 2),
    },
    fields: new Map(),
  }
}

async function answer(table: NewestTable, by: readonly string[], values: readonly NewestValue[], order: NewestPlan['order'] = []): Promise<unknown[][]> {
  const outputs = values.map((value) => ({ name: value.kind, value, type: value.kind === 'tag' ? 'Utf8' : 'Int64' }))
  const plan: NewestPlan = { measurement: 'm', time: [0n, 100n], tags: [], by, fields: new Map(), outputs, order, offset: 0, limit: Number.POSITIVE_INFINITY }
  const rows: unknown[][] = []
  for await (const { rows: count, columns } of (await newestChunks(plan, table, false, undefined)) ?? [])
    for (let i = 0; i < count; i++)
      rows.push(
        columns.map(({ values, dictionary, validity }) =>
          validity?.[i] === 0 ? null : dictionary === undefined ? values[i] : dictionary[values[i] as number],
        ),
      )
  return rows
}

t.test('values of a tag are counted of series that have a row in the range', async (t) => {
  const table = tableOf({ host: { codes: [0, 1, -1, 0, 2], texts: ['a', 'b', 'c', 'unused'] } }, [1])
  t.same(await answer(table, [], [{ kind: 'count', name: 'host' }]), [[2n]])
})

t.test('groups are told apart by all of their tags, however many values these have', async (t) => {
  const texts = Array.from({ length: 5000 }, (_, i) => `v${i}`)
  const names = ['a', 'b', 'c', 'd', 'e']
  const last = texts.length - 1
  const tags = Object.fromEntries(names.map((name) => [name, { codes: name === 'e' ? [last, last - 1, last] : [last, last, last], texts }]))
  const all = await answer(
    tableOf(tags),
    names,
    names.map((name) => ({ kind: 'tag', name })),
  )
  t.same(
    all.map((row) => row.at(-1)),
    ['v4999', 'v4998'],
  )
})

t.test('null is before or behind all values of a tag', async (t) => {
  const table = tableOf({ host: { codes: [1, -1, 0], texts: ['a', 'b'] } })
  const host: NewestValue = { kind: 'tag', name: 'host' }
  for (const [descending, nullsFirst, expected] of [
    [false, false, ['a', 'b', null]],
    [false, true, [null, 'a', 'b']],
    [true, false, ['b', 'a', null]],
    [true, true, [null, 'b', 'a']],
  ] as const)
    t.same((await answer(table, ['host'], [host], [{ value: host, descending, nullsFirst }])).flat(), expected)
  const reversed = tableOf({ host: { codes: [-1, 1, 0], texts: ['a', 'b'] } })
  t.same((await answer(reversed, ['host'], [host], [{ value: host, descending: false, nullsFirst: false }])).flat(), ['a', 'b', null])
})
