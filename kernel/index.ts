/** The public API: with the libraries `svcdb/lib/<name>`, all that plugins and storage engines may import. */
export {
  ALL_NAMESPACES,
  AUTH_RANK,
  type Authenticator,
  type Authorization,
  type Authorizer,
  administersServer,
  type CallContext,
  type Caller,
  type ClientCertificate,
  type Credentials,
  type Decision,
  type Identity,
  isForAll,
  type Limiter,
  namespaceListProblems,
  namespaceProblem,
  type Observer,
  requireStanding,
  type Source,
} from './auth/auth.ts'
export { authorizationFromQuery, hasAuthorization, isJwtShaped, tokenOf } from './auth/token.ts'
export type { CheckCall, Command, CommandCall, CommandConfig, OpenState, OwnState } from './cli/command.ts'
export type { Claim } from './cluster/claim.ts'
export type { ClusterSettings, NodeDescription, NodeStatus, Nodes, NodeView, Owned, OwnOptions, WorkMove, WorkView } from './cluster/types.ts'
export type { OwnedWork } from './cluster/want.ts'
export { FILE_PATH } from './config/file-path.ts'
export { alsoNamed } from './config/names.ts'
export { settableBy } from './config/overrides.ts'
export type { ServerConfig, TlsConfig } from './config/schema.ts'
export { Secret } from './config/secret.ts'
export type { Schema } from './config/section.ts'
export { envelope, sendError, toSvcError } from './http/errors.ts'
export { holdBody } from './http/hold-body.ts'
export { hungUp } from './http/hung-up.ts'
export { NOTHING } from './http/openapi.ts'
export { sendOutput } from './http/output.ts'
export { validatorCompiler } from './http/validate.ts'
export { IdempotencyKeys } from './ingest/idempotency-keys.ts'
export type { Admit, AdmitAny, Fill, Ingest, IngestOptions, Written, WrittenSeveral } from './ingest/ingest.ts'
export { partialWrite, type Refused, type RefusedTexts } from './ingest/partial-write.ts'
export type { Points, PointsOptions } from './ingest/point-writer.ts'
export type { AggregateRequest, AggregateSet, GroupFunction, SampleRequest, SampleSet, SeriesSet, WindowFunction } from './lib/columns/index.ts'
export { type Column, TableBatch, type WriteBatch } from './lib/columns/index.ts'
export {
  classify,
  type DeclaredCode,
  type DeclaredError,
  declareErrors,
  ERRORS,
  type ErrorCode,
  type ErrorKind,
  errorKind,
  publicText,
  SvcError,
} from './lib/errors/index.ts'
export type { PageOptions } from './lib/pages/index.ts'
export { type Static, Type } from './lib/schema/index.ts'
export type { Attributes, AttributeValue, Span, SpanKind, SpanOptions, TraceContext, Tracer } from './lib/trace/index.ts'
export type { WarmUp } from './lib/warm-up/index.ts'
export type { Logger } from './log.ts'
export { type Counter, type Gauge, type Histogram, type Metrics, truncatedResults } from './metrics.ts'
export {
  type Action,
  type BodyCount,
  type Clock,
  definePlugin,
  type Hook,
  type HttpHandler,
  type HttpOptions,
  type HttpRequest,
  type HttpRoutes,
  type Plugin,
  type PluginAuth,
  type PluginDefinition,
  type PluginSql,
  type RouteConfig,
  type Stability,
  type Svc,
} from './plugin.ts'
export type { Schedule, ScheduledJob, ScheduledRun, ScheduleOptions, ScheduleStatus } from './schedule/schedule.ts'
export { AUDIT_LOG, type AuditAction, type AuditLog, type AuditRecord, audited } from './services/audit-log.ts'
export { CONNECTORS, type Connector, type Connectors, type Replayed } from './services/connectors.ts'
export { EXEMPLARS, type Exemplar, type Exemplars, type ExemplarsOfSeries, type SeriesExemplar } from './services/exemplars.ts'
export { METRIC_METADATA, type MetricMetadata, type MetricMetadataEntry } from './services/metric-metadata.ts'
export { MODEL_KINDS, type ModelKind, type ModelKinds } from './services/model-kinds.ts'
export {
  isWithinReach,
  NAMESPACES,
  type NamespaceDefinition,
  type NamespaceDirectory,
  type NamespaceLifecycle,
  type NamespaceQuota,
  REQUEST_LIMITS,
  type RequestLimits,
} from './services/namespace-directory.ts'
export {
  type PointArrival,
  type PointFormat,
  type PointMessage,
  type PointReader,
  type PointSource,
  pointFormat,
  pointFormats,
} from './services/point-formats.ts'
export {
  type LoadedPolicies,
  POLICIES,
  type Policies,
  type PolicyAnswer,
  type PolicyBundle,
  type PolicyEntity,
  type PolicyQuestion,
  type PolicySource,
} from './services/policies.ts'
export { PROMQL_QUERIES, type PromqlQueries, type PromqlTime } from './services/promql-queries.ts'
export { SIGNAL_SINK, type SignalSink, type TriggerSignal } from './services/signal-sink.ts'
export {
  WEBHOOKS,
  type WebhookAnswer,
  type WebhookAttempt,
  type WebhookDelivery,
  type WebhookEvent,
  type WebhookRef,
  type WebhookReport,
  type WebhookStatus,
  type Webhooks,
} from './services/webhooks.ts'
export {
  type Change,
  type ChangeCursor,
  type ChangedRow,
  type ChangeGap,
  type ChangeKind,
  type ChangePosition,
  type ChangeRequest,
  changedRows,
  type MeasurementDropped,
  type MeasurementFilter,
  type MeasurementRestored,
  type RowsChanged,
  type SeriesDeleted,
} from './storage/changes.ts'
export type * from './storage/jobs.ts'
export type { Scan, ScanPlan, ScanRequest } from './storage/scan.ts'
export type {
  DeclaredSqlFunction,
  SqlArgument,
  SqlConstant,
  SqlExpressionBody,
  SqlFixedType,
  SqlFunction,
  SqlFunctionBody,
  SqlFunctionColumn,
  SqlType,
} from './storage/sql-functions.ts'
export type * from './storage/state.ts'
export type { StateContext, StateEngine, StateUse } from './storage/state-engine.ts'
export { type Following, type FollowOptions, followState } from './storage/state-follow.ts'
export { importState } from './storage/state-import.ts'
export { UNFINISHED } from './storage/state-unused.ts'
export type * from './storage/storage.ts'
export type * from './storage/topology.ts'
export type { Tracing } from './tracing.ts'
export { API_VERSION, VERSION } from './version.ts'
