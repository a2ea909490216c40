/** Write: one message, one batch. */
import { randomInt } from 'node:crypto'
import { type CallContext, type Counter, partialWrite, type Refused, type Svc, type WriteResult } from 'svcdb'
import { PerNamespace } from 'svcdb/lib/cache'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { GrpcCall } from 'svcdb/lib/grpc'
import { duplicateResponse, forwardedResponse, writeResponse } from './answers.ts'
import type { GrpcPluginConfig } from './config.ts'
import type { DedupKeys } from './dedup-keys.ts'
import { PointsDecoder, type PointsOptions, type PointsOutcome } from './points.ts'
import { type WriteEnvelope, writeEnvelope } from './requests.ts'

/** Of a server that keeps none apart. */
const DEFAULT_NAMESPACE = 'default'

export class PointWriter {
  readonly svc: Svc
  readonly config: GrpcPluginConfig
  readonly written: Counter
  private readonly keys: DedupKeys
  private readonly decoders: PerNamespace<PointsDecoder>

  constructor(svc: Svc, config: GrpcPluginConfig, keys: DedupKeys) {
    this.svc = svc
    this.keys = keys
    this.config = config
    const { max_cached_namespaces: most, series_cache_bytes: bytes } = config
    this.decoders = new PerNamespace(most, (namespace) => new PointsDecoder(svc.storage.resolver, namespace, bytes, randomInt(2 ** 31)))
    this.written = svc.metrics.counter('grpc_points_written_total', 'Points written over gRPC')
  }

  async write(request: Uint8Array, call: GrpcCall<CallContext>): Promise<Uint8Array> {
    const envelope = writeEnvelope(request, this.svc.server.max_write_batch_size)
    if (envelope.forwarded) this.requireApart(call)
    const key = await this.keys.claim(call.context, envelope.dedupKey)
    if (key === null) return duplicateResponse()
    let refused: Stored
    if (key === undefined) refused = await this.store(request, call, envelope)
    else {
      let whole = false
      let ended = false
      const late: Late = (written, decodedWhole) => {
        ended = true
        this.keys.endLate(key, decodedWhole, written)
      }
      try {
        refused = await this.store(request, call, envelope, late)
        whole = refused.rejected === 0
      } finally {
        if (!ended) this.keys.end(key, whole)
      }
    }
    if (envelope.forwarded) return forwardedResponse({ ...refused, rejections: refused.rejections.filter(({ position }) => position <= refused.knownTo) })
    if (refused.rejected > 0) throw partialWrite(refused)
    return writeResponse(refused.written)
  }

  /** An edge that keeps namespaces apart sends each point with its own: without them here, those of one would overwrite those of another. */
  private requireApart(call: GrpcCall<CallContext>): void {
    const namespace = call.metadata('x-namespace')?.trim()
    if (this.svc.server.multi_tenancy || !namespace || namespace === DEFAULT_NAMESPACE) return
    throw new SvcError(
      'PRECONDITION_FAILED',
      `cannot take points of namespace "${namespace}": this server keeps no namespaces apart, and the edge does; set server.multi_tenancy here, or not there`,
    )
  }

  private async store(request: Uint8Array, call: GrpcCall<CallContext>, envelope: WriteEnvelope, whenLate?: Late): Promise<Stored> {
    const { backfill, forwarded, dedupKey } = envelope
    const idempotencyKey = dedupKey === '' ? call.metadata('idempotency-key') : undefined
    // A time of 0 is then "the server's", which is 0.
    const options = forwarded ? { ...this.options(), now: 0n } : this.options()
    let decoded: PointsOutcome | undefined
    const late = (written: Promise<WriteResult>) => whenLate?.(written, decoded?.rejected === 0)
    const { filled: outcome, ...result } = await this.svc.ingest.write(
      call.context,
      { backfill, idempotencyKey, nonFinite: forwarded, late },
      async (batch) => (decoded = await this.decode(request, batch, options, 0, call)),
    )
    this.written.inc(result.written)
    return { ...together(outcome, result), knownTo: Math.min(toldUpTo(outcome), toldUpTo(result)) }
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

/** Takes what becomes of a write that goes on after its WRITE_TIMEOUT. */
type Late = (written: Promise<WriteResult>, decodedWhole: boolean) => void

interface Stored extends Refused {
  /** All refused points up to this position are listed. */
  knownTo: number
}

function toldUpTo({ rejected, rejections }: Pick<Refused, 'rejected' | 'rejections'>): number {
  return rejected === rejections.length ? Number.POSITIVE_INFINITY : (rejections.at(-1)?.position ?? -1)
}

/** What the decoder and what the storage left out. */
export function together(outcome: Pick<PointsOutcome, 'rejected' | 'rejections'>, result: WriteResult): Refused {
  return {
    written: result.written,
    rejected: outcome.rejected + result.rejected,
    rejections: [...outcome.rejections, ...result.rejections].sort((a, b) => a.position - b.position),
  }
}
