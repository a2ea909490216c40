/** The service that [otlp] provides, as the one method of a listener. */
import { GrpcListener, type GrpcMethod } from '../../kernel/grpc/index.ts'
import type { Svc } from '../../kernel/plugin.ts'
import type { OtlpGrpcConfig } from './config.ts'

export function metricsListener(svc: Svc, config: OtlpGrpcConfig): GrpcListener {
  return new GrpcListener(svc, config, [svc.use<GrpcMethod>('otlp_export')])
}
