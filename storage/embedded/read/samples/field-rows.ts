/**
 * Rows of a measurement as samples of its fields, for those who want rows: it says where samples are not all there is to them, because a row has no value of
 * the field, or a time within a millisecond.
 */
import type { SampleRows } from 'svcdb/lib/columns'
import { encryptedField } from '../../encryption/open.ts'
import type { FieldDef, MeasurementDef } from '../../threads/definitions.ts'
import type { MemtablePart, Snapshot } from '../../threads/state.ts'
import { type RelationContext, sourcesOf } from '../relation.ts'
import type { Interval, Source } from '../sources.ts'
import { eachCommon, Gatherer, type VisitRun } from './gather.ts'
import { type IntegerBounds, integerBounds } from './integer-bounds.ts'
import { millisecondRange } from './millisecond-range.ts'
import type { SampleBlock } from './sample-block.ts'
import { Scratch } from './scratch.ts'
import type { ReadScope } from './segment-blocks.ts'
import { blockSize, expectedSamples } from './select.ts'
import { SelectedTags } from './tag-sets.ts'

/** Samples that are handed on at once, about. */
const BLOCK_SAMPLES = 262_144
const NS_PER_MS = 1_000_000n
const BYTES_PER_NUMBER = 8
const LAST_START = 2n ** 63n - NS_PER_MS

export interface FieldRowsRequest {
  measurement: MeasurementDef
  /** Nanoseconds, inclusive. */
  time: Interval
  /** Ascending; all when absent. */
  series?: Int32Array
  signal: AbortSignal | undefined
}

/** What samples of some series leave out. */
export interface SampleTraits {
  /** Some of the rows of these series have no value of the field. */
  sparse: boolean
  /** Some times are not whole milliseconds. */
  fine: boolean
  /** Of integer fields: no sample is outside. */
  integers: IntegerBounds | undefined
}

export interface FieldBlock extends SampleTraits {
  samples: SampleRows
}

interface Gathered {
  gatherer: Gatherer
  series: number
  traits: SampleTraits
}

export class FieldRows {
  readonly series: Int32Array
  readonly tags: SelectedTags
  private readonly context: RelationContext
  private readonly request: FieldRowsRequest
  private readonly all: Int32Array
  private readonly sources: Source[]
  private readonly question: number

  constructor(context: RelationContext, snapshot: Snapshot, request: FieldRowsRequest) {
    const { measurement, time } = request
    const { series: view } = context.state
    this.context = context
    this.question = context.sampleBlocks.questionOf(snapshot)
    this.request = request
    this.all = view.of(measurement.id)
    this.series = request.series ?? this.all
    this.tags = new SelectedTags(view, measurement.id, this.series, request.series === undefined ? undefined : positionsOf(this.series, this.all))
    this.sources = this.series.length === 0 || time[0] > time[1] ? [] : sourcesOf(context.state, snapshot, measurement, time, this.series)
  }

  /** Nanoseconds; no row is outside. Undefined when there are none. */
  span(): Interval | undefined {
    if (this.sources.length === 0) return undefined
    let [lo, hi] = [this.sources[0].minTime, this.sources[0].maxTime]
    for (const { minTime, maxTime } of this.sources) {
      if (minTime < lo) lo = minTime
      if (maxTime > hi) hi = maxTime
    }
    const { time } = this.request
    return [lo > time[0] ? lo : time[0], hi < time[1] ? hi : time[1]]
  }

  /** Whether some of the rows are stored without the field, or with values that only a key can read. */
  lacks(field: FieldDef): boolean {
    const { keys } = this.context.duck.encrypted
    const segments = this.sources.flatMap(({ segment }) => segment ?? [])
    if (encryptedField(keys.columns, [field], segments) !== undefined) return true
    return this.sources.some(({ segment, memtable }) =>
      segment === undefined ? lacksIn(memtable!.part, field) : !segment.columns.some((column) => column.field === field.id),
    )
  }

