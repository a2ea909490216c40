import t from 'tap'
import { INT64_MAX, INT64_MIN } from '../../common/time.ts'
import { Unstored } from '../catalog/unstored.ts'
import type { Cutoff, Tombstone } from '../threads/removals.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { cutoffFor, NO_CUTOFFS, withMove } from './cutoffs.ts'
import { freed, planRewrite, spent, type TableView } from './reclaim.ts'
import { hasBlocks, loadTombstone, seriesBytes, storeTombstone } from './stored.ts'
import { EVERY_SEQUENCE, Tombstones } from './tombstones.ts'

const segment = (id: number, more: Partial<SegmentMeta> = {}): SegmentMeta => ({
  id,
  table: 1,
  sequence: id,
  level: 0,
  file: `${id}.parquet`,
  rows: 10,
  bytes: 100,
  minTime: '0',
  maxTime: '100',
  dirty: null,
  minSeries: 0,
  maxSeries: 9,
  columns: [],
  ...more,
})
const tombstone = (id: number, more: Partial<Tombstone> = {}): Tombstone => ({
  id,
  measurement: 7,
  sequence: 5,
  series: null,
  start: INT64_MIN,
  end: INT64_MAX,
  ...more,
})
const table = (segments: SegmentMeta[], more: Partial<TableView> = {}): TableView => ({
  id: 1,
  measurement: 7,
  has: () => true,
  gone: false,
  segments,
  ...more,
})
function all(...list: Tombstone[]): Tombstones {
  const tombstones = new Tombstones(new Unstored(), () => {})
  for (const one of list) tombstones.add(one)
  return tombstones
}
const ids = (segments: readonly SegmentMeta[]) => segments.map(({ id }) => id)

t.test('a file goes when nothing of it is left to see', async (t) => {
  const segments = [segment(1), segment(2, { minTime: '50', maxTime: '150' }), segment(6)]
  t.same(ids(freed(table(segments), all(tombstone(1)))), [1, 2], 'what was written after the delete stays')
  t.same(ids(freed(table(segments), all(tombstone(1, { end: 120n })))), [1], 'one of which a part is left stays')
  t.same(ids(freed(table(segments), all(tombstone(1, { start: 50n })))), [2], 'from the first time of the delete on')
  t.same(ids(freed(table(segments), all(tombstone(1, { start: 51n })))), [], 'nor one with rows before it')
  t.same(ids(freed(table(segments), all(tombstone(1, { start: 0n, end: 100n })))), [1], 'its last time is deleted as well')
  t.same(ids(freed(table(segments), all(tombstone(1, { end: 99n })))), [])
  t.same(ids(freed(table(segments), all(tombstone(1, { series: Int32Array.of(0, 9) })))), [], 'series may be all or not')
  t.same(ids(freed(table(segments, { measurement: undefined }), all(tombstone(1)))), [], 'a shared table has rows of others')
  t.same(ids(freed(table(segments, { gone: true }), all())), [1, 2, 6], 'all files of a dropped measurement')
})

t.test('a cutoff masks what was written before it moved, of a measurement with one of its own as well', async (t) => {
  const cutoff = { id: 3, cutoff: 100n, sequence: 5 }
  for (const cutoffs of [
    { general: [{ ...cutoff, except: new Set<number>() }], own: new Map() },
    { general: [], own: new Map([[7, [cutoff]]]) },
  ]) {
    t.equal(cutoffFor(cutoffs, 7, { sequence: 4, cleared: 0 }), 100n)
    t.equal(cutoffFor(cutoffs, 7, { sequence: 5, cleared: 0 }), INT64_MIN, 'what came since stays, whatever its time')
    t.equal(cutoffFor(cutoffs, 7, { sequence: 4, cleared: 2 }), 100n)
    t.equal(cutoffFor(cutoffs, 7, { sequence: 4, cleared: 3 }), INT64_MIN, 'a merge has applied it')
  }
})

