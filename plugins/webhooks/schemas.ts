/** Shapes of requests and answers. */
import { Type } from 'svcdb/lib/schema'

const status = Type.Object({
  namespace: Type.String(),
  owner: Type.String({ description: 'Id of the plugin that delivers by it' }),
  name: Type.String(),
  origin: Type.String({ description: 'Scheme, host and port of its URL' }),
  state: Type.Enum(['active', 'failing', 'parked'], { description: 'failing: its last attempt failed; parked: nothing is sent to it' }),
  reason: Type.Optional(Type.String({ description: 'Why it is parked, or why the last attempt failed' })),
  failing_since: Type.Optional(Type.Integer({ description: 'Since when it has taken nothing, milliseconds since the Unix epoch' })),
  waiting: Type.Integer({ description: 'Deliveries that wait' }),
  waiting_bytes: Type.Integer({ description: 'Bytes that they count for: of their bodies, and 512 each' }),
  oldest_age_secs: Type.Optional(Type.Number({ description: 'Age of the oldest that waits' })),
  delivered: Type.Integer(),
  lost: Type.Integer({ description: 'Deliveries that were dropped or given up' }),
})

export const listQuery = Type.Object({
  namespace: Type.Optional(Type.String({ description: 'Only endpoints of this namespace' })),
  state: Type.Optional(Type.Enum(['active', 'failing', 'parked'], { description: 'Only endpoints in this state' })),
  offset: Type.Integer({ minimum: 0, default: 0 }),
  limit: Type.Integer({ minimum: 1, maximum: 10_000, default: 1000 }),
})
export const listing = Type.Object({ items: Type.Array(status), total: Type.Integer(), offset: Type.Integer(), limit: Type.Integer() })
export const endpointPath = Type.Object({ namespace: Type.String(), owner: Type.String(), name: Type.String() })
export const rearmed = Type.Object({ rearmed: Type.Boolean({ description: 'false: it was not parked' }), endpoint: status })
