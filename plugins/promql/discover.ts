/** Label names, label values and series of the storage that have samples in a time range. */
import type { Reader } from 'svcdb'
import type { SampleRequest, SeriesSet } from 'svcdb/lib/columns'
import type { LabelMatcher } from './ast.ts'
import type { Count, DatabaseCounts, DiscoverRequest, Discovery } from './discovery-contract.ts'
import { Pacer } from './eval/context.ts'
import { LabelList, type Labels, METRIC_NAME } from './labels.ts'
import { unlessDropped } from './storage/dropped.ts'
import { firstLabels } from './storage/first-labels.ts'
import { LabelValues } from './storage/label-values.ts'
import { type Metric, MetricCatalog, splitMatchers } from './storage/metric-catalog.ts'
import { JoinedLabels, MetricLabels } from './storage/metric-labels.ts'
import { type MetricsOf, metricsByName } from './storage/metrics-by-name.ts'
import { METRIC_CELLS, nanoseconds } from './storage-source.ts'
import { sortTexts } from './text-order.ts'

const EVERYTHING: readonly (readonly LabelMatcher[])[] = [[]]

/** What of an answer is held, in bytes, about: a label set beside its texts, which all have in common; a pair of a name and a value, with its count; a value among others. */
const SERIES_BYTES = 200
const PAIR_BYTES = 160
const VALUE_BYTES = 64
/** A metric in the list of a selector. */
const LISTED_BYTES = 8

/** Told what is going to be held in all, before it is; may have to be waited for. */
type Room = (bytes: number) => Promise<void> | undefined

export function storageDiscovery(reader: Reader, namespace: string, room: Room = () => undefined): Discovery {
  const search = new Search(reader, namespace, room)
  return {
    labelNames: (request) => search.labelNames(request),
    labelValues: (name, request) => search.labelValues(name, request),
    series: (request) => search.series(request),
    counts: (limit, signal) => search.counts(limit, signal),
  }
}

type TagMatchers = SampleRequest['matchers']
type Named = { metric: Metric; of: TagMatchers }
type Active = { metric: Metric; set: SeriesSet }

class Search {
  private readonly reader: Reader
  private readonly namespace: string
  private readonly room: Room
  /** Bytes of the lists that selectors have of metrics. */
  private listed = 0

  constructor(reader: Reader, namespace: string, room: Room) {
    this.reader = reader
    this.namespace = namespace
    this.room = (bytes) => room(this.listed + bytes)
  }

  async labelNames(request: DiscoverRequest): Promise<string[]> {
    const names = new Set<string>()
    const news = ({ tags }: SeriesSet): boolean => !names.has(METRIC_NAME) || tags.keys().some((key) => !names.has(key))
    for await (const { set } of this.active(request, news)) {
      names.add(METRIC_NAME)
      for (const key of set.tags.keys()) if (!names.has(key) && set.tags.column(key).codes.some((code) => code >= 0)) names.add(key)
    }
    return sortTexts([...names])
  }

  async labelValues(name: string, request: DiscoverRequest): Promise<readonly string[]> {
    if (name === METRIC_NAME) {
      const names = new Set<string>()
      for await (const { metric } of this.active(request)) names.add(metric.name)
      return sortTexts([...names])
    }
    const values = new LabelValues(name)
    for await (const { set } of this.active(request, (matching) => values.lacks(matching))) {
      await this.room((values.size + values.mostOf(set)) * VALUE_BYTES)
      values.add(set)
    }
    return values.sorted()
  }

  async *series(request: DiscoverRequest): AsyncGenerator<Labels> {
    const pacer = new Pacer(request.signal)
    let left = request.limit === 0 ? Number.POSITIVE_INFINITY : request.limit
    for await (const same of this.named(request, pacer)) {
      const first = await this.firstOf(same, request, left, pacer)
      for (const one of first) yield one
      left -= first.length
      if (left <= 0) return
    }
  }

  /** Of the series of one name, by their labels, each once. */
  private async firstOf(same: readonly Named[], request: DiscoverRequest, most: number, pacer: Pacer): Promise<readonly Labels[]> {
    let first = new LabelList([])
    let parts: MetricLabels[] = []
    let added = 0
    const unite = async (): Promise<void> => {
      await this.room((first.length + Math.min(added, most)) * SERIES_BYTES)
      first = new LabelList(await firstLabels(new JoinedLabels([first, ...parts]), most, pacer))
      parts = []
      added = 0
    }
    for await (const { metric, set } of this.activeOf(same, request, pacer)) {
      parts.push(new MetricLabels(metric, set))
      added += set.series.length
      // So that many selectors of few series each do not go through all of them again and again.
      if (added >= first.length) await unite()
    }
    if (added > 0) await unite()
    return first.list
  }

