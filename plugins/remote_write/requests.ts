/** Decodes requests, whatever they came by: with the configured limits, and with what is counted and kept of each. */
import { randomInt } from 'node:crypto'
import { type Counter, EXEMPLARS, type Exemplars, type MetricMetadataEntry, type Svc } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { inTurns } from 'svcdb/lib/event-loop'
import type { SlotMemory } from 'svcdb/lib/snappy'
import type { RemoteWriteConfig } from './config.ts'
import type { Version } from './content.ts'
import { RequestDecoder } from './decoder.ts'
import type { MetadataStore } from './metadata.ts'
import type { MetadataKeeper } from './metadata-keeper.ts'
import type { Outcome } from './outcome.ts'

interface Request {
  namespace: string
  version: Version
  /** Decompressed. */
  message: Uint8Array
  floats: WriteBatch
  /** Called at most once, with the first histogram. */
  histograms(): WriteBatch
  /** Asked before each further turn: why nobody waits any more. */
  ended?(): Error | undefined
}

export class Requests {
  private readonly svc: Svc
  private readonly config: RemoteWriteConfig
  private readonly memory: () => SlotMemory | undefined
  private readonly metadata: MetadataStore
  private readonly keeper: MetadataKeeper
  private readonly exemplars: Counter
  private readonly droppedMetadata: Counter

  /** @param memory where large messages lie. */
  constructor(svc: Svc, config: RemoteWriteConfig, memory: () => SlotMemory | undefined, metadata: MetadataStore, keeper: MetadataKeeper) {
    this.svc = svc
    this.config = config
    this.memory = memory
    this.metadata = metadata
    this.keeper = keeper
    this.exemplars = svc.metrics.counter('remote_write_exemplars_dropped_total', 'Exemplars received by remote write that are not kept')
    this.droppedMetadata = svc.metrics.counter('remote_write_metadata_dropped_total', 'Times that metadata of a metric found no room')
  }

  newDecoder(namespace: string): RequestDecoder {
    const { series_cache_bytes: maxCacheBytes, max_buckets_per_histogram: maxBuckets } = this.config
    return new RequestDecoder(this.svc.storage.resolver, namespace, { maxCacheBytes, maxBuckets, memory: this.memory, seed: randomInt(2 ** 31) })
  }

  /** @param decoder of the request's namespace. */
  async decode(decoder: RequestDecoder, { namespace, version, message, floats, histograms, ended }: Request): Promise<Outcome> {
    const options = {
      maxSamples: this.config.max_samples_per_write,
      maxFailures: this.config.max_reported_errors,
      keepBoth: this.config.float_and_histogram === 'keep_both',
      skipNonFinite: this.config.non_finite === 'skip',
      exemplars: this.svc.provided.has(EXEMPLARS),
    }
    try {
      const outcome = await decoder.turns.run(
        () => decoder.decode(version, message, floats, histograms, (entry) => this.note(namespace, entry), options),
        ended,
      )
      this.svc.ingest.countNonFinite(outcome.nonFinite)
      return outcome
    } finally {
      this.keeper.schedule()
    }
  }

  /** Hands over the exemplars of what was written. @returns how many are kept. */
  async keep(namespace: string, { exemplars, found }: Outcome): Promise<number> {
    if (exemplars === 0) return 0
    const store = found.length === 0 ? undefined : this.svc.find<Exemplars>(EXEMPLARS)
    const kept = store === undefined ? 0 : await inTurns(store.add(namespace, found))
    this.exemplars.inc(exemplars - kept)
    return kept
  }

  /** Takes in metadata, and counts what finds no room. */
  note(namespace: string, entry: MetricMetadataEntry): void {
    const { dropped } = this.metadata
    this.metadata.note(namespace, entry)
    if (this.metadata.dropped > dropped) this.droppedMetadata.inc(this.metadata.dropped - dropped)
  }
}
