/**
 * What a namespace's requests have named so far: resources, scopes and metrics, each recognised by the bytes that say it, and the series
 * that their attributes stand for. A stream is one metric, of one kind, of one resource (and scope, where that counts).
 */

import type { MetricMetadataEntry, SeriesResolver } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { ProtobufReader } from 'svcdb/lib/protobuf'
import { AttributeError, attributeText, keyValueAt, ValueBudget } from './attribute-value.ts'
import { Metric } from './metric.ts'
import { type MetricHeader, metadataOf, metricName } from './metric-header.ts'
import { NestedKeys } from './nested-keys.ts'
import { PlainTags } from './plain-tags.ts'
import { type Attributes, joinedTags, resourceTags, tagsOf } from './tag-set.ts'

/** Metrics and streams are kept beyond the bytes that named them, where those found no room; so many more and all are forgotten. */
const SPARE = 65_536
/** Of a resource or a data point: the most tags that an engine can be set to take; it decides on the rest. */
const MAX_ATTRIBUTES = 1024
/** Of a resource, a scope, a metric's header, the attributes of a data point: they are hashed, kept and taken apart in one go. */
const MAX_TAG_BYTES = 1_048_576
/** Of the tags of resources, scopes and series that are not known yet, in one request: those of a resource are taken apart again for each of its series. */
const MAX_NEW_BYTES = 268_435_456
/** Of a tag that is kept with its resource or scope, besides its texts, and of a resource, scope or metric, about. */
const TAG_BYTES = 64
const ENTRY_BYTES = 128
/** Of those, between two places where the work can be interrupted. */
const SLICE_BYTES = 1_048_576
/** Field of the message Resource. */
const RESOURCE_ATTRIBUTES = 1
/** Kinds and flags of a metric are below this. */
const KINDS = 64
const NO_TAGS: readonly Attributes[] = []

export interface Bytes {
  bytes: Uint8Array
  view: DataView
  start: number
  end: number
}

/** Of a resource, and of a scope behind it, which has its resource's by reference: a request may have very many scopes. */
export type OriginTags = readonly Attributes[]

export interface Stream {
  readonly id: number
  readonly metric: Metric
  readonly tags: OriginTags
  /** That they were sent in. */
  readonly tagBytes: number
}

interface TagOptions {
  /** Names in the form of Prometheus. */
  prometheus: boolean
  /** Keys of attributes that are no tags. */
  dropped: ReadonlySet<string>
}

interface Origin {
  /** Why its points cannot be stored. */
  problem: string | undefined
  tags: OriginTags
  /** That they were sent in. */
  bytes: number
}

export class Streams {
  private readonly resources: NestedKeys
  private readonly scopes: NestedKeys
  private readonly metrics: NestedKeys
  private readonly series: NestedKeys
  private readonly origins: Origin[] = []
  private readonly list: Stream[] = []
  private readonly byName = new Map<string, Metric>()
  private readonly reader = new ProtobufReader()
  private readonly plain = new PlainTags()
  private readonly resolver: SeriesResolver
  private readonly namespace: string
  private readonly options: TagOptions
  private readonly maxBytes: number
  private epoch: number
  /** The epoch that numbers in `series` are of. */
  private seriesEpoch: number
  /** Bytes that resources, scopes and metrics take beside those that named them, about. */
  private kept = 0
  private takenInAll = 0
  /** Bytes of tags that were taken apart since others had their turn. */
  private taken = 0

  /** @param seed any number, best a random one. */
  constructor(resolver: SeriesResolver, namespace: string, options: TagOptions, maxBytes: number, seed: number) {
    this.resolver = resolver
    this.namespace = namespace
    this.options = options
    this.maxBytes = maxBytes
    this.epoch = this.seriesEpoch = resolver.epoch
    // These three are looked at between requests: numbers handed out within one must stay good.
    this.resources = new NestedKeys(Number.MAX_SAFE_INTEGER, seed)
    this.scopes = new NestedKeys(Number.MAX_SAFE_INTEGER, seed)
    this.metrics = new NestedKeys(Number.MAX_SAFE_INTEGER, seed)
    this.series = new NestedKeys(maxBytes, seed)
  }

  /** Call before each request. */
  begin(): void {
    this.taken = this.takenInAll = 0
    const named = this.resources.table.bytes + this.scopes.table.bytes + this.metrics.table.bytes
    const spare = this.origins.length + this.list.length - this.resources.table.size - this.scopes.table.size - this.metrics.table.size
    if (this.epoch === this.resolver.epoch && named + this.kept <= this.maxBytes && spare <= SPARE) return
    for (const keys of [this.resources, this.scopes, this.metrics, this.series]) keys.clear()
    this.origins.length = 0
    this.list.length = 0
    this.byName.clear()
    this.kept = 0
    this.epoch = this.seriesEpoch = this.resolver.epoch
  }