  async counts(limit: number, signal: AbortSignal): Promise<DatabaseCounts> {
    const byMetric = new Map<string, number>()
    const met = new Set<string>()
    const values = new Map<string, Set<string>>()
    const pairs = new Map<string, number>()
    let series = 0
    const pacer = new Pacer(signal)
    for (const { name, measurement, field } of MetricCatalog.of(await this.reader.schema(this.namespace)).metrics) {
      if (pacer.due(METRIC_CELLS)) await pacer.pause()
      // Fields of a measurement that share a name have their series in common.
      const own = JSON.stringify([name, measurement])
      if (met.has(own)) continue
      met.add(own)
      const set = await unlessDropped(this.reader.samples({ namespace: this.namespace, measurement, field }))
      if (set === undefined) continue
      const { tags, series: numbers } = set
      let news = 0
      for (const key of tags.keys()) news += Math.min(numbers.length, tags.column(key).texts.length)
      await this.room((pairs.size + news) * PAIR_BYTES)
      series += numbers.length
      count(byMetric, name, numbers.length)
      count(pairs, `${METRIC_NAME}=${name}`, numbers.length)
      add(values, METRIC_NAME, name)
      for (const key of tags.keys()) {
        const { codes, texts } = tags.column(key)
        const perCode = new Int32Array(texts.length)
        for (let i = 0; i < codes.length; i++) if (codes[i] >= 0) perCode[codes[i]]++
        for (const [code, n] of perCode.entries()) {
          if (n === 0) continue
          count(pairs, `${key}=${texts[code]}`, n)
          add(values, key, texts[code])
        }
      }
    }
    const labels = [...values]
    return {
      series,
      labelPairs: pairs.size,
      seriesByMetric: largest(listed(byMetric), limit),
      valuesByLabel: largest(
        labels.map(([name, own]) => ({ name, value: own.size })),
        limit,
      ),
      bytesByLabel: largest(
        labels.map(([name, own]) => ({ name, value: bytesOf(own) })),
        limit,
      ),
      seriesByPair: largest(listed(pairs), limit),
    }
  }

  /** As `activeOf`, of all that the selectors name. */
  private async *active(request: DiscoverRequest, news?: (matching: SeriesSet) => boolean): AsyncGenerator<Active> {
    const pacer = new Pacer(request.signal)
    for await (const same of this.named(request, pacer)) yield* this.activeOf(same, request, pacer, news)
  }

  /** The metrics that the selectors name, with what each selector asks of their tags: those of one name together, by name. */
  private async *named({ selectors }: DiscoverRequest, pacer: Pacer): AsyncGenerator<Named[]> {
    const catalog = MetricCatalog.of(await this.reader.schema(this.namespace))
    const lists: MetricsOf<TagMatchers>[] = []
    this.listed = 0
    for (const matchers of selectors.length === 0 ? EVERYTHING : selectors) {
      if (pacer.due(METRIC_CELLS)) await pacer.pause()
      const { names, others } = splitMatchers(matchers)
      const metrics = catalog.select(names)
      lists.push({ metrics, of: others.map(({ name, op, value }) => ({ tag: name, op, value })) })
      // The catalog's own list is there anyway.
      if (metrics !== catalog.metrics) this.listed += metrics.length * LISTED_BYTES
      await this.room(0)
    }
    yield* metricsByName(lists)
  }

  /**
   * Metrics with their series that match and have samples in the range.
   * @param news whether the series that match, with samples or without, can tell anything that is not known yet: else nothing is read. Absent: they can.
   */
  private async *activeOf(
    same: readonly Named[],
    { start, end }: DiscoverRequest,
    pacer: Pacer,
    news?: (matching: SeriesSet) => boolean,
  ): AsyncGenerator<Active> {
    const { reader, namespace } = this
    const range = { start: nanoseconds(start), end: nanoseconds(end + 1) }
    for (const { metric, of: matchers } of same) {
      if (pacer.due(METRIC_CELLS)) await pacer.pause()
      const wanted: SampleRequest = { namespace, measurement: metric.measurement, field: metric.field, matchers, ...range }
      if (news !== undefined) {
        const matching = await unlessDropped(reader.samples(wanted))
        if (matching === undefined || matching.series.length === 0 || !news(matching)) continue
      }
      const set = await unlessDropped(reader.activeSeries(wanted))
      if (set !== undefined && set.series.length > 0) yield { metric, set }
    }
  }
}

function count(counts: Map<string, number>, name: string, n: number): void {
  counts.set(name, (counts.get(name) ?? 0) + n)
}

function listed(counts: ReadonlyMap<string, number>): Count[] {
  return [...counts].map(([name, value]) => ({ name, value }))
}

function add(values: Map<string, Set<string>>, name: string, value: string): void {
  const known = values.get(name)
  if (known === undefined) values.set(name, new Set([value]))
  else known.add(value)
}

function bytesOf(values: Iterable<string>): number {
  let bytes = 0
  for (const value of values) bytes += Buffer.byteLength(value)
  return bytes
}

function largest(counts: Count[], limit: number): Count[] {
  return counts.sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1)).slice(0, limit)
}
