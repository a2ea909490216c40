import { settableBy } from 'svcdb'
import { Type } from 'svcdb/lib/schema'

export const MODES = ['data', 'meta', 'query'] as const

export const configSchema = Type.Object({
  node_id: Type.Optional(
    Type.Integer({
      ...settableBy({ flag: 'node-id', env: ['SVC_NODE_ID'] }),
      minimum: 1,
      maximum: 2 ** 53 - 1,
      description: 'Of this node, another for each that shares its state; default 1 alone, and made up at each start where state is shared',
    }),
  ),
  addr: Type.Optional(
    Type.String({
      pattern: '^[^\\s/]+:[0-9]{1,5}$',
      maxLength: 261,
      description: 'host:port under which clients and other nodes reach it; default server.http_addr',
    }),
  ),
  mode: Type.Enum([...MODES], { default: 'data', description: 'What it is listed as: data, meta or query; all do all that their plugins do' }),
  heartbeat_interval_secs: Type.Number({ default: 5, minimum: 0.1, maximum: 300, description: 'How often it beats in the state store, where that is shared' }),
  missed_heartbeats: Type.Integer({
    default: 2,
    minimum: 2,
    maximum: 100,
    description: 'Heartbeats without a beat after which others take it for dead; its work is elsewhere within one more',
  }),
})
