import { grpcListenerKeys } from 'svcdb/lib/grpc'
import { type Static, Type } from 'svcdb/lib/schema'

/** What a request may hold is said by [otlp]. */
export const configSchema = Type.Object(grpcListenerKeys(4317))

export type OtlpGrpcConfig = Static<typeof configSchema>
