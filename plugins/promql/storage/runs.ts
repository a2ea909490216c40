/** Samples of one series, in ascending time, as parts of blocks and put together. Pure. */
import { SAMPLE_FLOAT, SAMPLE_HISTOGRAM, type SampleBlock } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'

export interface Run {
  times: Float64Array
  values: Float64Array
  /** Absent when all are floats. */
  kinds: Uint8Array | undefined
  histograms: (FloatHistogram | undefined)[] | undefined
}

/** Those of a series of a block, where they lie; histograms are a list of their own. */
export function runOf({ starts, times, values, kinds, histograms }: SampleBlock, series: number): Run {
  const [from, to] = [starts[series], starts[series + 1]]
  return { times: times.subarray(from, to), values: values.subarray(from, to), kinds: kinds?.subarray(from, to), histograms: histograms?.slice(from, to) }
}

/** Of equal times the sample of the second stays. */
export function mergedRuns(a: Run, b: Run): Run {
  const most = a.times.length + b.times.length
  const out: Run = {
    times: new Float64Array(most),
    values: new Float64Array(most),
    kinds: a.kinds === undefined && b.kinds === undefined ? undefined : new Uint8Array(most),
    histograms: a.histograms === undefined && b.histograms === undefined ? undefined : [],
  }
  let n = 0
  const take = ({ times, values, kinds, histograms }: Run, i: number): void => {
    out.times[n] = times[i]
    out.values[n] = values[i]
    if (out.kinds !== undefined) out.kinds[n] = kinds?.[i] ?? SAMPLE_FLOAT
    if (out.histograms !== undefined) out.histograms[n] = histograms?.[i]
    n++
  }
  let i = 0
  for (let k = 0; k < b.times.length; k++) {
    while (i < a.times.length && a.times[i] < b.times[k]) take(a, i++)
    if (a.times[i] === b.times[k]) i++
    take(b, k)
  }
  while (i < a.times.length) take(a, i++)
  return { ...out, times: out.times.subarray(0, n), values: out.values.subarray(0, n), kinds: out.kinds?.subarray(0, n) }
}

/** A block of series that follow each other from `first` on. */
export function joinedRuns(first: number, runs: readonly Run[]): SampleBlock {
  const starts = new Int32Array(runs.length + 1)
  for (const [s, { times }] of runs.entries()) starts[s + 1] = starts[s] + times.length
  const length = starts[runs.length]
  const times = new Float64Array(length)
  const values = new Float64Array(length)
  const kinds = new Uint8Array(length)
  const histograms: (FloatHistogram | undefined)[] = []
  for (const [s, run] of runs.entries()) {
    times.set(run.times, starts[s])
    values.set(run.values, starts[s])
    if (run.kinds !== undefined) kinds.set(run.kinds, starts[s])
    for (let i = 0; i < run.times.length; i++) histograms.push(run.histograms?.[i])
  }
  if (!kinds.some((kind) => kind !== SAMPLE_FLOAT)) return { first, starts, times, values }
  return { first, starts, times, values, kinds, ...(kinds.includes(SAMPLE_HISTOGRAM) ? { histograms } : {}) }
}
