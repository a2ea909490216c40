/** Native histograms under their classic names: `_count` and `_sum` as floats, `_bucket` as one cumulative series for each boundary met in the range. */

import { BucketCursor } from 'svcdb/lib/histogram'
import { ExecutionError, TOO_MANY_SAMPLES } from '../errors.ts'
import type { Pacer } from '../eval/context.ts'
import type { Selection } from '../eval/source.ts'
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

/** Counts of a series at its boundaries, one boundary after the other. */
interface SeriesBuckets {
  boundaries: number
  times: Float64Array
  /** SAMPLE_STALE or 0, as long as `times`. */
  kinds: Uint8Array
  values: Float64Array
}

/** What is held counts as, in samples with a time and a value of their own. */
const COUNT_SAMPLES = 0.5
const LABELS_SAMPLES = 16
/** Samples in one block, unless a single series has more. */
const BLOCK_SAMPLES = 1 << 16

/**
 * All buckets of all series as series of their own. Which there are shows when all samples are read, so that their counts are held.
 * @param passes whether a boundary's text satisfies the conditions on `le`.
 * @param maxSamples that may be held, or as much of what they are made of. @throws ExecutionError above.
 */
export async function buckets(
  labels: LabelSets,
  blocks: AsyncIterable<SampleBlock>,
  passes: (boundary: string) => boolean,
  maxSamples: number,
  pacer: Pacer,
): Promise<Selection> {
  const sets: Labels[] = []
  const parts: SeriesBuckets[] = []
  let held = 0
  for await (const block of blocks) {
    for (let s = 0; s + 1 < block.starts.length; s++) {
      const [from, to] = [block.starts[s], block.starts[s + 1]]
      if (from === to) continue
      const bounds = await boundsOf(block, from, to, pacer)
      const wanted = Int32Array.from(bounds.keys()).filter((b) => passes(formatLabelFloat(bounds[b])))
      held += wanted.length * ((to - from) * COUNT_SAMPLES + LABELS_SAMPLES)
      if (held > maxSamples) throw new ExecutionError(TOO_MANY_SAMPLES)
      for (const b of wanted) sets.push(labels.at(block.first + s).with(BOUNDARY_LABEL, formatLabelFloat(bounds[b])))
      parts.push(await seriesBuckets(block, from, to, bounds, wanted, pacer))
    }
  }
  return { labels: new LabelList(sets), blocks: () => blocksOf(parts) }
}

/** Upper boundaries of all buckets in use, ascending, +Inf last. */
async function boundsOf({ histograms }: SampleBlock, from: number, to: number, pacer: Pacer): Promise<number[]> {
  const bounds = new Set<number>([Number.POSITIVE_INFINITY])
  for (let i = from; i < to; i++) {
    const histogram = histograms?.[i]
    if (histogram === undefined) continue
    cursor.open(histogram, false)
    // NaN, of a zero bucket without a width, has no place among them: what it counts is counted up to the next one.
    while (cursor.next()) if (!Number.isNaN(cursor.upper)) bounds.add(cursor.upper)
    if (pacer.due(bounds.size)) await pacer.pause()
  }
  return [...bounds].sort((a, b) => a - b)
}

/** @param wanted places in `bounds`. */
async function seriesBuckets(
  { times, kinds, histograms }: SampleBlock,
  from: number,
  to: number,
  bounds: readonly number[],
  wanted: Int32Array,
  pacer: Pacer,
): Promise<SeriesBuckets> {
  const samples = to - from
  const values = new Float64Array(wanted.length * samples)
  const row = new Float64Array(bounds.length)
  for (let i = from; i < to; i++) {
    cumulate(histograms?.[i], bounds, row)
    for (let w = 0; w < wanted.length; w++) values[w * samples + i - from] = row[wanted[w]]
    if (pacer.due(bounds.length)) await pacer.pause()
  }
  return {
    boundaries: wanted.length,
    times: times.slice(from, to),
    kinds: Uint8Array.from({ length: samples }, (_, i) => (kinds?.[from + i] === SAMPLE_STALE ? SAMPLE_STALE : 0)),
    values,
  }
}

/** How much of a histogram lies up to each boundary. */
function cumulate(histogram: FloatHistogram | undefined, bounds: readonly number[], row: Float64Array): void {
  const last = bounds.length - 1
  row.fill(0)
  if (histogram === undefined) return
  let sum = 0
  let b = 0
  cursor.open(histogram, false)
  while (cursor.next()) {
    while (b < last && bounds[b] < cursor.upper) row[b++] = sum
    sum += cursor.count
  }
  while (b < last) row[b++] = sum
  row[last] = histogram.count
}

async function* blocksOf(parts: readonly SeriesBuckets[]): AsyncGenerator<SampleBlock> {
  let first = 0
  let group: SeriesBuckets[] = []
  let samples = 0
  for (const part of parts) {
    if (group.length > 0 && samples + part.values.length > BLOCK_SAMPLES) {
      const block = toBlock(first, group, samples)
      first += block.starts.length - 1
      yield block
      group = []
      samples = 0
    }
    group.push(part)
    samples += part.values.length
  }
  yield toBlock(first, group, samples)
}

function toBlock(first: number, group: readonly SeriesBuckets[], samples: number): SampleBlock {
  const block = { first, times: new Float64Array(samples), values: new Float64Array(samples), kinds: new Uint8Array(samples) }
  const starts = [0]
  let at = 0
  for (const { boundaries, times, kinds, values } of group) {
    block.values.set(values, at)
    for (let b = 0; b < boundaries; b++) {
      block.times.set(times, at)
      block.kinds.set(kinds, at)
      starts.push((at += times.length))
    }
  }
  return { ...block, starts: Int32Array.from(starts) }
}
