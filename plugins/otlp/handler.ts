/** The HTTP side: reads the request, hands its bytes to the namespace's decoder and its points to `svc.ingest`. */
import { randomInt } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import {
  type CallContext,
  EXEMPLARS,
  type Exemplars,
  type HttpRequest,
  holdBody,
  hungUp,
  METRIC_METADATA,
  type MetricMetadata,
  type Svc,
  toSvcError,
  type WriteResult,
} from 'svcdb'
import { PerNamespace } from 'svcdb/lib/cache'
import type { WriteBatch } from 'svcdb/lib/columns'
import { type ErrorKind, logged } from 'svcdb/lib/errors'
import { inTurns } from 'svcdb/lib/event-loop'
import { errorAnswer, partialSuccess, refusalOf, statusMessage, type Tally } from './answer.ts'
import type { OtlpConfig } from './config.ts'
import { answerType, compressionOf, encodingOf, requireEncoding } from './content.ts'
import { OtlpDecoder } from './decoder.ts'
import type { OtlpFormatDependencies } from './format.ts'
import { JsonThread } from './json-thread.ts'
import { type OtlpMetrics, otlpMetrics } from './metrics.ts'
import type { Outcome } from './outcome.ts'
import { decodePayload } from './payload.ts'

interface WriteQuery {
  backfill?: boolean
}

/** Who writes, and how. */
interface Caller {
  context: CallContext
  backfill: boolean
  idempotencyKey: string | undefined
  /** Asked before each further turn: why nobody waits for the answer any more. */
  ended(): Error | undefined
}

const NO_BYTES = Buffer.alloc(0)

export class OtlpHandler implements OtlpFormatDependencies {
  private readonly svc: Svc
  readonly config: OtlpConfig
  readonly metrics: OtlpMetrics
  readonly json = new JsonThread()
  private readonly dropped: ReadonlySet<string>
  private readonly decoders: PerNamespace<OtlpDecoder>

  constructor(svc: Svc, config: OtlpConfig) {
    this.svc = svc
    this.config = config
    this.metrics = otlpMetrics(svc.metrics)
    this.dropped = new Set(config.dropped_attributes)
    this.decoders = new PerNamespace(config.max_cached_namespaces, (namespace) => this.newDecoder(namespace))
  }

  async write(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const encoding = requireEncoding(request.headers['content-type'])
    const compression = compressionOf(request.headers['content-encoding'])
    const body = (request.body as Buffer | undefined) ?? NO_BYTES
    // Of protobuf, nothing is a message without members; of JSON, it is no text at all.
    if (body.length === 0 && encoding === 'protobuf') return reply.code(204).send()
    const { max_decompressed_bytes: limit } = this.config
    const caller = this.callerOf(request)
    const sender = { namespace: caller.context.dataNamespace, ended: caller.ended }
    let payload = body
    if (compression !== undefined && body.length > 0) {
      payload = await decodePayload(body, compression, limit, sender)
      holdBody(request, payload.length)
    }
    const message = encoding === 'json' ? await this.json.convert(payload, sender) : payload
    const tally = await this.store(caller, message)
    const refusal = refusalOf(tally)
    if (refusal === undefined) return reply.code(204).send()
    if (tally.written === 0) throw refusal
    return reply
      .code(200)
      .type(answerType(request.headers['content-type']))
      .send(partialSuccess(encoding, tally.rejected, refusal.message))
  }

  stop(): Promise<void> {
    return this.json.stop()
  }

  /** Errors in the shape of OTLP, whatever they come from: exporters know no other. */
  fail(error: unknown, request: HttpRequest, reply: FastifyReply): void {
    const known = toSvcError(error)
    const kind: ErrorKind = known.kind
    const contentType = request.headers['content-type']
    const { status, retryAfter } = errorAnswer(known)
    // The log has what the caller is not told.
    if (kind.redact) this.svc.log.error({ err: logged(known), code: known.code, request_id: request.id }, 'request failed')
    if (retryAfter !== undefined && !reply.hasHeader('retry-after')) reply.header('retry-after', retryAfter)
    if (status === 401 && !reply.hasHeader('www-authenticate')) reply.header('www-authenticate', 'Bearer')
    reply
      .code(status)
      .type(answerType(contentType))
      .send(statusMessage(encodingOf(contentType) ?? 'json', known))
  }

