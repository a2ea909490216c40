import { Type } from 'typebox'
import { definePlugin } from '../../kernel/plugin.ts'
import { configSchema } from './config.ts'
import { OtlpHandler } from './handler.ts'

const writeQuery = Type.Object({
  backfill: Type.Optional(Type.Boolean({ description: 'Admits points older than the live window' })),
})

export default definePlugin({
  id: 'otlp',
  summary: 'Takes OTLP metrics over HTTP, as the OpenTelemetry Collector and SDKs send them',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points'],
  setup(svc, config) {
    const handler = new OtlpHandler(svc, config)
    svc.stop(() => handler.stop())
    for (const url of ['/v1/metrics', '/api/v1/otlp/metrics']) {
      svc.http.route({
        method: 'POST',
        url,
        config: { rawBody: true, encodedBody: true },
        bodyLimit: svc.server.max_body_size,
        schema: {
          tags: ['write'],
          summary: 'OTLP metrics: an ExportMetricsServiceRequest',
          querystring: writeQuery,
          consumes: ['application/x-protobuf', 'application/json'],
        },
        errorHandler: (error, request, reply) => handler.fail(error, request, reply),
        handler: (request, reply) => handler.write(request, reply),
      })
    }
  },
})
