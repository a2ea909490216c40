import t from 'tap'
import { type CompactionLimits, type Merge, planMerge } from './compaction-plan.ts'
import type { SegmentMeta } from './layout.ts'

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

t.test('the number of files grows with the logarithm of the flushes, and so does the work', async (t) => {
  let segments: SegmentMeta[] = []
  let most = 0
  let rewritten = 0
  let next = 1
  for (let flush = 0; flush < 4000; flush++) {
    segments.push(segment(next++, 1 + (flush % 7), flush, flush))
    for (let merge = planMerge(segments, LIMITS, true); merge !== undefined; merge = planMerge(segments, LIMITS, true)) {
      const ids = new Set(merge.segments.map(({ id }) => id))
      const at = segments.findIndex(({ id }) => ids.has(id))
      t.ok(
        merge.segments.every((s, i) => s === segments[at + i]),
        'neighbours',
      )
      const one = merged(next++, merge)
      rewritten += one.rows
      segments = [...segments.slice(0, at), one, ...segments.slice(at + ids.size)]
    }
    most = Math.max(most, segments.length)
  }
  const rows = segments.reduce((sum, s) => sum + s.rows, 0)
  t.ok(most <= 3 * 7, `${most} files at most`)
  t.ok(rewritten / rows < 7, `each row was rewritten ${(rewritten / rows).toFixed(1)} times`)
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
  t.match(planMerge(run, LIMITS, false), { dirty }, 'another table may hold rows of the same series')
  const first = [2, 3, 4, 5].map((id) => segment(id, 1, 5, 9, id === 2 ? dirty : null))
  t.match(planMerge(first, LIMITS, true), { deduplicate: false }, 'the oldest cannot repeat the younger ones')
})
