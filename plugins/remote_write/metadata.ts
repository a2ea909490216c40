/**
 * What senders say of their metrics, bounded: the service `metric_metadata`. Pure; `metadata-keeper.ts` puts it on disk.
 */
import type { MetricMetadata, MetricMetadataEntry } from 'svcdb'
import { FifoMap } from 'svcdb/lib/cache'

export type NoteMetadata = (entry: MetricMetadataEntry) => void

/** The enum MetricType, which has the same numbers in both versions, in the words of Prometheus' API. */
export const METRIC_TYPES: readonly string[] = ['unknown', 'counter', 'gauge', 'histogram', 'gaugehistogram', 'summary', 'info', 'stateset']

/** The largest max_metadata_text_bytes, and the rest of a character: longer texts are cut before they are handed in, as many metrics may refer to one. */
export const MAX_TEXT_BYTES = 65_536 + 3
/** Longer names are not kept: a key of the state store has its limit. */
const MAX_METRIC_BYTES = 1024
/** Stands in no name. */
const SEPARATOR = '\u0001'
/** What takes two bytes of a key each, the separator among them: no name of a metric has one. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\0-\u0004]/

const SUFFIXES: Record<string, readonly string[]> = {
  histogram: ['_bucket', '_count', '_sum'],
  gaugehistogram: ['_bucket', '_gcount', '_gsum'],
  summary: ['_count', '_sum'],
}

/** The name that metadata goes by: series of classic histograms and summaries have suffixes, their family has none. */
export function familyOf(series: string, type: string): string {
  const suffix = SUFFIXES[type]?.find((each) => series.endsWith(each) && series.length > each.length)
  return suffix === undefined ? series : series.slice(0, -suffix.length)
}

interface MetadataLimits {
  metrics: number
  perMetric: number
  textBytes: number
}

/** As stored: the different things said of one metric, the newest first. */
export interface MetricRecord {
  namespace: string
  metric: string
  said: { type: string; help: string; unit: string }[]
}

export class MetadataStore implements MetricMetadata {
  /** Keys whose records have changed since they were last put away. */
  readonly changed = new Set<string>()
  /** Metrics whose metadata found no room. */
  dropped = 0
  private readonly records = new Map<string, FifoMap<string, MetricRecord>>()
  private readonly limits: MetadataLimits
  private size = 0

  constructor(limits: MetadataLimits) {
    this.limits = limits
  }

  *list(namespace: string): Iterable<MetricMetadataEntry> {
    for (const { metric, said } of this.records.get(namespace)?.values() ?? []) for (const each of said) yield { metric, ...each }
  }

  note(namespace: string, entry: MetricMetadataEntry): void {
    const { metric, type } = entry
    if (metric === '' || CONTROL.test(metric)) return
    const help = this.cut(entry.help)
    const unit = this.cut(entry.unit)
    const record = this.record(namespace, metric)
    if (record === undefined) return
    const { said } = record
    if (said.some((each) => each.type === type && each.help === help && each.unit === unit)) return
    said.unshift({ type, help, unit })
    if (said.length > this.limits.perMetric) said.length = this.limits.perMetric
    this.changed.add(keyOf(record))
  }

  /** Takes in what was put away. */
  load(records: Iterable<MetricRecord>): void {
    for (const { namespace, metric, said } of records) {
      const record = this.record(namespace, metric)
      if (record !== undefined) record.said = said.slice(0, this.limits.perMetric)
    }
    this.changed.clear()
  }

  /** Takes in what another node has put away; undefined = it has removed it. What has changed here since stays. */
  take(key: string, kept: MetricRecord | undefined): void {
    if (this.changed.has(key)) return
    const [namespace, metric] = key.split(SEPARATOR)
    if (kept !== undefined) {
      const record = this.record(namespace, metric)
      if (record !== undefined) record.said = kept.said.slice(0, this.limits.perMetric)
    } else if (this.records.get(namespace)?.delete(metric)) this.size--
  }

  /** The records that have changed, which from now on have not; undefined = it is gone. */
  takeChanged(): { key: string; record: MetricRecord | undefined }[] {
    const taken = [...this.changed].map((key) => ({ key, record: this.at(key) }))
    this.changed.clear()
    return taken
  }

  /** Forgets a namespace. */
  forget(namespace: string): void {
    this.size -= this.records.get(namespace)?.size ?? 0
    this.records.delete(namespace)
  }

  /** How the keys of a namespace's records begin. */
  prefixOf(namespace: string): string {
    return namespace + SEPARATOR
  }

  private at(key: string): MetricRecord | undefined {
    const [namespace, metric] = key.split(SEPARATOR)
    return this.records.get(namespace)?.get(metric)
  }

  private record(namespace: string, metric: string): MetricRecord | undefined {
    let metrics = this.records.get(namespace)
    const known = metrics?.get(metric)
    if (known !== undefined) return known
    const isFull = this.size >= this.limits.metrics
    if (Buffer.byteLength(metric) > MAX_METRIC_BYTES || (isFull && !this.makeRoom(namespace, metrics?.size ?? 0))) {
      this.dropped++
      return undefined
    }
    if (metrics === undefined) this.records.set(namespace, (metrics = new FifoMap()))
    const record: MetricRecord = { namespace, metric, said: [] }
    metrics.set(metric, record)
    this.size++
    return record
  }

  /** In favour of a namespace that has less than its share: at the cost of the one that has most. @returns whether there is room now. */
  private makeRoom(namespace: string, size: number): boolean {
    const namespaces = this.records.size + (this.records.has(namespace) ? 0 : 1)
    if (size + 1 > this.limits.metrics / namespaces) return false
    let most: FifoMap<string, MetricRecord> | undefined
    for (const metrics of this.records.values()) if (metrics.size > (most?.size ?? 0)) most = metrics
    const oldest = most?.get(most.oldest() ?? '')
    if (most === undefined || oldest === undefined) return false
    most.delete(oldest.metric)
    if (most.size === 0) this.records.delete(oldest.namespace)
    this.changed.add(keyOf(oldest))
    this.size--
    this.dropped++
    return true
  }

  private cut(text: string): string {
    const limit = this.limits.textBytes
    if (text.length * 3 <= limit) return text
    const bytes = Buffer.from(text)
    if (bytes.length <= limit) return text
    let end = limit
    while ((bytes[end] & 0xc0) === 0x80) end-- // not within a character
    return bytes.toString('utf8', 0, end)
  }
}

function keyOf({ namespace, metric }: MetricRecord): string {
  return namespace + SEPARATOR + metric
}
