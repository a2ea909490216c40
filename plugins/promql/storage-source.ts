/** The storage as the evaluator reads it: metric names become measurements and fields, label matchers conditions on tags. */
import type { Matcher, Reader } from 'svcdb'
import type { SampleRequest, SampleRows, SampleSet, StoredRows } from 'svcdb/lib/columns'
import { TextPattern } from 'svcdb/lib/regex'
import { traced } from 'svcdb/lib/trace'
import type { LabelMatcher } from './ast.ts'
import { Pacer } from './eval/context.ts'
import { markDistinct } from './eval/series-sets.ts'
import type { AggregateSelection, AggregateSelectRequest, SampleSource, Selection, SelectRequest } from './eval/source.ts'
import type { SampleBlock } from './eval/value.ts'
import { HistogramDecoder } from './histogram/native.ts'
import { LabelList, type LabelSets, Labels } from './labels.ts'
import { BOUNDARY_LABEL, buckets, totals } from './storage/classic-view.ts'
import { unlessDropped } from './storage/dropped.ts'
import { mergedSelection } from './storage/merged-series.ts'
import { type ClassicPart, type Metric, MetricCatalog, splitMatchers } from './storage/metric-catalog.ts'
import { JoinedLabels, MetricLabels } from './storage/metric-labels.ts'
import { PatternTime } from './storage/pattern-time.ts'

const NS_PER_MS = 1_000_000n
/** The millisecond of the least time there is, which begins before it. */
export const FIRST_MS = -9_223_372_036_855
const LAST_MS = 9_223_372_036_853
const FIRST_NS = -(2n ** 63n)

/** Milliseconds as the storage's times; beyond those it can hold it holds nothing. */
export function nanoseconds(ms: number): bigint {
  if (ms <= FIRST_MS) return FIRST_NS
  return BigInt(Math.min(LAST_MS, Math.floor(ms))) * NS_PER_MS
}

/** Cells that finding the series of a metric counts as, in looks at the clock. */
export const METRIC_CELLS = 4096

/** What is asked between two blocks of samples: a question that holds much may have to wait. */
type Room = () => Promise<void> | undefined

/** @param maxSamples that may be held of one series, and of all where series have to be put together. */
export function storageSource(reader: Reader, namespace: string, signal: AbortSignal, maxSamples: number, room: Room = () => undefined): SampleSource {
  const place: Place = { reader, namespace, pacer: new Pacer(signal), maxSamples, room, views: false }
  return {
    get beyondSteps() {
      return place.views
    },
    select: (request) => traced('select', () => select(place, request)),
    ...(reader.aggregate === undefined ? {} : { aggregate: (request) => traced('aggregate', () => aggregate(place, request)) }),
  }
}

interface Place {
  reader: Reader
  namespace: string
  /** One for all selectors: finding the series of each may be short, and of all together take minutes. */
  pacer: Pacer
  maxSamples: number
  room: Room
  /** A classic view was selected: of its buckets there are those that the range has, and it is there for as long as nothing else has its name. */
  views: boolean
}

async function select(place: Place, request: SelectRequest): Promise<Selection> {
  const { reader, namespace, pacer } = place
  if (pacer.due(METRIC_CELLS)) await pacer.pause()
  const { names, others } = splitMatchers(request.matchers)
  const parts: Selection[] = []
  let same: Selection[] = []
  let name: string | undefined
  // Metrics come by name: those that share one follow each other.
  const close = (): void => {
    const merged = same.length > 1 || same.some(({ labels }) => mayRepeat(labels)) ? mergedSelection(same, place.maxSamples, pacer) : undefined
    for (const part of merged === undefined ? same : [merged]) parts.push(part)
    same = []
  }
  const metrics = MetricCatalog.of(await reader.schema(namespace)).select(names)
  // Samples of several fields may become one series: which of them lie beside the ends of windows shows then.
  const wanted = wantedOf(metrics.length === 1 ? request : { ...request, windows: undefined }, others, place.maxSamples)
  for (const metric of metrics) {
    if (pacer.due(METRIC_CELLS)) await pacer.pause()
    if (metric.name !== name) close()
    name = metric.name
    const part = await selectMetric(place, metric, wanted)
    if (part.labels.length > 0) same.push(part)
  }
  close()
  if (parts.length === 1) return parts[0]
  const labels = new JoinedLabels(parts.map((part) => part.labels))
  return { labels, blocks: () => joinedBlocks(parts) }
}

async function* joinedBlocks(parts: readonly Selection[]): AsyncGenerator<SampleBlock> {
  let before = 0
  for (const part of parts) {
    for await (const block of part.blocks()) yield before === 0 ? block : { ...block, first: block.first + before }
    before += part.labels.length
  }
}

const mayRepeat = (labels: LabelSets): boolean => labels instanceof MetricLabels && labels.mayRepeat

/** What is asked of the reader for each metric of a selector. */
interface Wanted {
  matchers: readonly LabelMatcher[]
  samples: Omit<SampleRequest, 'namespace' | 'measurement' | 'field'>
}

