/**
 * Series recognised by the bytes that stand for their labels in a request, to their number and metric. One for each namespace and version.
 * Senders repeat their order, so the series that came after the last one is tried before anything is hashed.
 */
import type { SeriesResolver } from 'svcdb'
import { KeyTable } from 'svcdb/lib/columns'
import type { SlotMemory } from 'svcdb/lib/snappy'
import type { LabelSet } from './label-set.ts'
import { type Metric, Metrics } from './metric.ts'
import { SeriesRuns } from './series-runs.ts'

/** Metrics are kept beyond the series that named them; so many more than there are series, and all are forgotten. */
const SPARE_METRICS = 65_536

export class SeriesCache {
  readonly keys: KeyTable
  /** What the last `find` or `add` found. */
  series = 0
  metric!: Metric
  /** Entry of the series before, -1 = none. */
  private last = -1
  private epoch: number
  /** Requests that lay in the thread's memory. */
  private requests = 0
  private runs: SeriesRuns | undefined
  private readonly metrics: Metrics
  private readonly resolver: SeriesResolver

  constructor(resolver: SeriesResolver, namespace: string, maxBytes: number, seed: number) {
    this.keys = new KeyTable(maxBytes, seed)
    this.metrics = new Metrics(resolver, namespace)
    this.resolver = resolver
    this.epoch = resolver.epoch
  }

  /** Call before each request. */
  begin(): void {
    if (this.epoch !== this.resolver.epoch || this.metrics.list.length > this.keys.size + SPARE_METRICS) this.clear()
  }

  clear(): void {
    this.keys.clear()
    this.metrics.clear()
    this.last = -1
    this.epoch = this.resolver.epoch
  }

  /**
   * Reads runs of series of a request that lies in this memory, the only one that requests lie in. @returns undefined for the first, which knows no series, and may be the only
   * one of a namespace that makes room for others; and where it cannot be done.
   */
  runsIn(memory: SlotMemory): SeriesRuns | undefined {
    if (++this.requests === 2) this.runs = SeriesRuns.of(memory, this.keys)
    return this.runs
  }

  /** Place of the series before among those known, -1 = none. */
  get lastEntry(): number {
    return this.last
  }

  /** Where the key of the series that is expected next ends, if view[start ...] begins with it; else -1. */
  expectedEnd(view: DataView, start: number): number {
    return this.last < 0 ? -1 : this.keys.matchEnd(this.keys.following[this.last], view, start)
  }

  /** Takes the series that was expected. */
  takeExpected(): void {
    this.take(this.keys.following[this.last])
  }

  /** Whether the series of the key view[start, end) is known; then it is taken. */
  find(view: DataView, start: number, end: number): boolean {
    const entry = this.keys.find(view, start, end, this.keys.hashOf(view, start, end))
    if (entry < 0) return false
    this.follow(entry)
    this.take(entry)
    return true
  }

  /**
   * Takes a series that was not found. @param bytes its key lies in [start, end), the view is of the same; start -1 = it cannot be kept.
   * @throws SvcError when the series is refused.
   */
  add(labels: LabelSet, bytes: Uint8Array, view: DataView, start: number, end: number): void {
    const place = this.metrics.find(labels.metricName())
    this.metric = this.metrics.list[place]
    this.series = labels.resolve(this.resolver, this.metric.ref)
    if (start < 0) return
    const { size } = this.keys
    const entry = this.keys.add(bytes, start, end, this.keys.hashOf(view, start, end), this.series, place)
    if (this.keys.size <= size) this.last = -1 // it was full, and has been emptied
    if (entry >= 0) this.follow(entry)
  }

  private take(entry: number): void {
    this.last = entry
    this.series = this.keys.series[entry]
    this.metric = this.metrics.list[this.keys.group[entry]]
  }

  /** Remembers that the series of `entry` came after the last one. */
  private follow(entry: number): void {
    if (this.last >= 0) this.keys.following[this.last] = entry
    this.last = entry
  }
}
