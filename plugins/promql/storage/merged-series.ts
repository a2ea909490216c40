/** Several fields under one metric name: series with the same labels become one, in ascending time; of equal times the later part's sample wins. */
import { ExecutionError, TOO_MANY_SAMPLES } from '../errors.ts'
import { histogramBytes, type Pacer } from '../eval/context.ts'
import type { Selection } from '../eval/source.ts'
import type { SampleBlock } from '../eval/value.ts'
import { LabelList, type Labels } from '../labels.ts'
import { joinedRuns, mergedRuns, type Run, runOf } from './runs.ts'

/** Of a time and a value. */
const SAMPLE_BYTES = 16

/**
 * Undefined when no two series have their labels in common: parts can be read one after the other as they are.
 * @param maxSamples that may be held of the parts beside the first, which is read as it comes.
 */
export function mergedSelection(parts: readonly Selection[], maxSamples: number, pacer: Pacer): Selection | undefined {
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
  return { labels: new LabelList(list), blocks: () => new Merge(maxSamples, pacer).blocks(parts, placeOf) }
}

class Merge {
  private readonly maxSamples: number
  private readonly pacer: Pacer
  /** Samples of the parts beside the first, by place. */
  private readonly beside = new Map<number, Run>()
  private held = 0

  constructor(maxSamples: number, pacer: Pacer) {
    this.maxSamples = maxSamples
    this.pacer = pacer
  }

  async *blocks(parts: readonly Selection[], placeOf: readonly Int32Array[]): AsyncGenerator<SampleBlock> {
    // Series of the first part keep their places, unless some of them have the same labels.
    const streamed = placeOf[0].every((place, i) => place === i) ? 1 : 0
    for (let p = streamed; p < parts.length; p++) await this.collect(parts[p], placeOf[p])
    const waiting = [...this.beside.keys()].sort((a, b) => a - b)
    let next = 0
    if (streamed === 1) {
      for await (const block of parts[0].blocks()) {
        const end = block.first + block.starts.length - 1
        // Most have no samples in other parts: those lie about times of change.
        const from = next
        while (next < waiting.length && waiting[next] < block.first) next++
        yield* this.alone(waiting.slice(from, next))
        const begin = next
        while (next < waiting.length && waiting[next] < end) next++
        yield begin === next ? block : await this.together(block)
      }
    }
    yield* this.alone(waiting.slice(next))
  }

  /** Adds the samples of a part to those of the series that have its labels. @throws ExecutionError above what may be held. */
  private async collect(part: Selection, places: Int32Array): Promise<void> {
    for await (const block of part.blocks()) {
      for (let s = 0; s + 1 < block.starts.length; s++) {
        if (block.starts[s] === block.starts[s + 1]) continue
        const place = places[block.first + s]
        const run = copyOf(runOf(block, s))
        this.hold(run)
        const known = this.beside.get(place)
        this.beside.set(place, known === undefined ? run : mergedRuns(known, run))
        if (this.pacer.due(run.times.length)) await this.pacer.pause()
      }
    }
  }

  private hold({ times, histograms = [] }: Run): void {
    let bytes = times.length * SAMPLE_BYTES
    for (const histogram of histograms) if (histogram !== undefined) bytes += histogramBytes(histogram)
    this.held += bytes / SAMPLE_BYTES
    if (this.held > this.maxSamples) throw new ExecutionError(TOO_MANY_SAMPLES)
  }

  /** Series that the first part has no samples of, each in a block. */
  private *alone(places: readonly number[]): Generator<SampleBlock> {
    for (const place of places) yield joinedRuns(place, [this.beside.get(place) as Run])
  }

  /** A block of the first part with the samples of others. */
  private async together(block: SampleBlock): Promise<SampleBlock> {
    const runs: Run[] = []
    for (let s = 0; s + 1 < block.starts.length; s++) {
      const own = runOf(block, s)
      const other = this.beside.get(block.first + s)
      runs.push(other === undefined ? own : mergedRuns(own, other))
      if (this.pacer.due(own.times.length)) await this.pacer.pause()
    }
    return joinedRuns(block.first, runs)
  }
}

/** The arrays of a block are used again. */
function copyOf({ times, values, kinds, histograms }: Run): Run {
  return { times: times.slice(), values: values.slice(), kinds: kinds?.slice(), histograms }
}
