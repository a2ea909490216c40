import type { SeriesSet } from 'svcdb/lib/columns'
import t from 'tap'
import { LabelValues } from './label-values.ts'

const NONE = -1

/** Series of which each has the text of its code. */
function setOf(texts: readonly string[], ...codes: number[]): SeriesSet {
  const column = { codes: Int32Array.from(codes), texts }
  return { series: Int32Array.from(codes, (_, i) => i), tags: { length: codes.length, at: () => [], keys: () => ['host'], column: () => column } }
}

t.test('values come once, in order', async (t) => {
  const hosts = ['c', 'a', 'unused', 'b']
  const others = ['b', 'd']
  const values = new LabelValues('host')
  t.same(values.sorted(), [])
  t.ok(values.lacks(setOf(hosts, 0, 1, NONE)))
  values.add(setOf(hosts, 0, 1, 1, NONE))
  t.notOk(values.lacks(setOf(hosts, 1, 0)))
  t.ok(values.lacks(setOf(hosts, 1, 3)))
  t.ok(values.lacks(setOf(others, 0)))
  values.add(setOf(others, 0))
  t.notOk(values.lacks(setOf(hosts, 0, 1, 3)), 'known by its text')
  t.ok(values.lacks(setOf(others, 0, 1)))
  t.same(values.sorted(), ['a', 'b', 'c'])
  t.notOk(new LabelValues('dc').lacks(setOf(hosts, 0)), 'a label that the series do not have')
})

t.test('texts that grow stay in order', async (t) => {
  const texts = ['m', 'z', 'a']
  const all = (): readonly string[] => {
    const values = new LabelValues('host')
    values.add(setOf(texts, ...texts.keys()))
    return values.sorted()
  }
  t.same(all(), ['a', 'm', 'z'])
  t.same(all(), ['a', 'm', 'z'])
  texts.push('b', 'A')
  t.same(all(), ['A', 'a', 'b', 'm', 'z'])
  const values = new LabelValues('host')
  values.add(setOf(texts, 0, 1))
  texts.push('c')
  values.add(setOf(texts, 5))
  t.same(values.sorted(), ['c', 'm', 'z'], 'some of them only')
})

t.test('texts have the order of their UTF-8', async (t) => {
  const values = new LabelValues('host')
  values.add(setOf(['😀', '～', 'a'], 0, 1, 2))
  t.same(values.sorted(), ['a', '～', '😀'])
})
