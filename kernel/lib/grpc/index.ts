/** A gRPC listener on node:http2: bytes in and out, with the credentials, errors, limits and shutdown of the server it belongs to. */
export { type GrpcConfig, grpcListenerKeys } from './config.ts'
export { type EmittingJob, forward } from './forward.ts'
export { Health } from './health.ts'
export { GrpcListener } from './listener.ts'
export type { GrpcAction, GrpcCall, GrpcCredentials, GrpcMessage, GrpcMethod, SendMessage } from './method.ts'
export type { GrpcLog, GrpcMetrics, GrpcOwner } from './owner.ts'
export { CANCELLED, type GrpcStatus, GrpcStatusError, OK, STATUS_NAMES, statusOf, UNIMPLEMENTED } from './status.ts'
