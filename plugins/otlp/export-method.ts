/** The same over gRPC: MetricsService/Export, for whichever listener answers it. */
import type { CallContext } from 'svcdb'
import type { SvcError } from 'svcdb/lib/errors'
import type { GrpcMethod } from 'svcdb/lib/grpc'
import { errorAnswer, partialSuccess, refusalOf } from './answer.ts'
import type { OtlpHandler } from './handler.ts'

const UNAVAILABLE = 14
const NOTHING = new Uint8Array(0)

export function exportMethod(handler: OtlpHandler, maxRequestBytes: number): GrpcMethod<CallContext> {
  return {
    path: '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export',
    action: 'write',
    carriesPoints: true,
    kind: 'unary',
    maxRequestBytes,
    statusOf,
    async handle(request, call) {
      if (request.length === 0) return NOTHING
      const caller = {
        context: call.context,
        backfill: call.metadata('x-backfill') === 'true',
        idempotencyKey: call.metadata('idempotency-key'),
        ended: () => (call.signal.aborted ? call.signal.reason : undefined),
      }
      const tally = await handler.store(caller, request)
      const refusal = refusalOf(tally)
      if (refusal === undefined) return NOTHING
      if (tally.written === 0) throw refusal
      return partialSuccess('protobuf', tally.rejected, refusal.message) as Buffer
    },
  }
}

/**
 * Exporters drop what is answered INTERNAL or FAILED_PRECONDITION, and repeat what is UNAVAILABLE, or RESOURCE_EXHAUSTED with a RetryInfo (OTLP
 * specification, "Failures" of OTLP/gRPC): the server's own faults, which may be sent again, are the former over HTTP as well.
 */
function statusOf(error: SvcError): number {
  return error.kind.http === 500 && errorAnswer(error).status === 503 ? UNAVAILABLE : error.kind.grpc
}
