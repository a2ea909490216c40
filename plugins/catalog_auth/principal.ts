/** Who calls, in the catalog's words. */
import type { CallContext, Identity } from 'svcdb'

const DEFAULT_TENANT = 'default'
/** Roles that the catalog counts as an administrator's. They grant nothing: what an admin may do comes from the credential. */
const ADMIN_ROLES: ReadonlySet<string> = new Set(['admin', 'system', 'catalog-admin'])
const TYPES: Record<string, string> = { jwt: 'user', basic: 'user', mtls: 'service', api_key: 'api_key', internal: 'system', none: 'anonymous' }

/** The tenant that a credential says it is of; else the namespace that it acts in; `default` for one that is confined to none. */
export function tenantOf({ claims, namespaces }: Pick<Identity, 'claims' | 'namespaces'>, namespace: string | undefined): string {
  const claimed = textOf(claims.tenant_id)
  if (claimed !== undefined) return claimed
  return namespaces.length === 0 ? DEFAULT_TENANT : (namespace ?? namespaces[0])
}

type Abilities = Record<'list' | 'read' | 'create' | 'update' | 'delete' | 'manage', boolean>

interface ContextAnswer {
  principal: {
    id: string
    name: string
    principal_type: string
    tenant_id: string
    roles: readonly string[]
    auth_method: string
    /** RFC 3339. */
    expires_at?: string
  }
  capabilities: { catalog: Abilities; namespaces: Abilities; tables: Abilities; is_admin: boolean }
}

/** The catalog only shows, and has no tables: that is all that anybody may do here. */
const SHOWS: Abilities = { list: true, read: true, create: false, update: false, delete: false, manage: false }
const NOTHING: Abilities = { ...SHOWS, list: false, read: false }

/** @param context of a call that was let in, so that its caller may read. */
export function contextAnswer(context: CallContext): ContextAnswer {
  const { principal, method, roles, claims, admin, expiresAt } = context
  // A method that the catalog has no word for is the server's own affair.
  const known = Object.hasOwn(TYPES, method)
  const expires = instantOf(expiresAt)
  return {
    principal: {
      // A key has an id beside its name, a user a name beside its id.
      id: (method === 'api_key' ? textOf(claims.key_id) : undefined) ?? principal,
      name: (method === 'jwt' ? textOf(claims.name) : undefined) ?? principal,
      principal_type: known ? TYPES[method] : 'user',
      tenant_id: tenantOf(context, context.namespace),
      roles,
      auth_method: known ? method : 'internal',
      ...(expires === undefined ? {} : { expires_at: expires }),
    },
    capabilities: { catalog: SHOWS, namespaces: SHOWS, tables: NOTHING, is_admin: admin || roles.some((role) => ADMIN_ROLES.has(role)) },
  }
}

/** Undefined for none, and for one beyond what a date can say. */
function instantOf(milliseconds: number | undefined): string | undefined {
  const date = new Date(milliseconds ?? Number.NaN)
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString()
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
