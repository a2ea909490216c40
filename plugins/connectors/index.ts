import { administersServer, type CallContext, CONNECTORS, type Connector, definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Type } from 'svcdb/lib/schema'
import { configSchema } from './config.ts'
import { Registry } from './registry.ts'

const metrics = Type.Object({
  messages_total: Type.Integer({
    description: 'Messages that came; of a sink: those that brokers have acknowledged; of an edge: requests that its upstream has answered',
  }),
  points_total: Type.Integer({ description: 'Points written; of a sink: points in those messages; of an edge: points that its upstream has taken' }),
  decode_errors: Type.Integer({
    description:
      'Messages that could not be stored, in whole or in part; of a sink: changes that can never be sent; of an edge: points that its upstream refused',
  }),
  lag: Type.Union([Type.Integer(), Type.Null()], {
    description:
      'Messages that wait at the broker; null where that cannot be known; of a sink: commits that it has not looked at; of an edge: writes in its queue',
  }),
  throughput: Type.Number({ description: 'Points a second since it was connected' }),
})
const view = Type.Object({
  name: Type.String(),
  connector_type: Type.String({ description: 'kafka, mqtt, kafka_sink or forward' }),
  status: Type.Union([Type.String(), Type.Object({ failed: Type.String() })], { description: 'Running, Idle, Reconnecting, Stopped, or {"failed": reason}' }),
  metrics,
})
const listing = Type.Object({ items: Type.Array(view), total: Type.Integer(), offset: Type.Integer(), limit: Type.Integer() })
const listQuery = Type.Object({
  offset: Type.Integer({ default: 0, minimum: 0 }),
  limit: Type.Integer({ default: 100, minimum: 0, maximum: 100_000 }),
})

const replayed = Type.Object({
  messages: Type.Integer({ description: 'Dead letters that were read again' }),
  failed: Type.Integer({ description: 'Those that could not be stored this time either, in whole or in part' }),
  damaged: Type.Optional(Type.Integer({ description: 'Lines of the file that cannot be read, where there are any; they are in <name>.jsonl.damaged' })),
})

export default definePlugin({
  id: 'connectors',
  summary: 'Lists the connectors to brokers, and says which are up',
  stability: 'beta',
  config: configSchema,
  provides: [CONNECTORS],
  capabilities: ['points'],
  setup(svc) {
    let open = false
    const registry = new Registry(() => (open ? (svc.storage.connectors?.() ?? []) : []))
    svc.start(() => {
      open = true
    })
    svc.stop(() => {
      open = false
    })
    svc.provide(CONNECTORS, registry)
    svc.metrics.gauge('connector_up', 'Whether a connector is connected: 1 = Running or Idle', ['connector', 'type'], (gauge) => {
      for (const connector of registry.all()) gauge.set({ connector: connector.name, type: connector.type }, connector.status().up ? 1 : 0)
    })
    const visible = (context: CallContext): Connector[] =>
      registry.all().filter(({ namespace }) => !svc.server.multi_tenancy || administersServer(context) || namespace === context.namespace)
    const schema = {
      tags: ['admin'],
      summary: 'Connectors with their status and figures; those of the namespace of the caller',
      querystring: listQuery,
      response: { 200: listing },
    }
    svc.http.get('/api/v1/connectors', { schema }, async (request) => {
      const { offset, limit } = request.query as { offset: number; limit: number }
      const all = visible(svc.context(request))
      return { items: registry.views(all.slice(offset, offset + limit)), total: all.length, offset, limit }
    })
    const replay = {
      tags: ['admin'],
      summary: 'Reads the dead letters of a connector again; those that fail are dead letters anew',
      params: Type.Object({ name: Type.String({ maxLength: 64 }) }),
      response: { 200: replayed },
    }
    svc.http.post('/api/v1/admin/connectors/:name/dead-letters/replay', { config: { action: 'admin' as const }, schema: replay }, async (request) => {
      const { name } = request.params
      const connector = visible(svc.context(request)).find((each) => each.name === name)
      if (connector === undefined) throw new SvcError('NOT_FOUND', `cannot find a connector "${name}"; GET /api/v1/connectors lists them`)
      if (connector.replay === undefined)
        throw new SvcError('BAD_REQUEST', `cannot read the dead letters of "${name}" again: a connector of type ${connector.type} has no such file`)
      const answer = await connector.replay()
      if (answer.damaged !== undefined)
        svc.log.error(
          { connector: name, lines: answer.damaged },
          `dead letters cannot be read again; what is left of them is in dead-letters/${name}.jsonl.damaged`,
        )
      return answer
    })
  },
})
