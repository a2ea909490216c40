import { definePlugin, PROMQL_QUERIES } from 'svcdb'
import { configSchema } from './config.ts'
import { adminEndpoints } from './http/admin-endpoints.ts'
import { discoveryEndpoints } from './http/discovery-endpoints.ts'
import { exemplarsEndpoint } from './http/exemplars-endpoint.ts'
import { federateEndpoint } from './http/federate-endpoint.ts'
import { metadataEndpoint } from './http/metadata-endpoint.ts'
import { Form } from './http/params.ts'
import { QueryApi } from './http/query-api.ts'
import { queryEndpoints } from './http/query-endpoints.ts'
import { readEndpoint } from './http/read-endpoint.ts'
import { statusEndpoints } from './http/status-endpoints.ts'
import { textEndpoints } from './http/text-endpoints.ts'
import { promqlQueries } from './queries.ts'
import { discoveryWarmUp, queryWarmUp } from './warm-up.ts'

export default definePlugin({
  id: 'promql',
  summary: 'Answers PromQL over the Prometheus HTTP API, and remote read',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points', 'jobs', 'delete'],
  provides: [PROMQL_QUERIES],
  setup(svc, config) {
    svc.provide(PROMQL_QUERIES, promqlQueries(svc, config))
    svc.http.parser('application/x-www-form-urlencoded', (body) => new Form(body.toString('utf8'), svc.server.max_body_members))
    const api = new QueryApi(svc)
    queryEndpoints(api, config)
    discoveryEndpoints(api, config)
    metadataEndpoint(api)
    exemplarsEndpoint(api, config)
    textEndpoints(api, config)
    statusEndpoints(api, config)
    readEndpoint(api, config)
    federateEndpoint(api, config)
    adminEndpoints(api, config)
    // Of VictoriaMetrics, Prometheus and Graphite.
    for (const prefix of ['/prometheus', '/select/']) svc.http.hintBelow(prefix, 'PromQL is answered at /api/v1/query and the like, without a prefix')
    svc.http.hintBelow('/api/v1/export', 'POST /api/v1/export/parquet of plugin export writes a file, POST /api/v1/read and GET /federate answer samples')
    for (const page of ['/graph', '/vmui'])
      svc.http.hintBelow(page, 'there is no page for queries here; Grafana asks this address as a data source of type Prometheus')
    svc.http.hintBelow('/render', 'Graphite is not spoken; queries are PromQL, at /api/v1/query_range')
    svc.ready(() => {
      svc.storage.warmUp?.(queryWarmUp)
      svc.storage.warmUp?.(discoveryWarmUp)
    })
  },
})
