/** Answers Reader.samples and Reader.activeSeries out of blocks. */
import {
  type SampleRequest,
  type SampleRows,
  type SampleSet,
  type SampleWindows,
  type SeriesSet,
  type StoredRows,
  TooManySamplesError,
} from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { inNamespace } from '../../../common/names.ts'
import { earlier, later } from '../../../common/time.ts'
import type { FieldDef, MeasurementDef } from '../../threads/definitions.ts'
import type { Snapshot } from '../../threads/state.ts'
import { keptSamples, withRows } from '../newest/newest-samples.ts'
import { type RelationContext, sourcesOf } from '../relation.ts'
import type { Interval, Source } from '../sources.ts'
import { activeSeries } from './active.ts'
import { Gatherer } from './gather.ts'
import { millisecondRange } from './millisecond-range.ts'
import { newestSamples } from './newest.ts'
import { Scratch } from './scratch.ts'
import type { ReadScope } from './segment-blocks.ts'
import { SelectedTags } from './tag-sets.ts'
import { PickedSamples, windowEdges } from './window-edges.ts'

/** Samples of a block, about. */
const BLOCK_SAMPLES = 65_536
/** Samples of the series that are looked for at once, about: a block is gone through once for all of them. */
const GATHERED_SAMPLES = 1 << 20
/** Of series and sources together: what is found of each is in memory together. */
const GATHERED_RUNS = 1 << 20
/** Samples are left out where there are so many times more than windows have ends. */
const WORTH_PICKING = 4
/** Of what is kept, this part may be decoded of a question that leaves most samples out, which reads packed ones faster, or of rows that are being written. */
export const SMALL_SHARE = 1 / 8
/** Samples of a second that many measurements together do not have, but one that is written as fast as it goes. */
const LIVE_RATE = 10_000
/** A sample decoded, times and integers. */
const DECODED_BYTES = 12
/** Of a row group, by default. */
const GROUP_ROWS = 32_768
/** Series of a small measurement, at most. */
const SMALL_SERIES = 64
const NS_PER_SEC = 1e9
const MIN_TIME = -(2n ** 63n)
const MAX_TIME = 2n ** 63n - 1n

interface Selected {
  measurement: MeasurementDef
  scope: ReadScope
  series: Int32Array
  tags: SelectedTags
  sources: Source[]
}

export async function selectSamples(context: RelationContext, snapshot: Snapshot, request: SampleRequest, signal: AbortSignal | undefined): Promise<SampleSet> {
  const selected = select(context, snapshot, request, signal)
  return {
    series: selected.series,
    tags: selected.tags,
    ...(request.newestOnly === true
      ? { blocks: () => newestBlock(context, snapshot, selected) }
      : {
          blocks: () => sampleBlocks(context, selected, request.windows, false) as AsyncGenerator<SampleRows>,
          stored: () => sampleBlocks(context, selected, request.windows, true),
        }),
  }
}

export async function selectActive(context: RelationContext, snapshot: Snapshot, request: SampleRequest, signal: AbortSignal | undefined): Promise<SeriesSet> {
  const { scope, series, tags, sources } = select(context, snapshot, request, signal)
  const positions = await activeSeries(context, sources, series, scope)
  return positions.length === series.length ? { series, tags } : { series: positions.map((position) => series[position]), tags: tags.among(positions) }
}

/** Inclusive. */
export const rangeOf = ({ start, end }: SampleRequest): Interval => [start ?? MIN_TIME, end === undefined ? MAX_TIME : end - 1n]

function select(context: RelationContext, snapshot: Snapshot, request: SampleRequest, signal: AbortSignal | undefined): Selected {
  const { state } = context
  const { measurement, field } = fieldOf(context, request)
  const range = rangeOf(request)
  const all = state.series.of(measurement.id)
  const positions = field.type === 'string' ? new Int32Array(0) : state.series.positions(measurement.id, request.matchers ?? [], all)
  const series = positions === undefined ? all : positions.map((position) => all[position])
  return {
    measurement,
    scope: {
      context,
      measurement: measurement.id,
      field,
      range,
      all,
      signal,
      limit: request.maxBlockSamples ?? Number.POSITIVE_INFINITY,
      question: context.sampleBlocks.questionOf(snapshot),
    },
    series,
    tags: new SelectedTags(state.series, measurement.id, series, positions),
    sources: series.length === 0 || range[0] > range[1] ? [] : sourcesOf(state, snapshot, measurement, range, series),
  }
}

