import t from 'tap'
import { NO_CUTOFFS } from '../retention/cutoffs.ts'
import type { Tombstone } from '../threads/removals.ts'
import { common, masksAll, masksOf, mergeMasks } from './masks.ts'

const FIRST = -(2n ** 63n)
const LAST = 2n ** 63n - 1n
const tombstone = (id: number, series: number[] | null, more: Partial<Tombstone> = {}): Tombstone => ({
  id,
  measurement: 7,
  sequence: 5,
  series: series === null ? null : Int32Array.from(series),
  start: FIRST,
  end: LAST,
  ...more,
})
const removals = (...list: Tombstone[]) => ({ tombstones: new Map([[7, list]]), cutoffs: NO_CUTOFFS })
const source = { sequence: 1, cleared: 0, minTime: 0n, maxTime: 100n }
const shown = (masks: ReturnType<typeof masksOf>) => masks.map(({ series, lo, hi }) => [series === undefined ? 'all' : [...series], lo, hi])

t.test('deletes of whole series are one condition', async (t) => {
  t.same(shown(masksOf(removals(tombstone(1, [9]), tombstone(2, [3, 9]), tombstone(3, [4])), 7, source, undefined)), [[[3, 4, 9], 0n, 100n]])
  t.same(shown(masksOf(removals(tombstone(1, [9]), tombstone(2, null)), 7, source, undefined)), [['all', 0n, 100n]])
})

t.test('a range of its own stays by itself', async (t) => {
  const masks = masksOf(
    removals(tombstone(1, [9]), tombstone(2, [3], { start: 10n, end: 20n }), tombstone(3, [4], { start: 10n, end: 20n })),
    7,
    source,
    undefined,
  )
  t.same(shown(masks), [
    [[9], 0n, 100n],
    [[3, 4], 10n, 20n],
  ])
})

t.test('only what concerns the source and the series wanted', async (t) => {
  const all = removals(tombstone(1, [9]), tombstone(2, [3], { sequence: 1 }), tombstone(3, [3], { start: 101n }), tombstone(4, [8]))
  t.same(shown(masksOf(all, 7, source, Int32Array.of(3, 8))), [[[8], FIRST, LAST]])
  t.same(shown(masksOf(all, 7, { ...source, cleared: 4 }, undefined)), [])
  t.same(shown(masksOf(all, 6, source, undefined)), [], 'another measurement')
})

t.test('a delete concerns a source of which it has the first or the last time alone', async (t) => {
  for (const range of [{ start: 100n }, { end: 0n }]) t.equal(masksOf(removals(tombstone(1, null, range)), 7, source, undefined).length, 1)
  for (const range of [{ start: 101n }, { end: -1n }]) t.equal(masksOf(removals(tombstone(1, null, range)), 7, source, undefined).length, 0)
})

t.test('a merge takes out what is deleted up to the last tombstone that it clears, of the first and the last series of a file, too', async (t) => {
  const input = { ...source, table: 1, minSeries: 3, maxSeries: 8 }
  const merged = (series: number[]) => shown(mergeMasks(removals(tombstone(1, [5]), tombstone(2, series)), 7, input, 2))
  t.same(merged([1, 3]), [[[1, 3, 5], 0n, 100n]])
  t.same(merged([8, 9]), [[[5, 8, 9], 0n, 100n]])
  t.same(merged([1, 2]), [[[5], FIRST, LAST]])
  t.same(merged([9]), [[[5], FIRST, LAST]])
})

t.test('a file of several measurements is not gone when one of them is', async (t) => {
  const mask = { series: undefined, lo: FIRST, hi: LAST }
  t.ok(masksAll([{ ...mask, measurements: undefined }], source))
  t.notOk(masksAll([{ ...mask, measurements: { ids: [7] } }], source))
  t.notOk(masksAll([{ ...mask, measurements: undefined, series: Int32Array.of(1) }], source))
})

t.test('retention masks what is older in older sources that do not have it applied', async (t) => {
  const retention = { tombstones: new Map(), cutoffs: { general: [{ id: 3, cutoff: 50n, sequence: 2, except: new Set([6]) }], own: new Map() } }
  t.same(shown(masksOf(retention, 6, source, undefined)), [])
  t.same(shown(masksOf(retention, 7, { ...source, cleared: 3 }, undefined)), [])
  t.same(shown(masksOf(retention, 7, source, undefined)), [['all', FIRST, 49n]])
  t.same(shown(masksOf(retention, 7, { ...source, sequence: 2 }, undefined)), [])
  t.ok(masksAll(masksOf(retention, 7, { ...source, maxTime: 49n }, undefined), { ...source, maxTime: 49n }))
  t.notOk(masksAll(masksOf(retention, 7, source, undefined), source))
})

t.test('a merge of a shared table takes rows out by measurement', async (t) => {
  const input = { ...source, table: 1, minSeries: 0, maxSeries: 8 }
  const masks = mergeMasks(removals(tombstone(1, null), tombstone(2, [9]), tombstone(3, [4])), undefined, input, 2)
  t.same(
    masks.map(({ measurements, series }) => [measurements?.ids, series]),
    [
      [[7], undefined],
      [[-1], undefined],
    ],
    'no tombstone beyond the one asked for, none of series the file does not have, and no rows of released series',
  )
})

t.test('a merge of a shared table takes out what retention masks, measurement by measurement', async (t) => {
  const input = { ...source, table: 1, minSeries: 0, maxSeries: 8 }
  const one = (id: number, cutoff: bigint) => ({ id, cutoff, sequence: 2 })
  const cutoffs = {
    general: [{ ...one(3, 50n), except: new Set([1, 2, 8]) }],
    own: new Map([
      [2, [one(3, 20n)]],
      [4, [one(3, 70n)]],
      [5, [one(3, 70n)]],
      [6, [one(3, 50n)]],
    ]),
  }
  const measurements = new Map([8, 1, 2, 4, 5, 6].map((id) => [id, { tables: id === 8 ? [2] : [1, 3] }]))
  const masked = (source = input) =>
    mergeMasks({ tombstones: new Map(), cutoffs, measurements }, undefined, source, 0).flatMap(({ measurements, hi }) =>
      measurements?.ids[0] === -1 ? [] : [[measurements, hi]],
    )
  t.same(
    masked(),
    [
      [{ ids: [2, 1], but: true }, 49n],
      [{ ids: [2] }, 19n],
      [{ ids: [4, 5] }, 69n],
    ],
    'one that has no rows in the table is not named',
  )
  t.same(masked({ ...input, minTime: 55n }), [[{ ids: [4, 5] }, 69n]])
  t.same(masked({ ...input, cleared: 3 }), [])
  t.same(masked({ ...input, sequence: 2 }), [])
})

t.test('numbers that two lists have in common', async (t) => {
  t.same([...common(Int32Array.of(1, 3, 5, 7), Int32Array.of(0, 3, 4, 7, 9, 11))], [3, 7])
})
