import t from 'tap'
import { Shared } from './layout.ts'
import { SeriesIndex } from './series-index.ts'

const newIndex = () => new SeriesIndex(new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4)), 1_000_000, () => {})
const REF = { id: 3, name: 'm' } as never

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
  const series = index.resolve(REF, ['zone', 'z', 'host', 'a'])
  t.equal(index.resolve(REF, ['host', 'a', 'zone', 'z']), series)
  const bytes = new TextEncoder().encode('zone=z,host=a')
  t.equal(index.resolveAscii(REF, bytes, Int32Array.of(0, 4, 5, 6, 7, 11, 12, 13), 2), series)
  t.same(index.tagsOf(series), ['host', 'a', 'zone', 'z'])
})

t.test('a series that was live and given back meanwhile is not given back again', async (t) => {
  const index = newIndex()
  const series = index.resolve(REF, ['host', 'a'])
  index.resolve(REF, ['host', 'b'])
  index.admit(series)
  // A drop, while a batch of somebody else keeps what is provisional from being given back.
  t.same([...index.release(Int32Array.of(series))], [series])
  index.releaseProvisional()
  t.equal(index.live, 0)
  t.equal(index.seriesOf((REF as { namespace: string }).namespace), 0)
})
