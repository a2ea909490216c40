/** Which series the conditions of a statement leave, and what it takes to find them. */
import t from 'tap'
import type { SeriesView } from '../series/series-view.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import { hintedSeries } from './hinted-series.ts'

t.test('the series of a tag are looked for once, however many conditions there are on it', (t) => {
  const asked: [key: number, values: readonly string[]][] = []
  const view = {
    tagKeys: () => ['host', 'region'],
    keySymbol: (_: number, key: string) => ['host', 'region'].indexOf(key),
    of: () => Int32Array.of(1, 2, 3),
    withTag(_: number, series: Int32Array, key: number, values: readonly string[]) {
      asked.push([key, values])
      return values.length === 0 ? new Int32Array(0) : series.subarray(1)
    },
  } as unknown as SeriesView
  const measurement = { id: 1, name: 'cpu', fields: [], tables: [] } as unknown as MeasurementDef
  const found = (...hints: [tag: string, ...values: string[]][]) => {
    asked.length = 0
    return hintedSeries(
      view,
      measurement,
      hints.map(([tag, ...values]) => ({ tag, values })),
    )
  }
  t.equal(found(), undefined)
  t.same(found(['host', 'a', 'b'], ['region', 'eu'], ['host', 'b', 'c'], ['none', 'x'], ['host', 'b']), Int32Array.of(3))
  t.same(asked, [
    [0, ['b']],
    [1, ['eu']],
  ])
  t.same(found(['host', 'a'], ['host', 'b']), new Int32Array(0))
  t.same(asked, [[0, []]])
  t.end()
})
