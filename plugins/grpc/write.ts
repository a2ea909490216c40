/** Write: one message, one batch. */
import { randomInt } from 'node:crypto'
import { type CallContext, type Counter, partialWrite, type Refused, type Svc, type WriteResult } from 'svcdb'
import { PerNamespace } from 'svcdb/lib/cache'
import type { WriteBatch } from 'svcdb/lib/columns'
import type { GrpcCall } from 'svcdb/lib/grpc'
import { writeResponse } from './answers.ts'
import type { GrpcPluginConfig } from './config.ts'
import { PointsDecoder, type PointsOptions, type PointsOutcome } from './points.ts'
import { writeEnvelope } from './requests.ts'

export class PointWriter {
  readonly svc: Svc
  readonly config: GrpcPluginConfig
  readonly written: Counter
  private readonly decoders: PerNamespace<PointsDecoder>

  constructor(svc: Svc, config: GrpcPluginConfig) {
    this.svc = svc
    this.config = config
    const { max_cached_namespaces: most, series_cache_bytes: bytes } = config
    this.decoders = new PerNamespace(most, (namespace) => new PointsDecoder(svc.storage.resolver, namespace, bytes, randomInt(2 ** 31)))
    this.written = svc.metrics.counter('grpc_points_written_total', 'Points written over gRPC')
  }

  async write(request: Uint8Array, call: GrpcCall<CallContext>): Promise<Uint8Array> {
    const { svc } = this
    const { context } = call
    const { backfill } = writeEnvelope(request, svc.server.max_write_batch_size)
    const idempotencyKey = call.metadata('idempotency-key')
    const { filled: outcome, ...result } = await svc.ingest.write(context, { backfill, idempotencyKey }, (batch) =>
      this.decode(request, batch, this.options(), 0, call),
    )
    this.written.inc(result.written)
    const refused = together(outcome, result)
    if (refused.rejected > 0) throw partialWrite(refused)
    return writeResponse(result.written)
  }

  options(): PointsOptions {
    return { now: this.svc.clock.nowNanos(), maxFields: this.config.max_fields_per_point, maxFailures: this.config.max_reported_errors }
  }

  /** In turns; `batch` is nobody else's until it is done. @throws as PointsDecoder.decode, and why the call has ended. */
  decode(
    message: Uint8Array,
    batch: WriteBatch,
    options: PointsOptions,
    firstPosition: number,
    { context, signal }: GrpcCall<CallContext>,
  ): PointsOutcome | Promise<PointsOutcome> {
    const decoder = this.decoders.get(context.dataNamespace)
    return decoder.turns.run(
      () => decoder.decode(message, batch, options, firstPosition),
      () => (signal.aborted ? signal.reason : undefined),
    )
  }
}

/** What the decoder and what the storage left out. */
export function together(outcome: Pick<PointsOutcome, 'rejected' | 'rejections'>, result: WriteResult): Refused {
  return {
    written: result.written,
    rejected: outcome.rejected + result.rejected,
    rejections: [...outcome.rejections, ...result.rejections].sort((a, b) => a.position - b.position),
  }
}
