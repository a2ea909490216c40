/** The public surface: what plugins and storage engines may import. */
export { type Static, Type } from 'typebox'
export { replaceFile } from './atomic-file.ts'
export { AUDIT_TRAIL, type AuditAction, type AuditRecord, type AuditTrail, audited } from './audit-trail.ts'
export type {
  Authenticator,
  Authorization,
  Authorizer,
  CallContext,
  ClientCertificate,
  Credentials,
  Decision,
  Identity,
  Limiter,
  Observer,
  Source,
} from './auth.ts'
export { AUTH_RANK, administersServer, namespaceProblem } from './auth.ts'
export { ByteHeap, bytesPerValue, Column, TableBatch, typeConflict, WriteBatch } from './batch.ts'
export type { CheckCall, Command, CommandCall, CommandConfig, OpenState } from './command.ts'
export type { ServerConfig, TlsConfig } from './config-schema.ts'
export { IdempotencyKeys } from './dedup.ts'
export { classify, ERRORS, type ErrorCode, type ErrorKind, publicText, SvcError } from './errors.ts'
export { decompress } from './http/body.ts'
export { envelope } from './http/errors.ts'
export { sendOutput } from './http/output.ts'
export { validatorCompiler } from './http/validate.ts'
export type { Admit, Ingest, IngestOptions } from './ingest.ts'
export type { Logger } from './log.ts'
export { METRIC_METADATA, type MetricMetadata, type MetricMetadataEntry } from './metric-metadata.ts'
export { type Counter, type Gauge, type Histogram, type Metrics, MetricsRegistry } from './metrics.ts'
export { NAMESPACES, type NamespaceDefinition, type NamespaceDirectory, type NamespaceQuota } from './namespace-directory.ts'
export { partialWrite, type Refused, type RefusedTexts } from './partial-write.ts'
export {
  type Action,
  type AuthSeam,
  type Clock,
  definePlugin,
  type Hook,
  type HttpHandler,
  type HttpOptions,
  type HttpRequest,
  type HttpRoutes,
  type Plugin,
  type PluginDefinition,
  type RouteConfig,
  type Stability,
  type Svc,
} from './plugin.ts'
export * from './samples.ts'
export { Secret } from './secret.ts'
export type * from './storage.ts'
export { isJwtShaped, tokenOf } from './token.ts'
export { VERSION } from './version.ts'
