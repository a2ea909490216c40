/** Several blocks, oldest first, as one: for each series its samples of all of them in order of time, of those of a millisecond the last written. */
import { SAMPLE_FLOAT } from 'svcdb/lib/columns'
import type { SampleBlock } from './sample-block.ts'

/** Longer runs are not put in order by moving samples one by one. */
const LONG_RUN = 64

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
  let count = 0
  let n = 0
  let minTime = Number.POSITIVE_INFINITY
  let maxTime = Number.NEGATIVE_INFINITY
  for (let w = 0; w < wanted.length; w++) {
    const number = wanted[w]
    const from = n
    let ascends = true
    for (let b = 0; b < blocks.length; b++) {
      const block = blocks[b]
      const own = block.series
      let cursor = cursors[b]
      while (cursor < own.length && own[cursor] < number) cursor++
      cursors[b] = cursor
      if (cursor === own.length || own[cursor] !== number) continue
      const end = block.starts[cursor + 1]
      for (let i = block.starts[cursor]; i < end; i++) {
        const time = block.times[i]
        if (n > from && !(times[n - 1] < time)) ascends = false
        times[n] = time
        values[n] = block.values[i]
        if (kinds !== undefined) kinds[n] = block.kinds === undefined ? SAMPLE_FLOAT : block.kinds[i]
        n++
      }
    }
    if (n === from) continue
    if (!ascends) n = inOrder(times, values, kinds, from, n)
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

/** Sorts samples [from, to) by time, leaves the last of equal ones, and moves them together. @returns the new end. */
function inOrder(times: Float64Array, values: Float64Array, kinds: Uint8Array | undefined, from: number, to: number): number {
  const own = { times: times.slice(from, to), values: values.slice(from, to), kinds: kinds?.slice(from, to) }
  const order = Int32Array.from(own.times, (_, i) => i)
  if (order.length > LONG_RUN) order.sort((a, b) => own.times[a] - own.times[b] || a - b)
  else {
    for (let i = 1; i < order.length; i++) {
      const position = order[i]
      let j = i
      while (j > 0 && own.times[order[j - 1]] > own.times[position]) {
        order[j] = order[j - 1]
        j--
      }
      order[j] = position
    }
  }
  let n = from
  for (let i = 0; i < order.length; i++) {
    const at = order[i]
    if (i + 1 < order.length && own.times[order[i + 1]] === own.times[at]) continue
    times[n] = own.times[at]
    values[n] = own.values[at]
    if (kinds !== undefined && own.kinds !== undefined) kinds[n] = own.kinds[at]
    n++
  }
  return n
}
