/** The samples of one series as chunks: runs of floats and runs of histograms, each of at most so many samples as Prometheus puts into one. */
import type { NativeHistogram } from 'svcdb/lib/histogram'
import { SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleBlock } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import { toNative } from '../histogram/native.ts'
import { CHUNK_SAMPLES, floatChunk, XOR_ENCODING } from './float-chunk.ts'
import { FLOAT_HISTOGRAM_ENCODING, HISTOGRAM_ENCODING, histogramChunk, type Succession, succession } from './histogram-chunk.ts'

export interface Chunk {
  minTime: number
  maxTime: number
  encoding: number
  data: Uint8Array
}

/** @param from and @param to a series' range in the block. */
export function seriesChunks(block: SampleBlock, from: number, to: number): Chunk[] {
  const { times, values, kinds } = block
  const stale = (at: number): boolean => kinds !== undefined && kinds[at] === SAMPLE_STALE
  const chunks: Chunk[] = []
  for (let at = from; at < to; ) {
    let end = at
    if (kinds !== undefined && kinds[at] === SAMPLE_HISTOGRAM) {
      while (end < to && kinds[end] === SAMPLE_HISTOGRAM) end++
      histogramChunks(chunks, block, at, end)
    } else {
      while (end < to && end - at < CHUNK_SAMPLES && (kinds === undefined || kinds[end] !== SAMPLE_HISTOGRAM)) end++
      chunks.push({ minTime: times[at], maxTime: times[end - 1], encoding: XOR_ENCODING, data: floatChunk(times, values, stale, at, end) })
    }
    at = end
  }
  return chunks
}

function histogramChunks(chunks: Chunk[], { times, histograms }: SampleBlock, from: number, to: number): void {
  let list: NativeHistogram[] = []
  let reset = false
  const close = (end: number): void => {
    const start = end - list.length
    const data = histogramChunk(Array.from(times.subarray(start, end)), list, reset)
    chunks.push({ minTime: times[start], maxTime: times[end - 1], encoding: list[0].integer ? HISTOGRAM_ENCODING : FLOAT_HISTOGRAM_ENCODING, data })
  }
  for (let at = from; at < to; at++) {
    const next = nativeOf(histograms?.[at])
    const step: Succession = list.length === 0 ? 'other' : succession(list[list.length - 1], next)
    if (list.length > 0 && (step !== 'same' || list.length === CHUNK_SAMPLES)) {
      close(at)
      list = []
      reset = step === 'reset'
      // A chunk that only was full goes on without a reset.
      if (step === 'same' && next.counterReset === 'unknown') next.counterReset = 'not_reset'
    }
    list.push(next)
  }
  close(to)
}

/** Counts that are all whole can be sent as integers, which is what nearly all senders count in. */
export function nativeOf(histogram: FloatHistogram | undefined): NativeHistogram {
  if (histogram === undefined) throw new Error('a sample that is a histogram has none')
  const native = toNative(histogram)
  const { count, zeroCount, positiveCounts, negativeCounts } = native
  native.integer = whole(count) && whole(zeroCount) && positiveCounts.every(whole) && negativeCounts.every(whole)
  return native
}

function whole(count: number): boolean {
  return count >= 0 && Number.isSafeInteger(count)
}