t.test('a cutoff that moves leaves masked what it no longer names, and what an earlier one masked further on', async (t) => {
  const move = (id: number, general: bigint | null, except: number[] = [], own: [number, bigint][] = []) => ({ id, general, except, own })
  const before = withMove(NO_CUTOFFS, move(1, 100n), 5)
  const masked = (cutoffs: typeof before, measurement: number, sequence: number) => cutoffFor(cutoffs, measurement, { sequence, cleared: 0 })
  const excepted = withMove(before, move(2, 200n, [7]), 9)
  t.same([masked(excepted, 7, 4), masked(excepted, 7, 6)], [100n, INT64_MIN], 'one that is kept for longer from now on')
  t.same([masked(excepted, 8, 4), masked(excepted, 8, 6)], [200n, 200n])
  const lowered = withMove(before, move(2, 50n), 9)
  t.same([masked(lowered, 7, 4), masked(lowered, 7, 6), masked(lowered, 7, 9)], [100n, 50n, INT64_MIN], 'all are kept for longer')
  const own = withMove(withMove(NO_CUTOFFS, move(1, null, [], [[7, 100n]]), 5), move(2, null, [], [[7, 50n]]), 9)
  t.same([masked(own, 7, 4), masked(own, 7, 6), masked(own, 8, 4)], [100n, 50n, INT64_MIN])
  t.same(withMove(before, move(2, 200n), 9).general.length, 1, 'one that masks more takes the place of the former')
})

t.test('a file behind retention goes, one that reaches over its cutoff is written again when most of it is behind', async (t) => {
  const tombstones = all()
  tombstones.setCutoffs({ general: [{ id: 1, cutoff: 101n, sequence: 5, except: new Set([8]) }], own: new Map() })
  const segments = [segment(1), segment(2, { maxTime: '101' }), segment(3, { maxTime: '500' }), segment(6)]
  t.same(ids(freed(table(segments), tombstones)), [1])
  t.same(planRewrite(table(segments.slice(1)), tombstones, () => false)?.segments, [segments[1]])
  t.equal(
    planRewrite(table(segments.slice(2)), tombstones, () => false),
    undefined,
  )
  const shared = (...own: number[]): number[] => ids(freed(table(segments, { measurement: undefined, has: (id) => own.includes(id) }), tombstones))
  t.same(shared(7, 9), [1])
  t.same(shared(7, 8), [], 'a shared one has rows of a measurement that keeps them')
  const except = new Set([8, 9, 10])
  const own = new Map([8, 9, 10].map((id, i) => [id, [{ id: 1, cutoff: [50n, 20n, 40n][i], sequence: 5 }]] as const))
  tombstones.setCutoffs({ general: [{ id: 1, cutoff: 101n, sequence: 5, except }], own })
  const reach = (...has: number[]): number[] =>
    ids(
      freed(
        table(
          [19, 20, 39, 40, 49, 50, 100].map((time) => segment(time, { sequence: 1, maxTime: String(time) })),
          { measurement: undefined, has: (id) => has.includes(id) },
        ),
        tombstones,
      ),
    )
  t.same(reach(7, 8, 9, 10), [19], 'as far as the one that keeps most')
  t.same(reach(8, 10), [19, 20, 39])
  t.same(reach(8), [19, 20, 39, 40, 49])
  // Not times from 1970 on.
  tombstones.setCutoffs({ general: [{ id: 1, cutoff: 1000n, sequence: 5, except: new Set() }], own: new Map() })
  for (const [minTime, maxTime, written] of [
    ['900', '1099', true],
    ['900', '1100', false],
    ['1000', '1001', false],
  ] as const) {
    const plan = planRewrite(table([segment(1, { minTime, maxTime })]), tombstones, () => false)
    t.equal(plan !== undefined, written, `from ${minTime} to ${maxTime}`)
  }
})