function fieldOf({ state }: RelationContext, request: SampleRequest): { measurement: MeasurementDef; field: FieldDef } {
  const measurement = state.measurement(request.namespace, request.measurement)
  const field = measurement?.fields.find(({ name }) => name === request.field)
  if (measurement === undefined || field === undefined) {
    const missing = measurement === undefined ? `measurement "${request.measurement}"` : `field "${request.field}" of measurement "${request.measurement}"`
    throw new SvcError('NOT_FOUND', `cannot read ${missing}: it does not exist${inNamespace(request.namespace)}`)
  }
  return { measurement, field }
}

async function* newestBlock(context: RelationContext, snapshot: Snapshot, { measurement, scope, series, sources }: Selected): AsyncGenerator<SampleRows> {
  if (sources.length === 0) return
  const { sampleBlocks } = context
  const read = (series: Int32Array): Promise<SampleRows> => newestSamples(sampleBlocks, sampleBlocks.groupedSources(sources), series, scope)
  const kept = isSmall(sources, scope) ? undefined : await keptSamples(snapshot, measurement, series, scope)
  if (kept === undefined) yield await read(series)
  else yield kept.later.length === 0 ? kept.rows : withRows(kept.rows, series, await read(kept.later), kept.later)
}

/**
 * Whether a measurement has so few rows in segments of shared tables that reading its newest samples costs less than knowing them: there may be thousands of its like,
 * each with a place among what is known and a statement that looks for it, and row groups that they share.
 */
function isSmall(sources: readonly Source[], { all }: ReadScope): boolean {
  if (all.length > SMALL_SERIES) return false
  let rows = 0
  for (const { segment, measurement } of sources) {
    if (segment === undefined) continue
    if (measurement === undefined) return false
    // It is taken to have as many rows a series as the others.
    rows += (segment.rows * all.length) / (segment.maxSeries - segment.minSeries + 1)
  }
  return rows > 0 && rows <= GROUP_ROWS
}

async function* sampleBlocks(
  { sampleBlocks }: RelationContext,
  { scope, series, sources }: Selected,
  windows: SampleWindows | undefined,
  stored: boolean,
): AsyncGenerator<SampleRows | StoredRows> {
  if (sources.length === 0) return
  const blockSources = sampleBlocks.groupedSources(sources)
  const [lo, hi] = millisecondRange([...scope.range])
  const scratch = new Scratch(sampleBlocks.scratch)
  const picks = windows !== undefined && arePickedBy(windows, sources, scope)
  const packed = isPacked(sources, series.length, scope, picks ? SMALL_SHARE : 1)
  const edges = packed && picks ? windowEdges(windows) : undefined
  const size = edges === undefined ? blockSize(sources, series.length, scope) : pickedSize(sources, blockSources.length, series.length, scope)
  const picked = edges === undefined ? undefined : new PickedSamples()
  const scratched = { ...scope, scratch, packed, whole: edges === undefined }
  for (let first = 0; first < series.length; first += size) {
    scope.signal?.throwIfAborted()
    const part = series.subarray(first, first + size)
    try {
      const gatherer = new Gatherer(part, first, lo, hi, scratch, picked)
      for (const blockSource of blockSources) {
        const read = sampleBlocks.readAny(blockSource, part, scratched)
        for (const block of read instanceof Promise ? await read : read) gatherer.add(block)
      }
      yield* stored && gatherer.areStored ? whereStored(gatherer, part.length, scope) : gathered(sampleBlocks, gatherer, part.length, scope, edges)
    } finally {
      scratch.release()
    }
  }
}

function* whereStored(gatherer: Gatherer, series: number, { limit, signal }: ReadScope): Generator<StoredRows> {
  for (let from = 0, to: number; from < series; from = to) {
    to = gatherer.blockEnd(from, Math.min(GATHERED_SAMPLES, limit))
    if (gatherer.samples(from, to) > limit) throw new TooManySamplesError(limit)
    signal?.throwIfAborted()
    yield gatherer.storedRows(from, to)
  }
}

