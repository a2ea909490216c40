import t from 'tap'
import { planMerge } from '../compaction/plan.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { DAY_NS, objectKey, partitionValue } from './object-key.ts'
import { archivedDay, planArchive } from './plan.ts'

const LIMITS = { days: 8, rows: 1_000_000 }

/** @param from, to in days. */
function segment(id: number, from: number, to: number, more: Partial<SegmentMeta> = {}): SegmentMeta {
  const time = (days: number) => String(BigInt(Math.round(days * 1000)) * (DAY_NS / 1000n))
  return {
    id,
    table: 1,
    sequence: id,
    level: 0,
    file: `${id}`,
    rows: 10,
    bytes: 1,
    minTime: time(from),
    maxTime: time(to),
    dirty: null,
    minSeries: 0,
    maxSeries: 9,
    columns: [],
    ...more,
  }
}

const plan = (segments: SegmentMeta[], threshold: number, limits = LIMITS, needed?: number) => {
  const { groups, ...counts } = planArchive(
    [{ table: 1, segments, neededFrom: needed === undefined ? undefined : BigInt(needed) * DAY_NS }],
    BigInt(Math.round(threshold * 10)) * (DAY_NS / 10n),
    limits,
  )
  return { groups: groups.map(({ segments: chosen, before }) => ({ ids: chosen.map(({ id }) => id), before: Number(before / DAY_NS) })), ...counts }
}
const counts = { awaiting: 0, incomplete: 0 }

t.test('whole days behind the threshold go', async (t) => {
  const days = [segment(1, 0, 0.9), segment(2, 0.8, 1.5), segment(3, 1.6, 2.5), segment(4, 2.6, 3.4)]
  t.same(plan(days, 4.5), { groups: [{ ids: [1, 2, 3, 4], before: 4 }], ...counts })
  t.same(plan(days, 3.9), { groups: [{ ids: [1, 2, 3], before: 2 }], awaiting: 0, incomplete: 1 }, 'the fourth reaches beyond day 2')
  t.same(plan(days, 0.5), { groups: [], ...counts })
  t.same(plan([segment(1, -3, -2.5), segment(2, 5, 6)], 4), { groups: [{ ids: [1], before: 4 }], ...counts }, 'before 1970')
})

t.test('a group has no more days or rows than asked for, unless one segment has', async (t) => {
  const days = [0, 1, 2, 3].map((day) => segment(day + 1, day, day + 0.9))
  t.same(plan(days, 10, { days: 2, rows: 1000 }).groups, [{ ids: [1, 2], before: 2 }])
  t.same(plan(days, 10, { days: 8, rows: 15 }).groups, [{ ids: [1], before: 1 }])
  t.same(plan([segment(1, 0, 5), segment(2, 0.5, 0.6)], 10, { days: 2, rows: 5 }).groups, [{ ids: [1, 2], before: 10 }], 'all of a day together')
})

t.test('holds and newer segments keep days', async (t) => {
  const days = [0, 1, 2, 3].map((day) => segment(day + 1, day, day + 0.9))
  t.same(plan(days, 4, LIMITS, 2), { groups: [{ ids: [1, 2], before: 2 }], awaiting: 1, incomplete: 0 })
  t.same(plan(days, 4, LIMITS, 0), { groups: [], awaiting: 1, incomplete: 0 })
  t.same(plan([segment(1, 0, 2)], 4, LIMITS, 2), { groups: [{ ids: [1], before: 2 }], awaiting: 1, incomplete: 0 }, 'its last row is the first needed')
  t.same(plan([...days, segment(9, 1.5, 30)], 4), { groups: [{ ids: [1], before: 1 }], awaiting: 0, incomplete: 1 })
  const corrupted = planArchive([{ table: 1, segments: days, neededFrom: undefined }], 10n * DAY_NS, LIMITS, ({ id }) => id === 2)
  t.match(corrupted, { groups: [{ segments: [{ id: 1 }], before: DAY_NS }], incomplete: 1 }, 'one that cannot be read')
  t.same(plan([...days.slice(0, 3), { ...days[3], archived: true }], 4).groups, [{ ids: [1, 2, 3], before: 4 }])
})

t.test('a day is one source as new as its newest part, and stays dirty where others may have the same rows', async (t) => {
  const dirty: [string, string] = [String(DAY_NS), String(2n * DAY_NS)]
  const group = [segment(1, 0, 1.5), segment(4, 0.5, 2.5, { dirty }), segment(7, 3, 4)]
  const day = archivedDay(group, DAY_NS, [], true)
  t.same(
    { ...day, segments: day.segments.map(({ id }) => id) },
    { segments: [1, 4], sequence: 4, deduplicate: true, dirty: null, time: [DAY_NS, 2n * DAY_NS - 1n] },
  )
  t.same(archivedDay(group, DAY_NS, [segment(2, 1.9, 1.95)], true).dirty, [String(DAY_NS), String(2n * DAY_NS - 1n)])
  t.same(archivedDay(group, DAY_NS, [], false).dirty, [String(DAY_NS), String(2n * DAY_NS - 1n)])
  t.same(archivedDay(group, 0n, [], false).dirty, null)
  t.same(archivedDay(group, 2n * DAY_NS, [], false).dirty, [String(2n * DAY_NS), String(2n * DAY_NS)], 'one instant of it')
})

t.test('merges pass over archived segments whose time is their own', async (t) => {
  const limits = { fanIn: 2, maxRows: 1000 }
  const ids = (segments: SegmentMeta[]) => planMerge(segments, limits, true)?.segments.map(({ id }) => id)
  t.same(ids([segment(1, 5, 6), segment(2, 0, 1, { archived: true }), segment(3, 6, 7)]), [1, 3])
  t.same(ids([segment(1, 5, 6), segment(2, 5.5, 5.6, { archived: true }), segment(3, 6, 7)]), undefined, 'one in between that may repeat their rows')
  for (const [from, to] of [
    [4, 5],
    [7, 8],
  ])
    t.same(ids([segment(1, 5, 6), segment(2, from, to, { archived: true }), segment(3, 6, 7)]), undefined, 'if only at their first or last time')
  t.same(ids([segment(1, 0, 1, { archived: true }), segment(2, 0, 1, { archived: true })]), undefined)
})

t.test('keys are safe in paths, patterns and URLs, and never too long', async (t) => {
  t.equal(
    objectKey({ namespace: '', measurement: 'cpu' }, 19_000n * DAY_NS, 12, 0xbeef),
    'namespace=/measurement=cpu/date=2022-01-08/0000000012-0000beef.parquet',
  )
  t.equal(objectKey({ shared: 'value' }, -DAY_NS, 3, 1), 'shared=value/date=1969-12-31/0000000003-00000001.parquet')
  t.equal(partitionValue("a/b c*[é]'%~"), 'a%2Fb%20c%2A%5B%C3%A9%5D%27%25%7E')
  const [long, other] = ['é'.repeat(100), `${'é'.repeat(99)}e`].map(partitionValue)
  t.ok(long.length < 200 && /^(%C3%A9)+~[0-9a-f]{16}$/.test(long), long)
  t.not(long, other)
})
