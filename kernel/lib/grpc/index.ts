/** For plugins with a gRPC listener of their own: bytes in and out, with the node's credentials, errors, limits and shutdown. */
export { type GrpcConfig, grpcListenerKeys } from './config.ts'
export { forward } from './forward.ts'
export { Health } from './health.ts'
export { GrpcListener } from './listener.ts'
export type { GrpcCall, GrpcMethod, SendMessage } from './method.ts'
export * from './status.ts'
