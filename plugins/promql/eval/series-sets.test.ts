import t from 'tap'
import { LabelList, type LabelSets, Labels } from '../labels.ts'
import { firstOfGroups, groupByLabels, labelNames, SomeSeries, someOf } from './series-sets.ts'
import { BothSeries, ChangedSeries, changeLabels } from './series-views.ts'

function random(seed: number): () => number {
  let state = seed
  return () => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 31
}

function someLabels(count: number, seed: number): LabelList {
  const next = random(seed)
  const value = () => ['', '1', '2', '3'][Math.floor(next() * 4)]
  return new LabelList(Array.from({ length: count }, () => Labels.of({ a: value(), b: value(), c: value() })))
}

t.test('groups are those of the labels themselves', async (t) => {
  for (const names of [[], ['a'], ['b', 'c'], ['a', 'b', 'c'], ['none'], ['a', 'none']]) {
    const sets = [someLabels(50, 1), someLabels(30, 2)]
    const { ordinals, count } = groupByLabels(sets, names)
    const keys = new Map<number, string>()
    for (const [s, set] of sets.entries()) {
      for (let i = 0; i < set.length; i++) {
        const key = set.at(i).keep(new Set(names)).key
        const known = keys.get(ordinals[s][i])
        t.ok(known === undefined || known === key, 'one group, one key')
        keys.set(ordinals[s][i], key)
      }
    }
    t.equal(new Set(keys.values()).size, count, 'one key, one group')
    t.equal(keys.size, count)
  }
})

t.test('sets that have their texts in common, to which one is added', async (t) => {
  const texts = ['1', '2']
  const list = someLabels(3, 1)
  const set = (codes: number[], before = () => {}): LabelSets => ({
    distinct: false,
    length: codes.length,
    at: (i) => list.at(i),
    column: () => {
      before()
      return { codes: Int32Array.from(codes), texts }
    },
  })
  const { ordinals, count } = groupByLabels([set([0, 1, -1]), set([2, 1, 0], () => texts.push('3'))], ['a'])
  t.same(
    ordinals.map((own) => [...own]),
    [
      [0, 1, 2],
      [3, 1, 0],
    ],
  )
  t.equal(count, 4)
})

t.test('groups are numbered as they come up', async (t) => {
  const set = new LabelList(['x', 'y', 'x', 'z'].map((a) => Labels.of({ a })))
  const { ordinals, count } = groupByLabels([set], ['a'])
  t.same([...ordinals[0]], [0, 1, 0, 2])
  t.same([...firstOfGroups(ordinals[0], count)], [0, 1, 3])
  t.equal(groupByLabels([new LabelList([])], ['a']).count, 0)
})

t.test('views agree with the labels they stand for', async (t) => {
  const base = someLabels(40, 3)
  const other = someLabels(40, 4)
  const both = new BothSeries(base, other, Int32Array.of(4, 7))
  const change = { keep: new Set(['a', 'c']), drop: new Set(['c']), include: ['b'] }
  const views = [
    new SomeSeries(base, Int32Array.of(3, 1, 39)),
    new SomeSeries(
      base,
      Int32Array.from({ length: 20 }, (_, i) => 2 * i),
    ),
    new BothSeries(base, other, Int32Array.of(1, 5)),
    new ChangedSeries(base, other, change),
    new ChangedSeries(base, other, { drop: new Set(['a']), include: [] }),
    new BothSeries(
      both,
      both,
      Int32Array.from({ length: 20 }, (_, i) => i + 20),
    ),
    new BothSeries(both, someOf(other, Int32Array.of(2, 3)), Int32Array.of(0, 1)),
  ]
  for (const view of views) {
    const names = new Set(labelNames(view))
    for (const name of ['a', 'b', 'c', 'none']) {
      const { codes, texts } = view.column(name)
      t.equal(codes.length, view.length)
      for (let i = 0; i < view.length; i++) {
        const value = codes[i] < 0 ? '' : texts[codes[i]]
        t.equal(value, view.at(i).get(name))
        t.ok(value === '' || names.has(name))
      }
    }
  }
  t.same(views[3].at(0).toJSON(), changeLabels(base.at(0), other.at(0), change).toJSON())
})

t.test('of many names those that no series has are not looked at', async (t) => {
  const asked: string[] = []
  class Watched extends LabelList {
    override column(name: string) {
      asked.push(name)
      return super.column(name)
    }
  }
  const set = new Watched([Labels.of({ a: '1', b: '2' }), Labels.of({ a: '2' })])
  const none = Array.from({ length: 1000 }, (_, i) => `none${i}`)
  t.same(groupByLabels([set], [...none, 'a', 'a']).ordinals, [Int32Array.of(0, 1)])
  t.same(asked, ['a'])
})
