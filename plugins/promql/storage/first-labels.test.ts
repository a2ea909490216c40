import type { Reader } from 'svcdb'
import t from 'tap'
import { storageDiscovery } from '../discover.ts'
import { Pacer } from '../eval/context.ts'
import { compareLabels } from '../http/series-order.ts'
import { LabelList, Labels } from '../labels.ts'
import { firstLabels } from './first-labels.ts'

const { signal } = new AbortController()
const name = (i: number): string => String(i).padStart(6, '0')

t.test('the first of many, each once, whatever order they come in', async (t) => {
  let seed = 7
  const random = (below: number): number => (seed = (seed * 48271) % 2147483647) % below
  for (const length of [0, 1, 1023, 1024, 1025, 9000]) {
    const orders = [(i: number) => i, (i: number) => length - i, () => random(length), (i: number) => i % 7]
    for (const order of orders) {
      const list = Array.from({ length }, (_, i) => Labels.of({ n: name(order(i)), ...(order(i) % 3 === 0 && { b: 'x' }) }))
      const all = [...new Map(list.map((labels) => [labels.key, labels])).values()].sort(compareLabels).map(({ key }) => key)
      for (const most of [1, 2, 1024, 5000, Number.POSITIVE_INFINITY]) {
        const first = await firstLabels(new LabelList(list), most, new Pacer(signal))
        t.same(
          first.map(({ key }) => key),
          all.slice(0, most),
        )
      }
    }
  }
})

t.test('a metric of many series is ordered in turns: who has left is heard', async (t) => {
  const length = 300_000
  const set = { series: { length } as never, tags: { keys: () => ['n'], at: (i: number) => ['n', name(length - i)] } }
  const reader = {
    schema: async () => [{ name: 'm', fields: [{ name: 'value', type: 'float64' }] }],
    samples: async () => set,
    activeSeries: async () => set,
  } as unknown as Reader
  const controller = new AbortController()
  setImmediate(() => controller.abort())
  const series = storageDiscovery(reader, 'default').series({ selectors: [], start: 0, end: 1, limit: 2, signal: controller.signal })
  await t.rejects(series[Symbol.asyncIterator]().next(), { name: 'QueryStoppedError' })
})
