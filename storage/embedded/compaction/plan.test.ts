import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { backlog, type CompactionLimits, type Merge, planMerge } from './plan.ts'

const LIMITS: CompactionLimits = { fanIn: 4, maxRows: 1_000_000 }

/** A segment of one row at each of the times min and max. */
function segment(id: number, rows: number, min: number, max: number, dirty: [string, string] | null = null): SegmentMeta {
  const times = { minTime: String(min), maxTime: String(max) }
  return { id, table: 0, sequence: id, level: 0, file: `${id}`, rows, bytes: rows, ...times, dirty, minSeries: 0, maxSeries: 0, columns: [] }
}

function merged(id: number, { segments, level, dirty }: Merge): SegmentMeta {
  const last = segments[segments.length - 1]
  const min = Math.min(...segments.map((s) => Number(s.minTime)))
  const max = Math.max(...segments.map((s) => Number(s.maxTime)))
  return {
    ...segment(
      id,
      segments.reduce((sum, s) => sum + s.rows, 0),
      min,
      max,
      dirty,
    ),
    level,
    sequence: last.sequence,
  }
}

interface Flush {
  rows: number
  min: number
  max: number
  dirty?: [string, string]
}

/** Flushes one after the other, and all merges that are due after each. */
function simulate(
  flushes: Iterable<Flush>,
  limits: CompactionLimits,
): { rows: number; files: number; maxFiles: number; levels: number; amplification: number } {
  let segments: SegmentMeta[] = []
  const result = { rows: 0, files: 0, maxFiles: 0, levels: 0, amplification: 0 }
  let rewritten = 0
  let next = 1
  for (const { rows, min, max, dirty } of flushes) {
    segments.push(segment(next++, rows, min, max, dirty ?? null))
    result.rows += rows
    for (let merge = planMerge(segments, limits, true); merge !== undefined; merge = planMerge(segments, limits, true)) {
      const at = segments.indexOf(merge.segments[0])
      if (!merge.segments.every((one, i) => one === segments[at + i])) throw new Error('only adjacent segments may be merged')
      const one = merged(next++, merge)
      if (one.rows > limits.maxRows) throw new Error(`a merge to ${one.rows} rows`)
      rewritten += one.rows
      result.levels = Math.max(result.levels, one.level)
      segments = [...segments.slice(0, at), one, ...segments.slice(at + merge.segments.length)]
    }
    if (backlog(segments, limits) !== 0) throw new Error('nothing waits once all merges are done')
    result.maxFiles = Math.max(result.maxFiles, segments.length)
  }
  result.files = segments.length
  result.amplification = rewritten / result.rows
  return result
}

const HOUR = 3600
const YEAR = 8766 * HOUR
const random = seeded(20_240_101)
const between = (low: number, high: number): number => low + Math.floor(random() * (high - low + 1))
const many = (n: number, flush: (i: number) => Flush): Flush[] => Array.from({ length: n }, (_, i) => flush(i))
const late = (min: number, max: number): Flush['dirty'] => [String(min), String(max)]

/** What reaches one table. Rows as a memtable of 64 MiB has them, if nothing else is said. */
const patterns: Record<string, Flush[]> = {
  'in order': many(2000, (i) => ({ rows: 400_000, min: i * HOUR, max: (i + 1) * HOUR })),
  'out of order': many(2000, (i) => {
    const min = (i - between(0, 48)) * HOUR
    return { rows: between(100_000, 600_000), min, max: min + between(1, 48) * HOUR, dirty: late(min, min + HOUR) }
  }),
  'backfill over ten years beside live writes': many(2000, (i) =>
    i % 2 === 0
      ? { rows: 400_000, min: 10 * YEAR + i, max: 10 * YEAR + i + 1 }
      : { rows: 400_000, min: 0, max: between(1, 10) * YEAR, dirty: late(0, 10 * YEAR) },
  ),
  'one of 5,000 tables that share each memtable': many(2000, (i) => ({ rows: 80, min: i * 60, max: (i + 1) * 60 })),
  'tiny flushes': many(20_000, (i) => ({ rows: 1 + (i % 7), min: i, max: i })),
  'large and tiny flushes in turn': many(4000, (i) => ({ rows: i % 2 === 0 ? 2_000_000 : 1, min: i, max: i + 1 })),
  'any size': many(4000, (i) => ({ rows: Math.ceil(10 ** (random() * 6.5)), min: i, max: i + 1 })),
}

for (const fanIn of [2, 4, 8]) {
  for (const [pattern, flushes] of Object.entries(patterns)) {
    t.test(`fan in ${fanIn}, ${pattern}: few files and bounded work`, async (t) => {
      const limits = { fanIn, maxRows: 32_000_000 }
      const { rows, files, maxFiles, levels, amplification } = simulate(flushes, limits)
      t.comment(
        `${flushes.length} flushes, ${rows.toExponential(1)} rows: ${maxFiles} files at most, ${files} at the end, ${amplification.toFixed(2)} rewritten a row`,
      )
      // A level holds fewer than fanIn segments that may still grow; two adjacent ones that may not have more than maxRows / fanIn rows each on average.
      const depth = Math.ceil(Math.log(flushes.length) / Math.log(fanIn)) + 1
      const bound = (fanIn - 1) * depth + fanIn * Math.ceil((2 * rows) / limits.maxRows)
      t.ok(maxFiles <= bound, `${maxFiles} files at most, the bound is ${bound}`)
      t.ok(amplification <= levels, `each row was rewritten ${amplification.toFixed(2)} times, there are ${levels} levels`)
      t.ok(levels <= depth)
    })
  }
}

