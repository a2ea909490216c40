import { administersServer, CONNECTORS, definePlugin } from 'svcdb'
import { Type } from 'svcdb/lib/schema'
import { configSchema } from './config.ts'
import { Registry } from './registry.ts'

const metrics = Type.Object({
  messages_total: Type.Integer({ description: 'Messages that came' }),
  points_total: Type.Integer({ description: 'Points written' }),
  decode_errors: Type.Integer({ description: 'Messages that could not be stored, in whole or in part' }),
  lag: Type.Union([Type.Integer(), Type.Null()], { description: 'Messages that wait at the broker; null where that cannot be known' }),
  throughput: Type.Number({ description: 'Points a second since it was connected' }),
})
const listing = Type.Array(
  Type.Object({
    name: Type.String(),
    connector_type: Type.String({ description: 'kafka or mqtt' }),
    status: Type.Union([Type.String(), Type.Object({ failed: Type.String() })], { description: 'running, idle, reconnecting, stopped, or {"failed": reason}' }),
    metrics,
  }),
)

export default definePlugin({
  id: 'connectors',
  summary: 'Lists the connectors to brokers, and says which are up',
  stability: 'beta',
  config: configSchema,
  provides: [CONNECTORS],
  setup(svc) {
    const registry = new Registry()
    svc.provide(CONNECTORS, registry)
    svc.metrics.gauge('connector_up', 'Whether a connector is connected: 1 = running or idle', ['connector', 'type'], (gauge) => {
      for (const connector of registry.all()) gauge.set({ connector: connector.name, type: connector.type }, connector.status().up ? 1 : 0)
    })
    const schema = { tags: ['admin'], summary: 'Connectors with their status and figures; those of the namespace of the caller', response: { 200: listing } }
    svc.http.get('/api/v1/connectors', { schema }, async (request) => {
      const context = svc.context(request)
      return registry.views(!svc.server.multi_tenancy || administersServer(context) ? undefined : context.namespace)
    })
  },
})
