/** What the audit log says of a decision. Never a credential: only who it proved, how, and why it did not do. */
import { type Decision, hasAuthorization, tokenOf } from 'svcdb'
import { tenantOf } from './principal.ts'

/** Members in the order of the log. */
export interface AuthEntry {
  /** ISO 8601, UTC. */
  timestamp: string
  event: 'auth_success' | 'auth_failure'
  /** Once it is proven. */
  principal?: string
  tenant_id?: string
  /** api_key, jwt or mtls; absent where no credential was shown. */
  method?: string
  ip: string | null
  request_id: string
  /** Of a failure. */
  reason?: string
}

export interface AuthorizationEntry {
  timestamp: string
  event: 'authz_permit' | 'authz_deny'
  principal: string
  action: string
  resource: string
  request_id: string
  reason?: string
}

/** Of a principal's name; those of tokens are as long as their issuer likes. */
const LONGEST = 1024

export function authEntry(decision: Decision, now: number): AuthEntry {
  const { outcome, identity, context, credentials } = decision
  return {
    timestamp: new Date(now).toISOString(),
    event: outcome === 'allow' ? 'auth_success' : 'auth_failure',
    ...(identity === undefined ? {} : { principal: identity.principal.slice(0, LONGEST), tenant_id: tenantOf(identity, context?.namespace).slice(0, LONGEST) }),
    ...methodOf(decision),
    ip: credentials.address ?? null,
    request_id: credentials.requestId,
    ...(outcome === 'allow' ? {} : { reason: reasonOf(decision) }),
  }
}

/** Undefined where nobody got as far as being authorized. */
export function authorizationEntry(decision: Decision, now: number): AuthorizationEntry | undefined {
  const { outcome, stage, identity, action, resource, credentials } = decision
  if (stage !== 'authorization' || identity === undefined) return undefined
  return {
    timestamp: new Date(now).toISOString(),
    event: outcome === 'allow' ? 'authz_permit' : 'authz_deny',
    principal: identity.principal.slice(0, LONGEST),
    action,
    resource,
    request_id: credentials.requestId,
    ...(outcome === 'allow' ? {} : { reason: reasonOf(decision) }),
  }
}

function methodOf(decision: Decision): { method?: string } {
  const method = decision.identity?.method ?? presented(decision)
  return method === undefined || method === 'none' ? {} : { method }
}

/** What the credentials look like, where nobody could say what they are. */
function presented({ credentials }: Decision): string | undefined {
  if (credentials.certificate?.error !== undefined) return 'mtls'
  const token = tokenOf(credentials)
  if (token === undefined) return undefined
  return token.split('.').length > 2 ? 'jwt' : 'api_key'
}

function reasonOf({ error, credentials, identity }: Decision): string {
  switch (error?.code) {
    case 'RATE_LIMITED':
      return 'rate_limited'
    case 'FORBIDDEN':
      return 'forbidden'
    case 'NOT_FOUND':
      return 'unknown_namespace'
    case 'UNAUTHORIZED':
      if (credentials.certificate?.error !== undefined) return 'invalid_certificate'
      if (identity?.method === 'none' || !hasAuthorization(credentials)) return 'missing_credentials'
      return /\bexpired\b/i.test(error.message) ? 'expired_token' : 'invalid_token'
    default:
      return ofStatus(error?.kind.http ?? 500)
  }
}

function ofStatus(status: number): string {
  if (status < 500) return 'bad_request'
  return status === 503 ? 'unavailable' : 'server_error'
}
