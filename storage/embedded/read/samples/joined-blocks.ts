/** Several blocks, oldest first, as one: for each series its samples of all of them in order of time, of those of a millisecond the last written. */
import { SAMPLE_FLOAT } from 'svcdb/lib/columns'
import { RunMerge } from './run-merge.ts'
import type { SampleBlock } from './sample-block.ts'

/**
 * @param blocks without nanoseconds beyond milliseconds, by which samples of a millisecond would have to be told apart, and without histograms.
 * @param wanted the series to take, ascending.
 */
export function joinedBlocks(blocks: readonly SampleBlock[], wanted: Int32Array): SampleBlock {
  const samples = blocks.reduce((sum, { times }) => sum + times.length, 0)
  const series = new Int32Array(wanted.length)
  const starts = new Int32Array(wanted.length + 1)
  const times = new Float64Array(samples)
  const values = new Float64Array(samples)
  const kinds = blocks.some((block) => block.kinds !== undefined) ? new Uint8Array(samples) : undefined
  const cursors = new Int32Array(blocks.length)
  const merge = new RunMerge()
  let count = 0
  let n = 0
  let minTime = Number.POSITIVE_INFINITY
  let maxTime = Number.NEGATIVE_INFINITY
  const take = ({ times: ownTimes, values: ownValues, divisor = 1, kinds: ownKinds }: SampleBlock, first: number, end: number): void => {
    for (let i = first; i < end; i++, n++) {
      times[n] = ownTimes[i]
      values[n] = ownValues[i] / divisor
      if (kinds !== undefined) kinds[n] = ownKinds === undefined ? SAMPLE_FLOAT : ownKinds[i]
    }
  }
  /** Blocks that have the series. */
  const having: SampleBlock[] = []
  const places: number[] = []
  for (const number of wanted) {
    const from = n
    having.length = 0
    places.length = 0
    let ascends = true
    let last = Number.NEGATIVE_INFINITY
    for (let b = 0; b < blocks.length; b++) {
      const block = blocks[b]
      const own = block.series
      let cursor = cursors[b]
      while (cursor < own.length && own[cursor] < number) cursor++
      cursors[b] = cursor
      if (cursor === own.length || own[cursor] !== number) continue
      const [first, end] = [block.starts[cursor], block.starts[cursor + 1]]
      if (first === end) continue
      if (block.duplicates === true || !(last < block.times[first])) ascends = false
      last = block.times[end - 1]
      having.push(block)
      places.push(cursor)
    }
    for (let i = 0; i < having.length; i++) {
      const { starts: ownStarts } = having[i]
      const [first, end] = [ownStarts[places[i]], ownStarts[places[i] + 1]]
      if (ascends) take(having[i], first, end)
      else merge.add(having[i], i, places[i], first, end)
    }
    if (!ascends) merge.merge((run, first, end) => take(having[run], first, end))
    if (n === from) continue
    series[count] = number
    starts[count++] = from
    if (times[from] < minTime) minTime = times[from]
    if (times[n - 1] > maxTime) maxTime = times[n - 1]
  }
  starts[count] = n
  return {
    series: series.slice(0, count),
    starts: starts.slice(0, count + 1),
    times: n === samples ? times : times.slice(0, n),
    values: n === samples ? values : values.slice(0, n),
    ...(kinds === undefined ? {} : { kinds: kinds.slice(0, n) }),
    ...(blocks.some(({ sparse }) => sparse === true) ? { sparse: true as const } : {}),
    minTime,
    maxTime,
  }
}
