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
  /** Of all metrics together, as `sizeOf` counts them. */
  bytes: number
  perMetric: number
  textBytes: number
}

/** As stored: the different things said of one metric, the newest first. */
export interface MetricRecord {
  namespace: string
  metric: string
  said: Said[]
}

interface Said {
  type: string
  help: string
  unit: string
}

/** The metrics of a namespace. */
interface Share {
  metrics: FifoMap<string, MetricRecord>
  bytes: number
}

export class MetadataStore implements MetricMetadata {
  /** Keys whose records have changed since they were last put away. */
  readonly changed = new Set<string>()
  /** Metrics whose metadata found no room. */
  dropped = 0
  private readonly shares = new Map<string, Share>()
  private readonly limits: MetadataLimits
  private size = 0
  private bytes = 0

  constructor(limits: MetadataLimits) {
    this.limits = limits
  }

  *list(namespace: string): Iterable<MetricMetadataEntry> {
    for (const { metric, said } of this.shares.get(namespace)?.metrics.values() ?? []) for (const each of said) yield { metric, ...each }
  }

  note(namespace: string, entry: MetricMetadataEntry): void {
    const { metric, type } = entry
    if (metric === '' || CONTROL.test(metric)) return
    const told = { type, help: this.cut(entry.help), unit: this.cut(entry.unit) }
    const said = this.at(namespace, metric)?.said ?? []
    if (said.some((each) => each.type === type && each.help === told.help && each.unit === told.unit)) return
    const all = [told, ...said].slice(0, this.limits.perMetric)
    // Where there is no room for both, what is new takes the place of what was said before.
    if (this.keep(namespace, metric, all) || (said.length > 0 && this.keep(namespace, metric, [told]))) this.changed.add(keyOf(namespace, metric))
    else this.dropped++
  }

  /** Takes in what was put away. */
  load(records: Iterable<MetricRecord>): void {
    for (const { namespace, metric, said } of records) this.keepOrDrop(namespace, metric, said)
    this.changed.clear()
  }

  /** Takes in what another node has put away; undefined = it has removed it. What has changed here since stays. */
  take(key: string, kept: MetricRecord | undefined): void {
    if (this.changed.has(key)) return
    const [namespace, metric] = key.split(SEPARATOR)
    if (kept === undefined) this.remove(namespace, metric)
    else this.keepOrDrop(namespace, metric, kept.said)
  }

  /** The records that have changed, which from now on have not; undefined = it is gone. */
  takeChanged(): { key: string; record: MetricRecord | undefined }[] {
    const taken = [...this.changed].map((key) => {
      const [namespace, metric] = key.split(SEPARATOR)
      return { key, record: this.at(namespace, metric) }
    })
    this.changed.clear()
    return taken
  }

  /** Forgets a namespace, and what has changed of it. */
  forget(namespace: string): void {
    for (const key of this.changed) if (key.startsWith(this.prefixOf(namespace))) this.changed.delete(key)
    const share = this.shares.get(namespace)
    this.size -= share?.metrics.size ?? 0
    this.bytes -= share?.bytes ?? 0
    this.shares.delete(namespace)
  }

  /** How the keys of a namespace's records begin. */
  prefixOf(namespace: string): string {
    return namespace + SEPARATOR
  }

  private at(namespace: string, metric: string): MetricRecord | undefined {
    return this.shares.get(namespace)?.metrics.get(metric)
  }

  private keepOrDrop(namespace: string, metric: string, said: readonly Said[]): void {
    if (!this.keep(namespace, metric, said.slice(0, this.limits.perMetric))) this.dropped++
  }

  /** Puts `said` in the place of what is known of the metric. @returns whether there was room; else all is as it was. */
  private keep(namespace: string, metric: string, said: Said[]): boolean {
    const known = this.at(namespace, metric)
    const more = sizeOf(metric, said) - (known === undefined ? 0 : sizeOf(metric, known.said))
    if (Buffer.byteLength(metric) > MAX_METRIC_BYTES || !this.makeRoom(namespace, known === undefined ? 1 : 0, more)) return false
    let share = this.shares.get(namespace)
    if (share === undefined) this.shares.set(namespace, (share = { metrics: new FifoMap(), bytes: 0 }))
    if (known === undefined) {
      share.metrics.set(metric, { namespace, metric, said })
      this.size++
    } else known.said = said
    share.bytes += more
    this.bytes += more
    return true
  }

  /** In favour of a namespace that has less than its share: at the cost of the one that has most. @returns whether there is room now. */
  private makeRoom(namespace: string, metrics: number, bytes: number): boolean {
    const { limits } = this
    const own = this.shares.get(namespace)
    const namespaces = this.shares.size + (own === undefined ? 1 : 0)
    const tooMany = () => metrics > 0 && this.size + metrics > limits.metrics
    const tooLarge = () => bytes > 0 && this.bytes + bytes > limits.bytes
    if (tooMany() && (own?.metrics.size ?? 0) + metrics > limits.metrics / namespaces) return false
    if (tooLarge() && (own?.bytes ?? 0) + bytes > limits.bytes / namespaces) return false
    // Who has less than its share is not who has most: no turn takes anything from the namespace itself.
    while (tooMany()) if (!this.removeOldest(this.most((share) => share.metrics.size))) return false
    while (tooLarge()) if (!this.removeOldest(this.most((share) => share.bytes))) return false
    return true
  }

  private most(of: (share: Share) => number): Share | undefined {
    let most: Share | undefined
    for (const share of this.shares.values()) if (most === undefined || of(share) > of(most)) most = share
    return most
  }

  private removeOldest(share: Share | undefined): boolean {
    const oldest = share?.metrics.get(share.metrics.oldest() ?? '')
    if (oldest === undefined) return false
    this.changed.add(keyOf(oldest.namespace, oldest.metric))
    this.remove(oldest.namespace, oldest.metric)
    this.dropped++
    return true
  }

  private remove(namespace: string, metric: string): void {
    const share = this.shares.get(namespace)
    const record = share?.metrics.get(metric)
    if (share === undefined || record === undefined) return
    const bytes = sizeOf(metric, record.said)
    share.metrics.delete(metric)
    share.bytes -= bytes
    this.bytes -= bytes
    this.size--
    if (share.metrics.size === 0) this.shares.delete(namespace)
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

function keyOf(namespace: string, metric: string): string {
  return namespace + SEPARATOR + metric
}

/** About the memory that a record takes: 300 bytes of one with a single short text, measured. */
function sizeOf(metric: string, said: readonly Said[]): number {
  let bytes = RECORD_BYTES + heldBytes(metric)
  for (const { help, unit } of said) bytes += SAID_BYTES + heldBytes(help) + heldBytes(unit)
  return bytes
}

/** V8 keeps two bytes of each character of a text that has one above U+00FF. */
function heldBytes(text: string): number {
  return WIDE.test(text) ? 2 * text.length : text.length
}

const RECORD_BYTES = 180
const SAID_BYTES = 90
const WIDE = /[^\0-\xff]/