function* gathered(
  { buffers }: RelationContext['sampleBlocks'],
  gatherer: Gatherer,
  series: number,
  { limit, signal }: ReadScope,
  edges: Float64Array | undefined,
): Generator<SampleRows> {
  for (let from = 0, to: number; from < series; from = to) {
    to = gatherer.blockEnd(from, Math.min(edges === undefined ? BLOCK_SAMPLES : GATHERED_SAMPLES, limit))
    const samples = gatherer.samples(from, to)
    if (samples > limit) throw new TooManySamplesError(limit)
    signal?.throwIfAborted()
    const picked = edges === undefined ? undefined : gatherer.pickedRows(from, to, edges)
    if (picked !== undefined) {
      yield picked
      continue
    }
    const buffer = buffers.take(samples)
    try {
      yield gatherer.rows(from, to, buffer)
    } finally {
      buffers.give(buffer)
    }
  }
}

/**
 * Whether what is decoded for the question, often much more than lies in its range, has no room beside the rest of what is kept: then it is kept packed, which is read a little slower.
 * @param share of what is kept that it may take.
 */
export function isPacked(sources: readonly Source[], series: number, { all, range, context }: ReadScope, share = 1): boolean {
  const { read } = expectedSamples(sources, all, range)
  return !context.sampleBlocks.holds((read * (series / Math.max(1, all.length)) * DECODED_BYTES * 2) / share)
}

/** Whether rows within the range come so fast that what is decoded of them is of use for some seconds only: the next flush or merge takes the place of what it was decoded of. */
export function isLive(sources: readonly Source[], { all, range }: ReadScope): boolean {
  if (!sources.some(({ memtable }) => memtable !== undefined)) return false
  const first = sources.reduce((least, { minTime }) => earlier(least, minTime), MAX_TIME)
  const last = sources.reduce((most, { maxTime }) => later(most, maxTime), MIN_TIME)
  const ns = Number(earlier(range[1], last) - later(range[0], first)) + 1
  return expectedSamples(sources, all, range).samples * NS_PER_SEC > LIVE_RATE * ns
}

/** Whether windows have so few ends that most samples are not beside one. */
function arePickedBy({ count }: SampleWindows, sources: readonly Source[], { all, range }: ReadScope): boolean {
  return expectedSamples(sources, all, range).samples > count * 2 * WORTH_PICKING * all.length
}

/** As `blockSize`, for samples of which most are left out. */
function pickedSize(sources: readonly Source[], runs: number, series: number, { all, range, context }: ReadScope): number {
  const { read } = expectedSamples(sources, all, range)
  const room = (context.sampleBlocks.packedSamples * all.length) / Math.max(all.length, read)
  return Math.max(1, Math.min(series, Math.ceil(room), Math.ceil(GATHERED_RUNS / runs)))
}

/** Series whose samples are gathered at once, judged by the rows of the sources, which are in memory together, and how much of their time is wanted. */
export function blockSize(sources: readonly Source[], series: number, { range, all, context }: ReadScope): number {
  const { samples, decoded } = expectedSamples(sources, all, range)
  const wanted = (GATHERED_SAMPLES * all.length) / Math.max(all.length, samples)
  const room = (context.sampleBlocks.decodedSamples * all.length) / Math.max(all.length, decoded)
  return Math.max(1, Math.min(series, Math.ceil(Math.min(wanted, room))))
}

/** Samples of a field within a range, those of the row groups that have some, and those of the sources, about. @param all the measurement's series. @param range nanoseconds, inclusive. */
export function expectedSamples(
  sources: readonly Source[],
  all: Int32Array,
  range: readonly [bigint, bigint],
): { samples: number; read: number; decoded: number } {
  let samples = 0
  let read = 0
  let decoded = 0
  // Of a shared table the measurement has the share of rows that it has of the series numbers in use around its own.
  const share = all.length / (all[all.length - 1] - all[0] + 1)
  for (const { segment, memtable, measurement, minTime, maxTime } of sources) {
    const rows = (segment?.rows ?? memtable!.part.rows) * (measurement === undefined ? 1 : share)
    const from = later(range[0], minTime)
    const to = earlier(range[1], maxTime)
    decoded += rows
    const within = rows * ((Number(to - from) + 1) / (Number(maxTime - minTime) + 1))
    samples += within
    // A series that has several row groups is read in those that the range touches.
    read += Math.min(rows, within + all.length * GROUP_ROWS)
  }
  return { samples, read, decoded }
}
