import t from 'tap'
import { LabelList, Labels } from '../labels.ts'
import { compareLabels, orderOf } from './series-order.ts'

t.test('by names and values, the shorter set first', async (t) => {
  const sets = [{}, { a: '1' }, { a: '1', b: '0' }, { a: '1', b: '1' }, { a: '10' }, { a: '2' }, { a: '～' }, { a: '😀' }, { b: '0' }].map((labels) =>
    Labels.of(labels as Record<string, string>),
  )
  for (const [i, a] of sets.entries()) for (const [j, b] of sets.entries()) t.equal(Math.sign(compareLabels(a, b)), Math.sign(i - j), `${a.key} ${b.key}`)
})

t.test('the first of many, whatever order they come in', async (t) => {
  const name = (i: number): string => String(i).padStart(5, '0')
  let seed = 3
  const shuffled = Array.from({ length: 9000 }, (_, i) => ({ i, at: (seed = (seed * 48271) % 2147483647) })).sort((a, b) => a.at - b.at)
  for (const list of [shuffled.map(({ i }) => i), Array.from({ length: 9000 }, (_, i) => i), Array.from({ length: 9000 }, (_, i) => 8999 - i)]) {
    const sets = new LabelList(list.map((i) => Labels.of({ n: name(i) })))
    for (const limit of [1, 10, 4000, 4500, 5000]) {
      const { list: kept, truncated } = orderOf(sets, (series) => list[series] % 2 === 1, limit)
      const length = Math.min(limit, 4500)
      t.same(
        kept.map(({ labels }) => labels.get('n')),
        Array.from({ length }, (_, i) => name(2 * i + 1)),
      )
      t.ok(kept.every(({ series, labels }) => sets.at(series) === labels))
      t.equal(truncated, limit < 4500)
    }
  }
})
