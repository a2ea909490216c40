/** What the OpenAPI description says of the catalog's routes. Parameters are read by `parseList`, which answers faults in the catalog's shape. */
import { Type } from 'svcdb/lib/schema'

const text = (description: string) => Type.Optional(Type.String({ description }))
const token = { token: text('A token in place of the header Authorization: Bearer, unless catalog_auth.query_token is false; not recommended') }
const levels = Type.Array(Type.String(), { description: 'The name, as the only level' })
const properties = Type.Record(Type.String(), Type.String())
const abilities = Type.Record(Type.String(), Type.Boolean())

export const failure = Type.Object(
  { error: Type.Object({ message: Type.String(), type: Type.String(), code: Type.Integer() }) },
  { description: 'Any failure; the code is the status' },
)

export const tokenQuery = Type.Object(token)

export const listQuery = Type.Object({
  parent: text('A namespace, whose children are listed; none has any'),
  pageToken: text('next-page-token of the page before; empty for the first'),
  pageSize: text('Names of one page, at most 1000; default 100'),
  ...token,
})

export const configAnswer = Type.Object({ defaults: properties, overrides: properties, endpoints: Type.Array(Type.String()) })

export const listAnswer = Type.Object({ namespaces: Type.Array(levels), 'next-page-token': Type.Union([Type.String(), Type.Null()]) })

export const namespaceAnswer = Type.Object({ namespace: levels, properties })

export const contextAnswer = Type.Object({
  principal: Type.Object({
    id: Type.String(),
    name: Type.String(),
    principal_type: Type.String({ description: 'user, service, api_key, system or anonymous' }),
    tenant_id: Type.String(),
    roles: Type.Array(Type.String()),
    auth_method: Type.String({ description: 'api_key, jwt, mtls, basic, internal or none' }),
    expires_at: text('RFC 3339'),
  }),
  capabilities: Type.Object({ catalog: abilities, namespaces: abilities, tables: abilities, is_admin: Type.Boolean() }),
})