t.test('a boundary that nothing moves on is taken out of the files that it masks rows of, once', async (t) => {
  const written = (one: SegmentMeta, more: Partial<TableView> = {}, former = (_: Cutoff, measurement: number | undefined) => measurement !== 8): boolean => {
    const tombstones = all()
    const own = new Map([
      [7, [{ id: 3, cutoff: 10n, sequence: 5 }]],
      [8, [{ id: 3, cutoff: 10n, sequence: 5 }]],
    ])
    tombstones.setCutoffs({ general: [{ id: 3, cutoff: 20n, sequence: 5, except: new Set([7]) }], own })
    return planRewrite(table([one], more), tombstones, () => false, former) !== undefined
  }
  t.ok(written(segment(4, { minTime: '9' })))
  t.notOk(written(segment(4, { minTime: '10' })), 'nothing is behind it, and the other is not of this measurement')
  t.notOk(written(segment(5, { minTime: '9' })), 'what came since')
  t.notOk(written(segment(4, { minTime: '9', cleared: 3 })), 'it was taken out')
  t.ok(written(segment(4, { minTime: '9', cleared: 2 })))
  t.notOk(
    written(segment(4, { minTime: '9' }), {}, () => false),
    'it may move yet',
  )
  t.ok(written(segment(4, { minTime: '19' }), { measurement: 9 }), 'of all')
  t.notOk(written(segment(4, { minTime: '19' }), { measurement: 9 }, (_, measurement) => measurement !== undefined))
  const others = { measurement: undefined, has: (id: number) => id === 8 }
  t.notOk(
    written(segment(4, { minTime: '9' }), others, (_, measurement) => measurement === 7),
    'none of it is in the shared table',
  )
})

t.test('deleted rows are taken out of a file when they have waited, or when there are too many deletes to read past', async (t) => {
  const one = all(tombstone(1, { series: Int32Array.of(3) }))
  t.equal(
    planRewrite(table([segment(1)]), one, () => false),
    undefined,
  )
  t.same(planRewrite(table([segment(1, { level: 2 })]), one, () => true)?.level, 2, 'it stays on its level')
  const many = all(...Array.from({ length: 65 }, (_, i) => tombstone(i + 1, { series: Int32Array.of(3), start: BigInt(i), end: BigInt(i) })))
  t.not(
    planRewrite(table([segment(1)]), many, () => false),
    undefined,
  )
  t.equal(
    planRewrite(table([segment(1, { cleared: 65 })]), many, () => true),
    undefined,
    'none of them is left in it',
  )
  t.equal(
    planRewrite(table([segment(1, { minSeries: 4 })]), one, () => true),
    undefined,
    'it has no such series',
  )
  t.not(
    planRewrite(table([segment(1)], { measurement: undefined }), one, () => true),
    undefined,
    'of a shared table as well',
  )
})

t.test('a file that cannot be written again does not hold up the others', async (t) => {
  const one = all(tombstone(1, { series: Int32Array.of(3) }))
  const segments = [segment(1), segment(2), segment(3, { archived: true }), segment(4)]
  const planned = (...bad: number[]) =>
    planRewrite(
      table(segments),
      one,
      () => true,
      undefined,
      ({ id }) => bad.includes(id),
    )?.segments
  t.same(planned(), [segments[0]])
  t.same(planned(1), [segments[1]])
  t.same(planned(1, 2), [segments[3]], 'an archived one is never written again')
  t.equal(planned(1, 2, 4), undefined)
})

t.test('a tombstone over an archived file stays as long as the file: it alone masks the rows', async (t) => {
  const one = all(tombstone(3, { series: Int32Array.of(3) }))
  const done = (segments: SegmentMeta[]) =>
    spent(
      one,
      () => [1],
      () => segments,
      9,
      () => 1,
    )
  t.same(done([segment(1, { archived: true })]), [])
  t.same(done([segment(1, { archived: true, cleared: 3 })]), [3], 'archived after the delete')
  t.same(done([]), [3])
})

