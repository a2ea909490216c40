/** Shapes of the routes, for validation and for the OpenAPI description. */
import { Type } from 'svcdb/lib/schema'

export const listQuery = Type.Object({
  offset: Type.Optional(Type.Integer({ minimum: 0, default: 0, description: 'Bans left out at the beginning' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100, description: 'Bans in the answer' })),
})

export const banList = Type.Object({
  items: Type.Array(
    Type.Object({
      address: Type.String({ description: 'An IPv4 address, or the /64 of an IPv6 address' }),
      failures: Type.Integer({ description: 'Refused credentials that brought the ban' }),
      expires_at: Type.String({ format: 'date-time' }),
      remaining_secs: Type.Integer(),
    }),
  ),
  total: Type.Integer(),
  offset: Type.Integer(),
  limit: Type.Integer(),
})

export const banPath = Type.Object({ address: Type.String({ maxLength: 64, description: 'The address; of IPv6 any in the /64' }) })
export const lifted = Type.Object({ ok: Type.Boolean(), message: Type.String() })
