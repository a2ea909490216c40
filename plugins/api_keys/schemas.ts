/** Shapes of the routes, for validation and for the OpenAPI description. */
import { type Static, Type } from 'svcdb/lib/schema'
import { expiry, namespaceList, roleList } from './config.ts'

export const createBody = Type.Object(
  {
    name: Type.String({ maxLength: 1024, description: 'Who the key stands for: 1 to 128 characters, blanks around them cut off; unique', examples: ['ci'] }),
    expires_at: expiry('When it ends, Unix seconds; without, it does not end'),
    namespaces: Type.Optional(
      namespaceList({
        description: 'Namespaces that it may name; none, or ["*"] = all. Needed under server.multi_tenancy, where only an admin may have ["*"]',
      }),
    ),
    roles: Type.Optional(roleList({ description: 'Roles for the policy engine' })),
    admin: Type.Optional(Type.Boolean({ description: 'Whether it may administer the server' })),
  },
  { additionalProperties: false },
)
export type CreateBody = Static<typeof createBody>

const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T, description: string) => Type.Union([schema, Type.Null()], { description })
const members = {
  id: Type.String({ description: 'A UUID; of a key of the config, its name' }),
  name: Type.String(),
  source: Type.String({ description: 'config, runtime (made over HTTP) or store (an object of its own)' }),
  enabled: Type.Boolean(),
  tenant_id: orNull(Type.String(), 'Its tenant, or its only namespace'),
  namespaces: Type.Array(Type.String()),
  roles: Type.Array(Type.String()),
  admin: Type.Boolean(),
  created_at: orNull(Type.Integer(), 'Unix seconds; null of a key of the config'),
  expires_at: orNull(Type.Integer(), 'Unix seconds'),
  last_used_at: orNull(Type.Integer(), 'Unix seconds; null where it was not used since the server started'),
  usage_count: Type.Integer({ description: 'Calls since the server started' }),
}
const keyView = Type.Object(members)
export type KeyView = Static<typeof keyView>
export const createdKey = Type.Object({ key: Type.String({ description: 'The key itself, shown this once' }), ...members })
export const listing = Type.Object({ items: Type.Array(keyView), total: Type.Integer(), offset: Type.Integer(), limit: Type.Integer() })
export const listQuery = Type.Object({
  offset: Type.Integer({ default: 0, minimum: 0 }),
  limit: Type.Integer({ default: 100, minimum: 0, maximum: 100_000 }),
})
export const keyPath = Type.Object({ name: Type.String() })
export const nothing = Type.Null({ description: 'Done' })
