/** The service that [otlp] provides, as the one method of a listener. */
import type { CallContext, Svc } from 'svcdb'
import { GrpcListener, type GrpcMethod } from 'svcdb/lib/grpc'
import type { OtlpGrpcConfig } from './config.ts'

export function metricsListener(svc: Svc, config: OtlpGrpcConfig): GrpcListener<CallContext> {
  return new GrpcListener(svc, config, [svc.use<GrpcMethod<CallContext>>('otlp_export')])
}
