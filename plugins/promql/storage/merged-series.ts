/** Several fields under one metric name: series with the same labels become one, in ascending time; of equal times the later part's sample wins. */
import type { Selection } from '../eval/source.ts'
import { SAMPLE_FLOAT, SAMPLE_HISTOGRAM, type SampleBlock } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import { LabelList, type Labels } from '../labels.ts'

interface Sample {
  time: number
  value: number
  kind: number
  histogram: FloatHistogram | undefined
}

/** Undefined when no two parts have a label set in common: they can be read one after the other as they are. */
export function mergedSelection(parts: readonly Selection[]): Selection | undefined {
  const places = new Map<string, number>()
  const list: Labels[] = []
  const placeOf = parts.map(({ labels }) =>
    Int32Array.from({ length: labels.length }, (_, i) => {
      const own = labels.at(i)
      let place = places.get(own.key)
      if (place === undefined) {
        places.set(own.key, (place = list.length))
        list.push(own)
      }
      return place
    }),
  )
  if (list.length === placeOf.reduce((sum, { length }) => sum + length, 0)) return undefined
  return { labels: new LabelList(list), blocks: () => mergedBlocks(parts, placeOf, list.length) }
}

async function* mergedBlocks(parts: readonly Selection[], placeOf: readonly Int32Array[], length: number): AsyncGenerator<SampleBlock> {
  const [first, ...others] = parts
  const beside = new Map<number, Sample[]>()
  for (const [p, part] of others.entries()) await collect(part, placeOf[p + 1], beside)
  // Fields beside the first are of times of change: mostly they have nothing in the range. The first part's series keep their places.
  if (beside.size === 0) return yield* first.blocks()
  const own = new Map<number, Sample[]>()
  await collect(first, placeOf[0], own)
  yield toBlock(Array.from({ length }, (_, i) => inOrder([...(own.get(i) ?? []), ...(beside.get(i) ?? [])])))
}

/** Adds the samples of a part to those of the series that have its labels. */
async function collect(part: Selection, places: Int32Array, into: Map<number, Sample[]>): Promise<void> {
  for await (const { first, starts, times, values, kinds, histograms } of part.blocks()) {
    for (let s = 0; s + 1 < starts.length; s++) {
      if (starts[s] === starts[s + 1]) continue
      const place = places[first + s]
      let out = into.get(place)
      if (out === undefined) into.set(place, (out = []))
      for (let i = starts[s]; i < starts[s + 1]; i++)
        out.push({ time: times[i], value: values[i], kind: kinds?.[i] ?? SAMPLE_FLOAT, histogram: histograms?.[i] })
    }
  }
}

/** Sorting is stable, so that of equal times the later part's comes last. */
function inOrder(samples: Sample[]): Sample[] {
  samples.sort((a, b) => a.time - b.time)
  return samples.filter(({ time }, i) => samples[i + 1]?.time !== time)
}

function toBlock(series: readonly Sample[][]): SampleBlock {
  const all = series.flat()
  const starts = new Int32Array(series.length + 1)
  for (const [i, samples] of series.entries()) starts[i + 1] = starts[i] + samples.length
  return {
    first: 0,
    starts,
    times: Float64Array.from(all, ({ time }) => time),
    values: Float64Array.from(all, ({ value }) => value),
    kinds: Uint8Array.from(all, ({ kind }) => kind),
    ...(all.some(({ kind }) => kind === SAMPLE_HISTOGRAM) ? { histograms: all.map(({ histogram }) => histogram) } : {}),
  }
}