  /** Call when others had their turn: numbers of series may have been given back. What was handed out of the rest stays good until the next request. */
  resume(): void {
    this.taken = 0
    if (this.seriesEpoch === this.resolver.epoch) return
    this.series.clear()
    this.seriesEpoch = this.resolver.epoch
  }

  /** So much was taken apart that others should have their turn. */
  get tired(): boolean {
    return this.taken > SLICE_BYTES
  }

  /** Lets go of a request's bytes. */
  release(): void {
    this.reader.release()
  }

  /** The number of a resource. @param at the message Resource. @throws BAD_REQUEST when it is none. */
  resource(at: Bytes): number {
    if (at.end - at.start > MAX_TAG_BYTES) {
      const problem = `the attributes of the resource have ${at.end - at.start} bytes; they have at most ${MAX_TAG_BYTES}`
      return this.origins.push({ problem, tags: NO_TAGS, bytes: 0 }) - 1
    }
    const known = this.resources.find(at.view, at.start, at.end, 0)
    if (known >= 0) return known
    const origin = this.resourceOrigin(at)
    this.take(origin.tags, at)
    return this.keep(this.resources, at, 0, this.origins.push(origin) - 1)
  }

  /** The number of a resource together with a scope. @param at the message InstrumentationScope. */
  scope(resource: number, at: Bytes): number {
    if (at.end - at.start > MAX_TAG_BYTES) throw new SvcError('BAD_REQUEST', `cannot read the message: a scope has more than ${MAX_TAG_BYTES} bytes`)
    const known = this.scopes.find(at.view, at.start, at.end, resource)
    if (known >= 0) return known
    const { problem, tags, bytes } = this.origins[resource]
    const own = this.scopeTags(at)
    this.take([own], at)
    return this.keep(this.scopes, at, resource, this.origins.push({ problem, tags: [...tags, own], bytes: bytes + at.end - at.start }) - 1)
  }

  /** The stream of a metric. @param at the bytes of its name, description and unit. @throws INVALID_POINT when its points cannot be stored. */
  stream(origin: number, at: Bytes, kind: number, header: () => MetricHeader, note: (entry: MetricMetadataEntry) => void): Stream {
    if (at.end - at.start > MAX_TAG_BYTES)
      throw new SvcError('INVALID_POINT', `cannot write points of a metric: its name, description and unit have more than ${MAX_TAG_BYTES} bytes`)
    const parent = origin * KINDS + kind
    const known = this.metrics.find(at.view, at.start, at.end, parent)
    if (known >= 0) return this.list[known]
    this.take(NO_TAGS, at)
    const described = header()
    const { problem, tags, bytes } = this.origins[origin]
    if (problem !== undefined) throw new SvcError('INVALID_POINT', `cannot write points of metric "${described.name}": ${problem}`)
    const metric = this.metric(metricName(described, this.options.prometheus))
    note(metadataOf(described, metric.ref.name, this.options.prometheus))
    const stream: Stream = { id: this.list.length, metric, tags, tagBytes: bytes }
    this.list.push(stream)
    this.keep(this.metrics, at, parent, stream.id)
    return stream
  }

  /** The series that is expected next, if its attributes are view[start, end); else -1. */
  expected(stream: Stream, view: DataView, start: number, end: number): number {
    return this.series.expected(view, start, end, stream.id)
  }

  /**
   * The series of a data point. @param at its attributes, as fields of a message.
   * @throws SvcError when it is refused; BAD_REQUEST: the whole message is.
   */
  seriesOf(stream: Stream, at: Bytes): number {
    if (at.end - at.start > MAX_TAG_BYTES)
      throw new SvcError('INVALID_POINT', `cannot write point of metric "${stream.metric.ref.name}": its attributes have more than ${MAX_TAG_BYTES} bytes`)
    const known = this.series.find(at.view, at.start, at.end, stream.id)
    if (known >= 0) return known
    const series = this.newSeries(stream, at)
    this.series.add(at.bytes, at.view, at.start, at.end, stream.id, series)
    return series
  }

  /** Labels of a data point's series as PromQL shows them; undefined where its attributes are none. @param name of the metric. */
  labelsOf(stream: Stream, at: Bytes, name: string): string[] | undefined {
    try {
      return ['__name__', name, ...joinedTags(...stream.tags, tagsOf(this.attributes(at, undefined), this.options.prometheus))]
    } catch (error) {
      if (error instanceof AttributeError) return undefined
      throw error
    }
  }