  /**
   * Writes the data points of an ExportMetricsServiceRequest.
   * @throws SvcError when it is none, or may be sent again.
   */
  async store(caller: Caller, message: Uint8Array): Promise<Tally> {
    const { ingest } = this.svc
    const tally = await ingest.attempt(caller.context, () => this.writeAll(caller, message))
    // Exporters are answered success all the same when a part was written.
    const refusal = refusalOf(tally)
    if (refusal !== undefined) ingest.failed(caller.context, refusal)
    return tally
  }

  private async writeAll(caller: Caller, message: Uint8Array): Promise<Tally> {
    const { svc, metrics } = this
    const { context, backfill, idempotencyKey } = caller
    // Only staleness markers are among them: the decoder leaves out all else that is not finite.
    const options = { backfill, idempotencyKey, nonFinite: true }
    const { filled: outcome, results: parts } = await svc.ingest.writeSeveral(context, options, (open) => this.decode(caller, message, open))
    const results = parts.flatMap((part) => (part.status === 'fulfilled' ? [part.value] : []))
    const tally = tallyOf(outcome, results)
    metrics.written.inc(tally.written - outcome.skipped)
    metrics.rejected.inc(tally.rejected)
    // What may be sent again comes before what may not.
    const failed = parts.find((part) => part.status === 'rejected')
    if (failed !== undefined) throw failed.reason
    await this.keepExemplars(context.dataNamespace, outcome)
    return tally
  }

  async keepExemplars(namespace: string, { exemplars, found }: Outcome): Promise<void> {
    const store = found.length === 0 ? undefined : this.svc.find<Exemplars>(EXEMPLARS)
    const kept = store === undefined ? 0 : await inTurns(store.add(namespace, found))
    if (exemplars > kept) this.metrics.exemplars.inc(exemplars - kept)
  }

  private async decode({ context, ended }: Caller, message: Uint8Array, open: () => WriteBatch): Promise<Outcome> {
    const namespace = context.dataNamespace
    const metadata = this.svc.find<MetricMetadata>(METRIC_METADATA)
    const exemplars = this.svc.provided.has(EXEMPLARS)
    const options = { maxPoints: this.config.max_points_per_write, maxFailures: this.config.max_reported_errors, exemplars }
    const decoder = this.decoders.get(namespace)
    const outcome = await decoder.turns.run(() => decoder.decode(message, open, (entry) => metadata?.note?.(namespace, entry), options), ended)
    this.metrics.skipped.inc(outcome.skipped)
    this.svc.ingest.countNonFinite(outcome.nonFinite)
    return outcome
  }

  private callerOf(request: HttpRequest): Caller {
    const backfill = (request.query as WriteQuery).backfill === true
    const idempotencyKey = request.headers['idempotency-key'] as string | undefined
    return { context: this.svc.context(request), backfill, idempotencyKey, ended: hungUp(request) }
  }

  newDecoder(namespace: string): OtlpDecoder {
    const { config } = this
    return new OtlpDecoder(this.svc.storage.resolver, namespace, {
      names: config.names,
      scopeTags: config.scope === 'tags',
      refuseDelta: config.delta === 'refuse',
      dropped: this.dropped,
      maxBuckets: config.max_buckets_per_histogram,
      maxQuantiles: config.max_quantiles_per_summary,
      maxCacheBytes: config.series_cache_bytes,
      seed: randomInt(2 ** 31),
    })
  }
}

function tallyOf({ skipped, refused, failures, metrics }: Outcome, results: readonly WriteResult[]): Tally {
  let written = 0
  let rejected = refused
  const all = [...failures]
  for (const result of results) {
    written += result.written
    rejected += result.rejected
    all.push(...result.rejections)
  }
  return { written: written + skipped, rejected, rejections: all, metrics }
}
