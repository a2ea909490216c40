/** Native histograms under their classic names: `_count` and `_sum` as floats, `_bucket` as one cumulative series for each boundary met in the range. */

import { BucketCursor } from 'svcdb/lib/histogram'
import { SAMPLE_STALE, type SampleBlock } from '../eval/value.ts'
import { formatLabelFloat } from '../functions/format.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import { LabelList, type LabelSets, type Labels } from '../labels.ts'
import type { ClassicPart } from './metric-catalog.ts'

export const BOUNDARY_LABEL = 'le'
const cursor = new BucketCursor()

/** The block with floats in place of histograms. */
export function totals(block: SampleBlock, part: Exclude<ClassicPart, 'bucket'>): SampleBlock {
  const { first, starts, times, kinds, histograms } = block
  const values = new Float64Array(times.length)
  for (let i = 0; i < values.length; i++) values[i] = histograms?.[i]?.[part] ?? 0
  // Staleness markers stay what they are.
  return { first, starts, times, values, ...(kinds === undefined ? {} : { kinds: kinds.map((kind) => (kind === SAMPLE_STALE ? kind : 0)) }) }
}

/**
 * All buckets of all series as series of their own.
 * @param passes whether a boundary's text satisfies the conditions on `le`.
 */
export async function buckets(
  labels: LabelSets,
  blocks: AsyncIterable<SampleBlock>,
  passes: (boundary: string) => boolean,
): Promise<{ labels: LabelSets; block: SampleBlock }> {
  const sets: Labels[] = []
  const starts: number[] = [0]
  const times: number[] = []
  const values: number[] = []
  const kinds: number[] = []
  for await (const block of blocks) {
    for (let s = 0; s + 1 < block.starts.length; s++) {
      const [from, to] = [block.starts[s], block.starts[s + 1]]
      if (from === to) continue
      for (const bound of boundsOf(block, from, to)) {
        const text = formatLabelFloat(bound)
        if (!passes(text)) continue
        sets.push(labels.at(block.first + s).with(BOUNDARY_LABEL, text))
        for (let i = from; i < to; i++) {
          times.push(block.times[i])
          kinds.push(block.kinds?.[i] === SAMPLE_STALE ? SAMPLE_STALE : 0)
          values.push(cumulative(block.histograms?.[i], bound))
        }
        starts.push(times.length)
      }
    }
  }
  const block = { first: 0, starts: Int32Array.from(starts), times: Float64Array.from(times), values: Float64Array.from(values), kinds: Uint8Array.from(kinds) }
  return { labels: new LabelList(sets), block }
}

/** Upper boundaries of all buckets in use, ascending, +Inf last. */
function boundsOf({ histograms }: SampleBlock, from: number, to: number): number[] {
  const bounds = new Set<number>([Number.POSITIVE_INFINITY])
  for (let i = from; i < to; i++) {
    const histogram = histograms?.[i]
    if (histogram === undefined) continue
    cursor.open(histogram, false)
    while (cursor.next()) bounds.add(cursor.upper)
  }
  return [...bounds].sort((a, b) => a - b)
}

function cumulative(histogram: FloatHistogram | undefined, bound: number): number {
  if (histogram === undefined) return 0
  if (bound === Number.POSITIVE_INFINITY) return histogram.count
  let sum = 0
  cursor.open(histogram, false)
  while (cursor.next() && cursor.upper <= bound) sum += cursor.count
  return sum
}
