/** The HTTP side: reads the request, hands its bytes to the namespace's decoder and its samples to the one door for writes. */
import { randomInt } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { type CallContext, type Counter, type HttpRequest, hungUp, type MetricMetadataEntry, type Svc, type WriteResult } from 'svcdb'
import { PerNamespace } from 'svcdb/lib/cache'
import type { WriteBatch } from 'svcdb/lib/columns'
import { NOTHING_WRITTEN, refusal, tallyOf, writtenHeaders } from './answer.ts'
import type { RemoteWriteConfig } from './config.ts'
import { checkEncoding, type Version, versionOf } from './content.ts'
import { RequestDecoder } from './decoder.ts'
import type { MetadataStore } from './metadata.ts'
import type { MetadataKeeper } from './metadata-keeper.ts'
import type { Outcome } from './outcome.ts'
import { Payloads } from './payload.ts'

export interface WriteQuery {
  backfill?: boolean
  get_vm_proto_version?: string
}

const NONE_WRITTEN = writtenHeaders({ samples: 0, histograms: 0, rejected: 0 })

/** What a request came to. */
interface Decoded {
  context: CallContext
  outcome: Outcome
  floats?: WriteBatch
  histograms?: WriteBatch
}

export class WriteHandler {
  private readonly svc: Svc
  private readonly config: RemoteWriteConfig
  private readonly metadata: MetadataStore
  private readonly keeper: MetadataKeeper
  private readonly written: Counter
  private readonly rejected: Counter
  private readonly exemplars: Counter
  private readonly droppedMetadata: Counter
  private readonly payloads: Payloads
  private readonly decoders: PerNamespace<RequestDecoder>

  constructor(svc: Svc, config: RemoteWriteConfig, metadata: MetadataStore, keeper: MetadataKeeper) {
    this.svc = svc
    this.config = config
    this.decoders = new PerNamespace(config.max_cached_namespaces, (namespace) => this.newDecoder(namespace))
    this.metadata = metadata
    this.keeper = keeper
    this.payloads = new Payloads(config.max_decompressed_bytes, config.max_parallel_decompressions, (error) =>
      svc.log.error({ err: error }, 'the thread that decompresses requests failed; they are decompressed on the main thread from now on'),
    )
    const { metrics } = svc
    this.written = metrics.counter('remote_write_points_written_total', 'Samples and native histograms written by remote write')
    this.rejected = metrics.counter('remote_write_points_rejected_total', 'Samples and native histograms of remote write that were refused for good')
    this.exemplars = metrics.counter('remote_write_exemplars_dropped_total', 'Exemplars received by remote write, which are not stored')
    this.droppedMetadata = metrics.counter('remote_write_metadata_dropped_total', 'Times that metadata of a metric found no room')
  }

  async write(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const query = request.query as WriteQuery
    // Asked by vmagent before 1.88, to learn whether zstd is understood: it is.
    if (query.get_vm_proto_version !== undefined) return reply.type('text/plain').send('1')
    const version = versionOf(request.headers['content-type'])
    // On every answer, so that a failure says as well that nothing was written.
    if (version === 2) reply.headers(NONE_WRITTEN)
    checkEncoding(request.headers['content-encoding'])
    const body = request.body as Buffer | undefined
    if (body === undefined) return reply.code(204).send()
    const decoded = await this.payloads.read(body, (message) => (message.length === 0 ? undefined : this.decode(request, version, message)))
    if (decoded !== undefined) await this.store(request, reply, version, decoded)
    return reply.code(204).send()
  }

  stop(): Promise<void> {
    return this.payloads.stop()
  }

  /** @throws SvcError for what was not written, after what could be. */
  private async store(request: HttpRequest, reply: FastifyReply, version: Version, { context, outcome, floats, histograms }: Decoded): Promise<void> {
    this.exemplars.inc(outcome.exemplars)
    this.svc.ingest.countNonFinite(outcome.nonFinite)
    // Both in one turn: they share a write to the log.
    const parts = await Promise.allSettled([this.hand(request, context, floats, true), this.hand(request, context, histograms, floats === undefined)])
    const [floatResult, histogramResult] = parts.map((part) => (part.status === 'fulfilled' ? part.value : NOTHING_WRITTEN))
    const tally = tallyOf(outcome, floatResult, histogramResult)
    this.written.inc(floatResult.written + histogramResult.written)
    this.rejected.inc(tally.rejected)
    // What may be sent again comes before what may not.
    const failed = parts.find((part) => part.status === 'rejected')
    if (version === 2)
      reply.headers(writtenHeaders(tally, failed === undefined && tally.rejected === 0 && this.config.exemplars_written === 'accepted' ? outcome.exemplars : 0))
    if (failed !== undefined) throw failed.reason
    const refused = refusal(outcome, floatResult, histogramResult, tally)
    if (refused !== undefined) throw refused
  }

  private async decode(request: HttpRequest, version: Version, message: Uint8Array): Promise<Decoded> {
    const { storage } = this.svc
    const context = this.svc.context(request)
    const namespace = context.dataNamespace
    const floats = storage.batch(namespace)
    let histograms: WriteBatch | undefined
    const open = () => (histograms = storage.batch(namespace))
    const options = {
      maxSamples: this.config.max_samples_per_write,
      maxFailures: this.config.max_reported_errors,
      keepBoth: this.config.float_and_histogram === 'keep_both',
      skipNonFinite: this.config.non_finite === 'skip',
    }
    let kept = false
    try {
      const decoder = this.decoders.get(namespace)
      const outcome = await decoder.turns.run(
        () => decoder.decode(version, message, floats, open, (entry) => this.note(namespace, entry), options),
        hungUp(request),
      )
      kept = true
      if (outcome.floatRows === 0) storage.recycle(floats)
      return { context, outcome, ...(outcome.floatRows > 0 && { floats }), ...(histograms !== undefined && { histograms }) }
    } finally {
      if (!kept) for (const batch of [floats, histograms]) if (batch !== undefined) storage.recycle(batch)
      this.keeper.schedule()
    }
  }

  private note(namespace: string, entry: MetricMetadataEntry): void {
    const { dropped } = this.metadata
    this.metadata.note(namespace, entry)
    if (this.metadata.dropped > dropped) this.droppedMetadata.inc(this.metadata.dropped - dropped)
  }

  /** @param first whether this is the batch that the request's Idempotency-Key stands for. */
  private hand(request: HttpRequest, context: CallContext, batch: WriteBatch | undefined, first: boolean): Promise<WriteResult> {
    if (batch === undefined) return Promise.resolve(NOTHING_WRITTEN)
    const idempotencyKey = first ? (request.headers['idempotency-key'] as string | undefined) : undefined
    const backfill = (request.query as WriteQuery).backfill === true
    return this.svc.ingest.write(batch, context, { backfill, idempotencyKey, surface: this.svc.id, nonFinite: true })
  }

  private newDecoder(namespace: string): RequestDecoder {
    const { series_cache_bytes: maxCacheBytes, max_buckets_per_histogram: maxBuckets } = this.config
    return new RequestDecoder(this.svc.storage.resolver, namespace, { maxCacheBytes, maxBuckets, seed: randomInt(2 ** 31) })
  }
}
