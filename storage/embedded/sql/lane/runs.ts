/** Rows in runs, and where each run counts. Lists are used again from block to block. */
import type { IntList } from '../../memtable/int-list.ts'
import { pushRun, RUN } from '../../memtable/runs.ts'
import type { Buckets, Grouping } from './groups.ts'
import type { LaneBlock } from './host.ts'

const NO_TIMES = new Float64Array(0)

/** The runs of a block by cell; a run that several buckets have is cut. @param joined runs of a cell that follow each other may be one: times do not ascend within it. */
export function cellRuns(block: LaneBlock, { groupOf, buckets }: Pick<Grouping, 'groupOf' | 'buckets'>, joined: boolean, out: IntList): void {
  const { runs } = block
  out.length = 0
  out.room(runs.length)
  const { count, first, step } = buckets
  // Not asked for where there is one bucket: they may have to be unpacked.
  const times = count === 1 ? NO_TIMES : block.times
  for (let r = 0; r < runs.length; r += RUN) {
    const group = groupOf[runs[r]]
    if (group < 0) continue
    let from = runs[r + 1]
    const end = runs[r + 2]
    const last = out.length - RUN
    if (count === 1 && joined && last >= 0 && out.values[last] === group && out.values[last + 2] === from) out.values[last + 2] = end
    else if (count === 1) pushRun(out, group, from, end)
    else
      while (from < end) {
        const bucket = Math.floor((times[from] - first) / step)
        const to = bucketEnd(times, from, end, buckets, bucket)
        pushRun(out, group * count + bucket, from, to)
        from = to
      }
  }
}

/** The runs of series that are not left out. */
export function seriesRuns({ runs }: LaneBlock, groupOf: Int32Array, out: IntList): void {
  out.length = 0
  out.room(runs.length)
  for (let r = 0; r < runs.length; r += RUN) if (groupOf[runs[r]] >= 0) pushRun(out, runs[r], runs[r + 1], runs[r + 2])
}

/** Where the rows of a bucket end: mostly a few steps on, or far. */
function bucketEnd(times: Float64Array, from: number, end: number, { first, step }: Buckets, bucket: number): number {
  const limit = first + (bucket + 1) * step
  let low = from + 1
  let jump = 1
  while (low + jump < end && times[low + jump - 1] < limit) {
    low += jump
    jump *= 2
  }
  let high = Math.min(end, low + jump)
  while (low < high) {
    const middle = (low + high) >>> 1
    if (times[middle] < limit) low = middle + 1
    else high = middle
  }
  return low
}
