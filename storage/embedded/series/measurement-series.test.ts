/** Lists of live series by measurement and uses of tag keys, against plain sets; and walks over the lists while they change. */
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { KeyUses } from './key-uses.ts'
import { MeasurementSeries } from './measurement-series.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

/** Each series has one or two tags: their keys follow from its number. */
function tagArrays(count: number) {
  const offsets = new Int32Array(count + 1)
  const tags: number[] = []
  for (let series = 0; series < count; series++) {
    tags.push(series % 3, 100)
    if (series % 2 === 0) tags.push(10 + (series % 25), 100)
    offsets[series + 1] = tags.length
  }
  return { offsets, tags: Int32Array.from(tags) }
}
const keysOf = (series: Iterable<number>): number[] =>
  [...new Set([...series].flatMap((n) => (n % 2 === 0 ? [n % 3, 10 + (n % 25)] : [n % 3])))].sort((a, b) => a - b)

function walked(lists: MeasurementSeries, measurement: number, max: number): number[] {
  const cursor = lists.walk(measurement)
  const out: number[] = []
  while (!lists.ended(cursor)) out.push(...lists.take(cursor, max))
  return out
}

t.test(`lists and keys follow what comes and goes, SVC_SEED=${seed}`, async (t) => {
  const random = new Random(seed)
  const count = 3000
  const tags = tagArrays(count)
  const lists = new MeasurementSeries()
  const uses = new KeyUses()
  const expected = new Map<number, Set<number>>([0, 1, 7].map((id) => [id, new Set()]))
  const owner = new Map<number, number>()
  for (let step = 0; step < 8000; step++) {
    const series = random.below(count)
    const known = owner.get(series)
    if (known === undefined) {
      const measurement = random.pick([0, 1, 7])
      lists.added(series, measurement)
      uses.added(series, measurement, tags)
      expected.get(measurement)?.add(series)
      owner.set(series, measurement)
    } else {
      lists.removed(series, known)
      uses.removed(series, known, tags)
      lists.removed(series, known) // once more changes nothing
      expected.get(known)?.delete(series)
      owner.delete(series)
    }
  }
  for (const [measurement, series] of expected) {
    t.equal(lists.count(measurement), series.size)
    t.same(walked(lists, measurement, 1 + random.below(200)), [...series], 'in the order in which they came')
    t.same(
      uses.keys(measurement).sort((a, b) => a - b),
      keysOf(series),
    )
    t.equal(uses.size(measurement), keysOf(series).length)
    for (let key = 0; key < 40; key++) t.equal(uses.has(measurement, key, key % 3), keysOf(series).includes(key))
  }
  t.same(
    lists.measurements(),
    [...expected].flatMap(([id, { size }]) => (size > 0 ? [id] : [])),
  )
})

t.test('a walk goes on when what it stands on is removed, and meets what is added', async (t) => {
  const lists = new MeasurementSeries()
  for (let series = 0; series < 10; series++) lists.added(series, 3)
  const cursor = lists.walk(3)
  t.same([...lists.take(cursor, 4)], [0, 1, 2, 3])
  for (const series of [0, 4, 5, 9]) lists.removed(series, 3)
  lists.added(50, 3)
  t.same([...lists.take(cursor, 100)], [6, 7, 8, 50])
  t.ok(lists.ended(cursor))
})

t.test('a walk whose number has gone to a series of another measurement begins anew', async (t) => {
  const lists = new MeasurementSeries()
  for (let series = 0; series < 4; series++) lists.added(series, 3)
  const cursor = lists.walk(3)
  lists.take(cursor, 2)
  lists.removed(2, 3)
  lists.added(2, 4)
  t.same([...lists.take(cursor, 100)], [0, 1, 3], 'none of the other measurement')
})

t.test('what has no series left takes nothing', async (t) => {
  const lists = new MeasurementSeries()
  t.ok(lists.ended(lists.walk(3)))
  lists.added(1, 3)
  lists.removed(1, 3)
  t.equal(lists.count(3), 0)
  t.same(lists.measurements(), [])
})