function wantedOf({ after, upTo, newestOnly, windows }: SelectRequest, matchers: readonly LabelMatcher[], maxBlockSamples: number): Wanted {
  const range = { start: nanoseconds(after + 1), end: nanoseconds(upTo + 1) }
  const samples = { matchers: onTags(matchers), ...range, maxBlockSamples, ...(newestOnly === true ? { newestOnly: true as const } : {}) }
  return { matchers, samples: windows === undefined ? samples : { ...samples, windows } }
}

async function selectMetric(place: Place, metric: Metric, wanted: Wanted): Promise<Selection> {
  const { reader, namespace, pacer, maxSamples } = place
  const { measurement, field, part } = metric
  if (part !== undefined) place.views = true
  const { matchers, samples } = part === undefined ? wanted : ofPart(part, wanted)
  const set = await unlessDropped(reader.samples({ namespace, measurement, field, ...samples }))
  if (set === undefined) return NOTHING
  const labels: LabelSets = new MetricLabels(metric, set)
  if (labels.length === 0) return NOTHING
  // As of several fields: all samples of what becomes one series are looked at.
  if (samples.windows !== undefined && mayRepeat(labels)) return selectMetric(place, metric, { matchers, samples: { ...samples, windows: undefined } })
  if (part === undefined) return { labels, blocks: () => decoded(set.blocks(), place), ...storedOf(set, place) }
  if (part !== 'bucket') return { labels, blocks: () => mapped(decoded(set.blocks(), place), (block) => totals(block, part)) }
  return buckets(labels, decoded(set.blocks(), place), boundaryTest(matchers), maxSamples, pacer)
}

/** The boundaries of a bucket view are no tags. */
function ofPart(part: ClassicPart, { matchers, samples }: Wanted): Wanted {
  const own = part === 'bucket' ? onTags(matchers.filter(({ name }) => name !== BOUNDARY_LABEL)) : samples.matchers
  return { matchers, samples: { ...samples, matchers: own, windows: undefined } }
}

async function aggregate(
  { reader, namespace, pacer }: Place,
  { matchers, after, upTo, ...request }: AggregateSelectRequest,
): Promise<AggregateSelection | undefined> {
  if (pacer.due(METRIC_CELLS)) await pacer.pause()
  const { names, others } = splitMatchers(matchers)
  const [metric, ...more] = MetricCatalog.of(await reader.schema(namespace)).select(names)
  if (metric === undefined || metric.part !== undefined || more.length > 0) return undefined
  const { measurement, field } = metric
  const set = await unlessDropped(
    reader.aggregate!({ ...request, namespace, measurement, field, matchers: onTags(others), start: nanoseconds(after + 1), end: nanoseconds(upTo + 1) }),
  )
  if (set === undefined) return undefined
  const { groups, values, present, samples } = set
  const labels = new LabelList(Array.from({ length: groups.length }, (_, i) => new Labels(groups.at(i))))
  return { labels: markDistinct(labels), values, present, metric: metric.name, samples }
}

function onTags(matchers: readonly LabelMatcher[]): Matcher[] {
  return matchers.map(({ name, op, value }) => ({ tag: name, op, value }))
}

const NOTHING: Selection = { labels: new LabelList([]), blocks: () => none() }

async function* none(): AsyncGenerator<SampleBlock> {}

async function* mapped(blocks: AsyncIterable<SampleBlock>, map: (block: SampleBlock) => SampleBlock): AsyncGenerator<SampleBlock> {
  for await (const block of blocks) yield map(block)
}

function storedOf(set: SampleSet, place: Place): Pick<Selection, 'stored'> {
  return set.stored === undefined ? {} : { stored: () => decoded(set.stored!(), place) }
}

/** In turns: what reads blocks counts samples, and a block may take long that has none, of each of very many metrics. */
async function* decoded<T extends SampleRows | StoredRows>(
  blocks: AsyncIterable<T>,
  { pacer, room }: Place,
): AsyncGenerator<SampleBlock | Extract<T, StoredRows>> {
  const decoder = new BlockDecoder()
  for await (const block of blocks) {
    yield 'runs' in block ? (block as Extract<T, StoredRows>) : decoder.decode(block as SampleRows)
    const free = room()
    if (free !== undefined) await free
    if (pacer.due(METRIC_CELLS)) await pacer.pause()
  }
}

class BlockDecoder {
  private histograms: HistogramDecoder | undefined

  decode({ first, starts, times, values, kinds, histograms: encoded, ordinals }: SampleRows): SampleBlock {
    if (encoded !== undefined) this.histograms ??= new HistogramDecoder()
    const histograms = encoded?.map((bytes) => (bytes === undefined ? undefined : this.histograms?.decode(bytes, 0, bytes.length)))
    return { first, starts, times, values, kinds, histograms, ordinals }
  }
}

function boundaryTest(matchers: readonly LabelMatcher[]): (text: string) => boolean {
  const own = matchers.filter(({ name }) => name === BOUNDARY_LABEL)
  const time = new PatternTime(BOUNDARY_LABEL, own.filter(({ op }) => op === '=~' || op === '!~').length)
  const tests = own.map(({ op, value }) => {
    if (op === '=' || op === '!=') return (text: string) => (text === value) === (op === '=')
    const pattern = time.spend(() => new TextPattern(value))
    return (text: string) => time.spend(() => pattern.test(text)) === (op === '=~')
  })
  return (text) => tests.every((test) => test(text))
}
