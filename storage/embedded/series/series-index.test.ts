import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { ByteReader, ByteWriter } from '../../common/log/bytes.ts'
import { admitted, newIndex, ref } from '../testing/series.ts'
import { LoggedSeries } from '../wal/logged-series.ts'
import { NOT_DURABLE, UNKNOWN } from './provisional-series.ts'
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

t.test('series of the log are put back from its bytes as from texts', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  const random = seeded(seed)
  const below = (n: number): number => Math.floor(random() * n)
  const KEYS = ['a', 'host', 'k', 'zone', 'ä', '\uffff', '\u{1f600}', ...Array.from({ length: 80 }, (_, i) => `wide${i}`)]
  const [fromTexts, fromBytes] = [newIndex(), newIndex()]
  const out = new ByteWriter(1 << 16)
  const wanted = Array.from({ length: 400 }, (_, series) => {
    const few = random() < 0.95 ? 7 : KEYS.length
    const keys = KEYS.slice(0, few).filter(() => random() < 0.6)
    // An earlier server may have ordered keys differently.
    if (random() < 0.8) keys.sort()
    const measurement = below(3)
    return { series: series * 2, measurement, tags: keys.flatMap((key) => [key, ['', 'x', 'grün', `v${below(50)}`][below(4)]]) }
  })
  out.varint(wanted.length)
  for (const { series, measurement, tags } of wanted) {
    out.varint(series)
    out.varint(measurement)
    out.varint(tags.length / 2)
    for (const text of tags) out.text(text)
    fromTexts.restore(series, measurement, tags, () => new Map())
  }
  const logged = LoggedSeries.read(new ByteReader(out.bytes, 0, out.length))
  t.same([...logged], wanted)
  for (let i = 0; i < logged.length; i++) fromBytes.restoreLogged(logged.series(i), logged.measurement(i), logged.bytes, logged.tagsAt(i), () => new Map())
  const listed = (index: typeof fromTexts): unknown => Array.from({ length: index.count }, (_, series) => [index.measurementOf(series), index.tagsOf(series)])
  t.same(listed(fromBytes), listed(fromTexts), `SVC_SEED=${seed}`)
  for (const { series, measurement, tags } of wanted.slice(0, 50))
    t.equal(fromBytes.resolve(ref(measurement), tags), fromTexts.resolve(ref(measurement), tags), `series ${series} is found`)
  for (let end = 0; end < out.length; end += 97) t.throws(() => LoggedSeries.read(new ByteReader(out.bytes, 0, end)), RangeError, 'cut short')
  out.bytes.fill(0xff, 9, 12)
  t.throws(() => LoggedSeries.read(new ByteReader(out.bytes, 0, out.length)), 'not UTF-8')
})

t.test('handles of refused series are called in although batches overlap, but those that a batch has rows of', (t) => {
  const index = newIndex()
  const batchOf = (...series: number[]) => ({ tables: [{ rows: series.length, series: Int32Array.from(series) }] })
  let end = FIRST_HANDLE
  let before = FIRST_HANDLE
  let first = 0
  for (let i = 1; i <= 2 ** 21; i++) {
    const handle = index.resolve(REF, ['host', String(i)])
    first ||= handle
    if (i % 8192 !== 0) continue
    index.dropUnnamed(end, [batchOf(before, handle)])
    index.releaseProvisional(false)
    if (index.numberOf(before) !== NOT_DURABLE) t.fail(`round ${i}`)
    end = index.nextHandle
    before = handle
  }
  t.equal(index.numberOf(first), UNKNOWN)
  t.ok(index.memory < 8 << 20, `${index.memory} bytes`)
  t.end()
})