t.test('a tombstone goes when no source can hold rows that it masks', async (t) => {
  const done = (tombstones: Tombstones, segments: SegmentMeta[], oldest: number, since = 5) =>
    spent(
      tombstones,
      () => [1],
      () => segments,
      oldest,
      () => since,
    )
  const one = all(tombstone(3))
  t.same(done(one, [segment(1)], 5), [], 'an older file')
  t.same(done(one, [segment(1, { cleared: 3 })], 5), [3])
  t.same(done(one, [segment(5)], 4), [], 'an older memtable')
  t.same(done(one, [segment(5)], 5), [3])
  t.same(done(all(tombstone(3, { end: -1n })), [segment(1)], 5), [3], 'another range')
  const dropped = all(tombstone(3, { sequence: EVERY_SEQUENCE }))
  t.same(done(dropped, [], 5), [], 'the memtable of the time of the drop')
  t.same(done(dropped, [], 6), [3])
  t.same(done(one, [segment(6), segment(1), segment(6)], 9), [], 'one file among others is enough')
  for (const [series, gone] of [
    [[4], true],
    [[5], false],
    [[7], false],
    [[9], false],
    [[10], true],
    [[1, 20], false],
    [[], true],
  ] as const)
    t.same(
      done(all(tombstone(3, { series: Int32Array.from(series) })), [segment(1, { minSeries: 5, maxSeries: 9 })], 9),
      gone ? [3] : [],
      `series ${series} and a file with those from 5 to 9`,
    )
  for (const [start, end, gone] of [
    [-5n, -1n, true],
    [-5n, 0n, false],
    [100n, 100n, false],
    [101n, 200n, true],
  ] as const)
    t.same(done(all(tombstone(3, { start, end })), [segment(1)], 9), gone ? [3] : [], `times from ${start} to ${end} and a file with those from 0 to 100`)
})

t.test('a tombstone stays while one of the tables of its measurement has a file that it masks rows of', async (t) => {
  const done = (tables: Record<number, SegmentMeta[]>) =>
    spent(
      all(tombstone(3)),
      (measurement) => (measurement === 7 ? Object.keys(tables).map(Number) : []),
      (id) => tables[id],
      9,
      () => 1,
    )
  t.same(done({ 1: [], 2: [segment(1)] }), [])
  t.same(done({ 1: [segment(1)], 2: [segment(6)] }), [])
  t.same(done({ 1: [segment(6)], 2: [segment(7)] }), [3])
})

t.test('to look at one table not all measurements with a retention of their own are looked at', async (t) => {
  let looked = 0
  const own = new (class extends Map<number, readonly Cutoff[]> {
    override *[Symbol.iterator](): MapIterator<[number, readonly Cutoff[]]> {
      for (const entry of super.entries()) {
        looked++
        yield entry
      }
    }
  })()
  for (let measurement = 0; measurement < 100; measurement++) own.set(measurement, [{ id: 9, cutoff: 50n, sequence: 5 }])
  const tombstones = all()
  tombstones.setCutoffs({ general: [], own })
  const segments = [segment(1)]
  t.same(
    planRewrite(
      table(segments),
      tombstones,
      () => false,
      () => true,
    )?.segments,
    segments,
    'its own is known',
  )
  t.equal(looked, 0)
  t.same(
    planRewrite(
      table(segments, { measurement: undefined, has: (id) => id === 99 }),
      tombstones,
      () => false,
      () => true,
    )?.segments,
    segments,
    'and those of a shared table',
  )
})

t.test('the series of a tombstone lie in its entry or in blocks, however many they are', async (t) => {
  for (const count of [0, 1, 1023, 1024, 1025, 5000]) {
    const one = tombstone(1, { series: Int32Array.from({ length: count }, (_, i) => i * 3), start: -5n, end: 7n })
    const stored = storeTombstone(one)
    t.equal(typeof stored.series === 'number', hasBlocks(one), `${count}`)
    const blocks = hasBlocks(one) ? [seriesBytes(one.series as Int32Array)] : []
    t.same(
      loadTombstone(JSON.parse(JSON.stringify(stored)), () => blocks),
      one,
    )
    if (count > 1024) t.throws(() => loadTombstone(stored, () => []), { message: /has 0 bytes of series/ })
  }
})