  /** Whether the samples of so many fields have room in the cache together, about. */
  fits(fields: number): boolean {
    const { samples } = expectedSamples(this.sources, this.all, this.request.time)
    const share = this.series.length / Math.max(1, this.all.length)
    // Of each row a value of each field, and a time for all.
    return this.context.sampleBlocks.holds(samples * share * (fields + 1) * BYTES_PER_NUMBER)
  }

  /**
   * The samples, series by series, in the same blocks for each field that all rows have. The arrays hold until the next block is asked for.
   * @throws what reading segments throws; the signal's reason.
   */
  async *samples(field: FieldDef): AsyncGenerator<FieldBlock> {
    const { buffers } = this.context.sampleBlocks
    for await (const { gatherer, series, traits } of this.gathered(field)) {
      for (let from = 0, to: number; from < series; from = to) {
        to = gatherer.blockEnd(from, BLOCK_SAMPLES)
        const buffer = buffers.take(gatherer.samples(from, to))
        try {
          yield { samples: gatherer.rows(from, to, buffer), ...traits }
        } finally {
          buffers.give(buffer)
        }
      }
    }
  }

  /**
   * Calls back with the samples, series by series, where they lie.
   * @param accept is told first what the samples of some series leave out. @returns false once it does not accept that.
   */
  async visit(field: FieldDef, accept: (traits: SampleTraits) => boolean, visit: VisitRun): Promise<boolean> {
    for await (const { gatherer, traits } of this.gathered(field)) {
      if (!accept(traits)) return false
      gatherer.visit(visit)
    }
    return true
  }

  private async *gathered(field: FieldDef): AsyncGenerator<Gathered> {
    const { context, series, sources, all } = this
    const { measurement, time, signal } = this.request
    const { sampleBlocks } = context
    if (sources.length === 0) return
    const scratch = new Scratch(sampleBlocks.scratch)
    const scope: ReadScope = {
      context,
      measurement: measurement.id,
      field,
      range: time,
      all,
      signal,
      limit: Number.POSITIVE_INFINITY,
      question: this.question,
      scratch,
    }
    const blockSources = sampleBlocks.groupedSources(sources)
    // Samples of whole milliseconds lie in the range from its first whole one on.
    const [lo, hi] = millisecondRange([time[0] > LAST_START ? time[0] : time[0] + NS_PER_MS - 1n, time[1]])
    const size = blockSize(sources, series.length, scope)
    for (let first = 0; first < series.length; first += size) {
      signal?.throwIfAborted()
      const part = series.subarray(first, first + size)
      try {
        const gatherer = new Gatherer(part, first, lo, hi)
        const traits = noTraits(field)
        for (const blockSource of blockSources) {
          const read = sampleBlocks.read(blockSource, part, scope)
          for (const block of read instanceof Promise ? await read : read) {
            addTraits(traits, block.block)
            gatherer.add(block)
          }
        }
        yield { gatherer, series: part.length, traits }
      } finally {
        scratch.release()
      }
    }
  }
}

function noTraits({ type }: FieldDef): SampleTraits {
  const integers = type === 'int64' || type === 'uint64'
  return { sparse: false, fine: false, integers: integers ? { min: Number.POSITIVE_INFINITY, max: Number.NEGATIVE_INFINITY } : undefined }
}

function addTraits(traits: SampleTraits, block: SampleBlock): void {
  if (block.sparse === true) traits.sparse = true
  if (block.rests !== undefined) traits.fine = true
  const { integers } = traits
  if (integers === undefined) return
  const { min, max } = integerBounds(block)
  if (min < integers.min) integers.min = min
  if (max > integers.max) integers.max = max
}

function lacksIn({ chunks, counts }: MemtablePart, { id }: FieldDef): boolean {
  return chunks.some(({ columns }, i) => counts[i] > 0 && !columns.has(id))
}

export function positionsOf(series: Int32Array, all: Int32Array): Int32Array {
  const out = new Int32Array(series.length)
  eachCommon(series, all, (position, at) => (out[position] = at))
  return out
}