t.test('the backlog is what merges are due for', async (t) => {
  const flushed = Array.from({ length: 10 }, (_, i) => segment(i, 5, i, i))
  t.equal(backlog(flushed, LIMITS), 8, 'two merges of four')
  t.equal(backlog(flushed.slice(0, 3), LIMITS), 0)
  t.equal(backlog(flushed, { fanIn: 4, maxRows: 19 }), 0, 'too large to be merged: nothing to catch up with')
  t.equal(backlog([...flushed.slice(0, 3), { ...segment(20, 5, 3, 3), level: 1 }, ...flushed.slice(3, 6)], LIMITS), 0)
})

t.test('a segment that would grow too large is left alone', async (t) => {
  const segments = [1, 2, 3, 4].map((id) => segment(id, 300_000, id, id))
  t.equal(planMerge(segments, LIMITS, true), undefined)
  t.match(planMerge(segments, { ...LIMITS, maxRows: 1_200_000 }, true), { level: 1 })
})

t.test('dirty ranges stay while an older segment outside may hold the same rows', async (t) => {
  const dirty: [string, string] = ['5', '9']
  const old = { ...segment(1, 10, 0, 6), level: 3 }
  const run = [2, 3, 4, 5].map((id) => segment(id, 1, 5, 9, id === 4 ? dirty : null))
  t.match(planMerge([old, ...run], LIMITS, true), { deduplicate: true, dirty })
  t.match(planMerge([{ ...old, maxTime: '4' }, ...run], LIMITS, true), { deduplicate: true, dirty: null })
  t.match(planMerge([{ ...old, maxTime: '5' }, ...run], LIMITS, true), { dirty }, 'one row at the first of the times')
  t.match(planMerge([{ ...old, minTime: '9', maxTime: '20' }, ...run], LIMITS, true), { dirty }, 'or at the last')
  t.match(planMerge([{ ...old, minTime: '10', maxTime: '20' }, ...run], LIMITS, true), { dirty: null })
  t.match(planMerge(run, LIMITS, false), { dirty }, 'another table may hold rows of the same series')
  const first = [2, 3, 4, 5].map((id) => segment(id, 1, 5, 9, id === 2 ? dirty : null))
  t.match(planMerge(first, LIMITS, true), { deduplicate: false }, 'the oldest cannot repeat the younger ones')
})

t.test('segments that cannot be read stay, do not wait, and are not passed over', async (t) => {
  const leaves = ({ id }: SegmentMeta): boolean => id === 3
  const limits = { ...LIMITS, leaves }
  const segments = Array.from({ length: 6 }, (_, i) => segment(i + 1, 10, i, i))
  t.ok(planMerge(segments, LIMITS, true), 'due otherwise')
  t.equal(planMerge(segments, limits, true), undefined, 'two before it, three behind it')
  t.equal(backlog(segments, limits), 0)
  segments.push(segment(7, 10, 6, 6))
  t.same(
    planMerge(segments, limits, true)?.segments.map(({ id }) => id),
    [4, 5, 6, 7],
  )
  t.equal(backlog(segments, limits), 4)
  const alternating = Array.from({ length: 16 }, (_, i) => ({ ...segment(i + 1, 10, i, i), level: i % 2 }))
  t.ok(planMerge(alternating, LIMITS, true), 'stranded ones are merged')
  t.equal(planMerge(alternating, { ...LIMITS, leaves: ({ id }) => id % 4 === 0 }, true), undefined)
})

t.test('a merge removes duplicates when a segment behind the first may repeat rows of one before it', async (t) => {
  const limits = { ...LIMITS, fanIn: 2 }
  const first = segment(1, 2, 0, 10)
  const plan = (...segments: SegmentMeta[]) => planMerge(segments, limits, true)
  t.match(plan(first, segment(2, 2, 0, 10)), { deduplicate: false, dirty: null }, 'none may')
  t.match(plan(first, segment(2, 2, 0, 10, ['0', '5'])), { deduplicate: true, dirty: null }, 'the second may: they are one now')
  t.match(plan(segment(1, 2, 0, 10, ['0', '5']), segment(2, 2, 20, 30)), { deduplicate: false, dirty: null }, 'only the first may, and nothing is before it')
  const [older, a, b] = [{ ...segment(1, 2, 0, 3), level: 1 }, segment(2, 2, 0, 10, ['2', '5']), segment(3, 2, 20, 30)]
  t.match(plan(older, a, b), { segments: [a, b], deduplicate: false, dirty: ['2', '5'] }, 'rows of one that is not merged')
  t.match(plan({ ...older, minTime: '6', maxTime: '9' }, a, b), { dirty: null }, 'which has none there')
  t.match(planMerge([{ ...older, minTime: '6', maxTime: '9' }, a, b], limits, false), { dirty: ['2', '5'] }, 'another table may')
})

t.test('a segment that cannot be merged does not hold up those beside it', async (t) => {
  const limits = { ...LIMITS, fanIn: 2, leaves: ({ id }: SegmentMeta) => id === 1 || id === 4 }
  const all = [1, 2, 3, 4, 5, 6].map((id) => segment(id, 2, id * 10, id * 10 + 9))
  t.same(
    planMerge(all, limits, true)?.segments.map(({ id }) => id),
    [2, 3],
  )
  t.same(
    planMerge(
      all.filter(({ id }) => id !== 2),
      limits,
      true,
    )?.segments.map(({ id }) => id),
    [5, 6],
  )
})