  private newSeries(stream: Stream, at: Bytes): number {
    this.spend(stream.tagBytes + at.end - at.start)
    const { prometheus, dropped } = this.options
    if (!prometheus && dropped.size === 0) {
      const series = this.plain.resolve(this.resolver, stream.metric.ref, stream.tags, at)
      if (series >= 0) return series
    }
    let attributes: Attributes
    try {
      attributes = this.attributes(at, undefined)
    } catch (error) {
      if (!(error instanceof AttributeError)) throw error
      throw new SvcError('INVALID_POINT', `cannot write point of metric "${stream.metric.ref.name}": an attribute cannot be a tag: ${error.message}`)
    }
    const tags = attributes.size === 0 ? joinedTags(...stream.tags) : joinedTags(...stream.tags, tagsOf(attributes, prometheus))
    return this.resolver.series(stream.metric.ref, tags)
  }

  /** Counts what is kept of a resource, a scope or a metric. @param at the bytes that say it. */
  private take(tags: OriginTags, at: Bytes): void {
    let bytes = ENTRY_BYTES
    for (const set of tags) for (const [key, value] of set) bytes += key.length + value.length + TAG_BYTES
    this.kept += bytes
    this.spend(Math.max(bytes, at.end - at.start))
  }

  /** Counts what was taken apart. @throws BAD_REQUEST when it is more than one request may have. */
  private spend(bytes: number): void {
    this.taken += bytes
    this.takenInAll += bytes
    if (this.takenInAll <= MAX_NEW_BYTES) return
    throw new SvcError(
      'BAD_REQUEST',
      `cannot read the message: resources, scopes and series that are not known take more than ${MAX_NEW_BYTES} bytes of attributes; send smaller batches`,
    )
  }

  private keep(keys: NestedKeys, { bytes, view, start, end }: Bytes, parent: number, value: number): number {
    keys.add(bytes, view, start, end, parent, value)
    return value
  }

  private metric(name: string): Metric {
    let metric = this.byName.get(name)
    if (metric === undefined) this.byName.set(name, (metric = new Metric(this.resolver.measurement(this.namespace, name))))
    return metric
  }

  private resourceOrigin(at: Bytes): Origin {
    try {
      const tags = resourceTags(this.attributes(at, RESOURCE_ATTRIBUTES), this.options.prometheus)
      return { problem: undefined, tags: [tags], bytes: at.end - at.start }
    } catch (error) {
      if (!(error instanceof AttributeError)) throw error
      return { problem: `an attribute of the resource cannot be a tag: ${error.message}`, tags: NO_TAGS, bytes: 0 }
    }
  }

  private scopeTags(at: Bytes): Attributes {
    const { reader } = this
    const named: Attributes = new Map()
    reader.begin(at.bytes.subarray(at.start, at.end))
    while (reader.next()) {
      const key = reader.field === 1 ? 'otel.scope.name' : reader.field === 2 ? 'otel.scope.version' : undefined
      if (key === undefined) {
        reader.skip()
        continue
      }
      const start = reader.span()
      named.set(key, Buffer.from(reader.bytes.subarray(start, reader.at)).toString('utf8'))
    }
    return tagsOf(named, this.options.prometheus)
  }

  /** @param field of the attributes; undefined = all fields are. @throws AttributeError, BAD_REQUEST. */
  private attributes({ bytes, start, end }: Bytes, field: number | undefined): Attributes {
    const { reader } = this
    const attributes: Attributes = new Map()
    const budget = new ValueBudget()
    let problem: AttributeError | undefined
    let count = 0
    reader.begin(bytes.subarray(start, end))
    while (reader.next()) {
      if (field !== undefined && reader.field !== field) {
        reader.skip()
        continue
      }
      const { at, end: whole } = reader
      try {
        if (++count > MAX_ATTRIBUTES) {
          problem ??= new AttributeError(`there are more than ${MAX_ATTRIBUTES}`)
          reader.span() // the rest must be a message all the same
          continue
        }
        const { key, start: from, end: to } = keyValueAt(reader)
        if (!this.options.dropped.has(key)) attributes.set(key, from < 0 ? '' : attributeText(reader, from, to, budget))
      } catch (error) {
        if (!(error instanceof AttributeError)) throw error
        problem ??= error
        // The rest must be a message all the same.
        reader.at = at
        reader.end = whole
        reader.span()
      }
    }
    if (problem !== undefined) throw problem
    return attributes
  }
}
