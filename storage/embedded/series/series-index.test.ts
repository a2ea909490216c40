import t from 'tap'
import { admitted, newIndex, ref } from '../testing/series.ts'
import { FIRST_HANDLE } from './series-index.ts'
import type { TupleTable } from './tuple-table.ts'

const REF = ref(3)

t.test('each series that is put back is live, those at which arrays grow too', async (t) => {
  const index = newIndex()
  for (let series = 0; series < 5000; series++) index.restore(series, 3, ['host', `h${series}`], () => new Map())
  t.equal(index.live, 5000)
  t.same(
    Array.from({ length: 5000 }, (_, series) => series).filter((series) => !index.isLive(series)),
    [],
  )
  t.equal(index.release(Int32Array.from({ length: 5000 }, (_, series) => series)).length, 5000)
  t.equal(index.live, 0)
})

t.test('a series is found again by its tags in any order, by text and by bytes', async (t) => {
  const index = newIndex()
  const bytes = new TextEncoder().encode('zone=z,host=a')
  const found = () => [
    index.resolve(REF, ['zone', 'z', 'host', 'a']),
    index.resolve(REF, ['host', 'a', 'zone', 'z']),
    index.resolveAscii(REF, bytes, Int32Array.of(0, 4, 5, 6, 7, 11, 12, 13), 2),
  ]
  const [handle] = found()
  t.ok(handle >= FIRST_HANDLE)
  t.same(found(), [handle, handle, handle])
  const series = index.promote(handle)
  t.same(found(), [handle, handle, handle], 'not durable yet')
  index.publish(series)
  t.same(found(), [series, series, series])
  index.releaseProvisional(true)
  t.same(found(), [series, series, series])
  t.same(index.tagsOf(series), ['host', 'a', 'zone', 'z'])
})

t.test('what is provisional goes when nobody can hold it, and what became durable stays', async (t) => {
  const index = newIndex()
  const series = admitted(index, REF, ['host', 'a'])
  index.publish(series)
  index.resolve(REF, ['host', 'b'])
  t.equal(index.seriesOf('default'), 2)
  const { epoch } = index
  index.releaseProvisional(true)
  t.equal(index.seriesOf('default'), 1)
  t.ok(index.epoch > epoch)
  t.same([...index.release(Int32Array.of(series))], [series])
  t.equal(index.live, 0)
  t.equal(index.seriesOf('default'), 0)
})

t.test('series that come and go do not make the table of slots grow', async (t) => {
  const index = newIndex({ hashKey: { low: 1, high: 2 } })
  const { tuples } = index as unknown as { tuples: TupleTable }
  let before: Int32Array = new Int32Array(0)
  for (let round = 0; round < 100; round++) {
    const numbers = Int32Array.from({ length: 500 }, (_, i) => admitted(index, REF, ['pod', `${round}-${i}`]))
    index.publish(index.count - 1)
    index.release(before)
    index.releaseProvisional(true)
    before = numbers
    for (const [i, number] of numbers.entries()) if (index.resolve(REF, ['pod', `${round}-${i}`]) !== number) t.fail(`${round}-${i}`)
  }
  t.equal(index.live, 500)
  t.equal(index.count, 50_000)
  t.ok(tuples.slots.length <= 4096, `${tuples.slots.length} slots for 1,000 series at once`)
  t.ok(tuples.slots.filter((slot) => slot !== 0).length < tuples.slots.length / 2, 'searches end')
})

t.test('keys are ordered by their texts, not by what the numbers of others stood for', async (t) => {
  const index = newIndex()
  const resolve = (text: string) => index.resolveAscii(REF, new TextEncoder().encode(text), Int32Array.of(0, 1, 1, 2, 2, 3, 3, 4), 2)
  resolve('b1a1')
  index.releaseProvisional(true)
  const series = index.promote(resolve('c1d1'))
  t.same(index.tagsOf(series), ['c', '1', 'd', '1'])
  t.equal(index.numberOf(index.resolve(REF, ['d', '1', 'c', '1'])), series)
})
