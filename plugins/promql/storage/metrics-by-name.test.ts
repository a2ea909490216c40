import t from 'tap'
import type { Metric } from './metric-catalog.ts'
import { metricsByName } from './metrics-by-name.ts'

const metrics = (...names: string[]): Metric[] => names.map((name) => ({ name }) as Metric)

t.test('lists are gone through together, in the order of names', async (t) => {
  const lists = [
    { metrics: metrics('c'), of: 1 },
    { metrics: metrics(), of: 2 },
    { metrics: metrics('a', 'b', 'b', 'd'), of: 3 },
    { metrics: metrics('b', 'c', 'e'), of: 4 },
    { metrics: metrics('a'), of: 5 },
  ]
  const seen = [...metricsByName(lists)].map((same) => [
    [...new Set(same.map(({ metric }) => metric.name))].join(),
    same
      .map(({ of }) => of)
      .sort()
      .join(),
  ])
  t.same(seen, [
    ['a', '3,5'],
    ['b', '3,3,4'],
    ['c', '1,4'],
    ['d', '3'],
    ['e', '4'],
  ])
  t.same([...metricsByName([])], [])
})
