import { definePlugin, METRIC_METADATA, type MetricMetadata, NAMESPACES, type NamespaceLifecycle, NOTHING, pointFormat } from 'svcdb'
import { Type } from 'svcdb/lib/schema'
import { configSchema } from './config.ts'
import { remoteWriteFormat } from './format.ts'
import { WriteHandler } from './handler.ts'
import { MetadataStore } from './metadata.ts'
import { MetadataKeeper } from './metadata-keeper.ts'
import { Payloads } from './payload.ts'
import { Requests } from './requests.ts'

const writeQuery = Type.Object({
  backfill: Type.Optional(Type.Boolean({ description: 'Admits samples older than the live window' })),
  get_vm_proto_version: Type.Optional(Type.String({ description: 'Asked by older vmagents; the answer is 1' })),
})

const version = Type.String({ description: 'Asked with get_vm_proto_version: 1' })

export default definePlugin({
  id: 'remote_write',
  summary: 'Takes Prometheus remote write 1.0 and 2.0, as Prometheus, vmagent and the OpenTelemetry Collector send it',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points', 'state'],
  provides: [METRIC_METADATA, pointFormat('prometheus_remote_write')],
  setup(svc, config) {
    const metadata = new MetadataStore({
      metrics: config.max_metadata_metrics,
      bytes: config.max_metadata_bytes,
      perMetric: config.max_metadata_per_metric,
      textBytes: config.max_metadata_text_bytes,
    })
    const keeper = new MetadataKeeper(metadata, config.metadata_save_secs * 1000, svc.log)
    const payloads = new Payloads(config.max_decompressed_bytes, config.max_parallel_decompressions, (error) =>
      svc.log.error({ err: error }, 'the thread that decompresses requests failed; they are decompressed on the main thread from now on'),
    )
    const requests = new Requests(svc, config, () => payloads.memory, metadata, keeper)
    const handler = new WriteHandler(svc, config, requests, payloads)
    svc.provide(pointFormat('prometheus_remote_write'), remoteWriteFormat(requests, payloads))
    svc.provide(METRIC_METADATA, {
      list: (namespace) => metadata.list(namespace),
      note(namespace, entry) {
        requests.note(namespace, entry)
        keeper.schedule()
      },
    } satisfies MetricMetadata)
    svc.start(async () => {
      await keeper.start(svc.storage.state(svc.id))
      const namespaces = svc.find<NamespaceLifecycle>(NAMESPACES)
      namespaces?.onEnd((namespace) => keeper.forgetHere(namespace))
      await namespaces?.onDelete((namespace) => keeper.forget(namespace), svc.id)
    })
    svc.stop(async () => {
      await payloads.stop()
      await keeper.stop()
    })
    const schema = {
      tags: ['write'],
      summary: 'Prometheus remote write 1.0 and 2.0',
      querystring: writeQuery,
      consumes: ['application/x-protobuf'],
      response: { 200: version, 204: NOTHING },
    }
    const options = { config: { rawBody: true as const, encodedBody: true as const, ingest: true as const }, bodyLimit: svc.server.max_body_size, schema }
    svc.http.post('/api/v1/prom/write', options, (request, reply) => handler.write(request, reply))
    // Where Prometheus and VictoriaMetrics themselves take it, and where other protocols take other types.
    const shared = { ...options, schema: { ...schema, hide: true }, constraints: { mediaType: 'application/x-protobuf' } }
    svc.http.post('/api/v1/write', shared, (request, reply) => handler.write(request, reply))
    // Of VictoriaMetrics, a Pushgateway, Loki, and of Mimir, Cortex and Thanos.
    svc.http.hintBelow('/api/v1/import', 'vmagent takes it, and sends it here by remote write, to /api/v1/prom/write')
    svc.http.hintBelow('/metrics/job', 'a Pushgateway takes what jobs push; Prometheus scrapes it and sends it here by remote write, to /api/v1/prom/write')
    svc.http.hintBelow('/loki', 'logs are not stored here')
    for (const prefix of ['/insert/', '/api/v1/push', '/api/prom/push', '/receive', '/api/v1/receive'])
      svc.http.hintBelow(prefix, 'remote write is taken at /api/v1/prom/write, line protocol at /write, OTLP at /v1/metrics, without a prefix')
  },
})
