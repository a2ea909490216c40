/** Everything that one namespace's requests share: what was seen before, and the parts that read a request. */
import type { MetricMetadataEntry, SeriesResolver } from 'svcdb'
import { VALUE_FIELD, type WriteBatch } from 'svcdb/lib/columns'
import { OneByOne, type Work } from 'svcdb/lib/event-loop'
import type { DecodeOptions, Outcome } from './outcome.ts'
import { type BatchName, PointWriter } from './point-writer.ts'
import { MetricsRequest } from './request.ts'
import { Streams } from './streams.ts'

const GAUGE_FIELD = 'gauge'

export interface DecoderOptions {
  names: 'otel' | 'prometheus'
  scopeTags: boolean
  refuseDelta: boolean
  dropped: ReadonlySet<string>
  maxBuckets: number
  maxQuantiles: number
  /** Bytes of attributes kept. */
  maxCacheBytes: number
  /** Any number, best a random one: seeds the hash of attributes. */
  seed: number
}

export class OtlpDecoder {
  readonly turns = new OneByOne()
  private readonly writer: PointWriter
  private readonly request: MetricsRequest

  constructor(resolver: SeriesResolver, namespace: string, { names, dropped, maxCacheBytes, seed, ...options }: DecoderOptions) {
    const prometheus = names === 'prometheus'
    this.writer = new PointWriter(prometheus ? VALUE_FIELD : GAUGE_FIELD)
    this.request = new MetricsRequest(this.writer, new Streams(resolver, namespace, { prometheus, dropped }, maxCacheBytes, seed), options)
  }

  /**
   * Appends what a request holds to batches, in turns; until it is done the decoder does nothing else (`turns`). @param open called at most once for each batch, when there is a point for it;
   * @param note for each metric met for the first time.
   * @throws BAD_REQUEST when the bytes are not the message, or it holds more than is allowed: then nothing of it should be written.
   */
  *decode(message: Uint8Array, open: (name: BatchName) => WriteBatch, note: (entry: MetricMetadataEntry) => void, options: DecodeOptions): Work<Outcome> {
    this.writer.begin(open, options)
    yield* this.request.read(message, note)
    return this.writer.outcome
  }
}
