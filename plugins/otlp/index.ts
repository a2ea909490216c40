import { type CallContext, definePlugin, NOTHING, pointFormat } from 'svcdb'
import type { GrpcListener } from 'svcdb/lib/grpc'
import { Type } from 'svcdb/lib/schema'
import { configSchema } from './config.ts'
import { exportMethod } from './export-method.ts'
import { otlpFormat } from './format.ts'
import { OtlpHandler } from './handler.ts'

const writeQuery = Type.Object({
  backfill: Type.Optional(Type.Boolean({ description: 'Admits points older than the live window' })),
})

const partial = Type.Object(
  { partialSuccess: Type.Object({ rejectedDataPoints: Type.String(), errorMessage: Type.String() }) },
  { description: 'Some data points were refused: an ExportMetricsServiceResponse, in the encoding of the request' },
)
const failure = Type.Object(
  { code: Type.Integer(), message: Type.String(), details: Type.Array(Type.Unknown()) },
  { description: 'Any failure: google.rpc.Status, in the encoding of the request' },
)

export default definePlugin({
  id: 'otlp',
  summary: 'Takes OTLP metrics over HTTP and gRPC, as the OpenTelemetry Collector and SDKs send them',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points'],
  provides: ['otlp_export', pointFormat('otlp')],
  setup(svc, config) {
    const handler = new OtlpHandler(svc, config)
    svc.stop(() => handler.stop())
    svc.provide(pointFormat('otlp'), otlpFormat(svc, handler))
    const method = exportMethod(handler, config.max_decompressed_bytes)
    // For the listener on a port of its own, and the one that is there for gRPC anyway, which begins to listen after the start phase.
    svc.provide('otlp_export', method)
    // Where exporters send by themselves that are given an address for all signals.
    for (const path of ['/v1/traces', '/v1/logs'])
      svc.http.hintBelow(
        path,
        'only metrics are kept, by POST /v1/metrics; give the exporter of metrics alone this address, by OTEL_EXPORTER_OTLP_METRICS_ENDPOINT',
      )
    svc.start(() => svc.find<GrpcListener<CallContext>>('grpc_listener')?.add(method))
    for (const url of ['/v1/metrics', '/api/v1/otlp/metrics']) {
      svc.http.route({
        method: 'POST',
        url,
        config: { rawBody: true, encodedBody: true, ingest: true },
        bodyLimit: svc.server.max_body_size,
        schema: {
          tags: ['write'],
          summary: 'OTLP metrics: an ExportMetricsServiceRequest',
          querystring: writeQuery,
          consumes: ['application/x-protobuf', 'application/json'],
          response: { 200: partial, 204: NOTHING, default: failure } as never,
        },
        errorHandler: (error, request, reply) => handler.fail(error, request, reply),
        handler: (request, reply) => handler.write(request, reply),
      })
    }
    // Where exporters send to that were set up for Mimir, Prometheus or VictoriaMetrics.
    for (const prefix of ['/otlp', '/api/v1/otlp', '/opentelemetry'])
      svc.http.hintBelow(prefix, 'OTLP is taken at /v1/metrics, so the endpoint of an exporter is this server without a path')
  },
})
