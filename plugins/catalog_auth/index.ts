import { definePlugin, NAMESPACES } from 'svcdb'
import { Audit } from './audit.ts'
import { configSchema } from './config.ts'
import { catalogSource } from './credentials.ts'
import { generateCert } from './generate-cert.ts'
import { Catalog } from './handler.ts'
import { catalogMetrics } from './metrics.ts'
import { isCatalogResource } from './paths.ts'

const QUERY_TOKEN =
  'a token came in a URL, which clients, proxies and histories keep; send it in the header Authorization, or set catalog_auth.query_token = false'

export default definePlugin({
  id: 'catalog_auth',
  summary: 'Shows the namespaces as a data catalog (Iceberg REST) and writes an audit log of its authentication',
  stability: 'stable',
  config: configSchema,
  section: '',
  requires: [NAMESPACES],
  commands: [generateCert],
  setup(svc, { auth, catalog_auth: config }) {
    const metrics = catalogMetrics(svc.metrics, () => audit.depth)
    const audit = new Audit(svc, config, metrics)
    const catalog = new Catalog(svc, { audit, requireAuthentication: auth.require_authentication })
    svc.auth.source(
      catalogSource({
        queryToken: config.query_token,
        onQueryToken: () => metrics.queryTokens.inc(),
        onFirst: () => svc.log.warn(QUERY_TOKEN),
      }),
    )
    // A limiter makes every call wait a turn: none where it would refuse nothing.
    if (auth.require_authentication)
      svc.auth.limiter({ admitted: ({ context, resource }) => (isCatalogResource(resource) ? catalog.refusal(context) : undefined) })
    audit.attach()
    catalog.serve()
  },
})
