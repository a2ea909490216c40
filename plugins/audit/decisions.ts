/** What a decision about a call is in the audit log, if it is to be there. */
import { type AuditAction, type Credentials, type Decision, tokenOf } from 'svcdb'
import { publicText } from 'svcdb/lib/errors'
import type { Recordable } from './config.ts'
import type { DraftInput } from './draft.ts'

/** Routes that do more than their action says. */
const ACTIONS: ReadonlyMap<string, AuditAction> = new Map([
  ['/api/v1/export/parquet', 'data_export'],
  ['/api/v1/measurements/:name/schema/fields', 'schema_change'],
  // The drop that it undoes is on record.
  ['/api/v1/measurements/:name/restore', 'schema_change'],
])

/** A principal that was not proven. */
const NOBODY = 'anonymous'
const SCHEMES = new Set(['bearer', 'token', 'basic'])
/** A shorter one stands in too many words. */
const SHORTEST_SECRET = 4

interface Selection {
  record: readonly Recordable[]
  skip: readonly string[]
}

/** @returns a function from decisions to what is recorded of them; undefined = nothing. */
export function recorder({ record, skip }: Selection): (decision: Decision) => DraftInput | undefined {
  const wanted = new Set<string>(record)
  const skipped = new Set(skip)
  return (decision) => {
    const { outcome, stage, resource } = decision
    const action = outcome === 'deny' && stage === 'authentication' ? 'login_failure' : (ACTIONS.get(resource) ?? decision.action)
    if (outcome === 'allow' ? !wanted.has(action) || skipped.has(resource) : !wanted.has(action === 'login_failure' ? action : 'denied')) return undefined
    const { credentials, identity } = decision
    return {
      action: action as AuditAction,
      resource,
      decision: outcome,
      principal: identity?.principal ?? NOBODY,
      ...(credentials.address === undefined ? {} : { address: credentials.address }),
      requestId: credentials.requestId,
      metadata: metadataOf(decision),
    }
  }
}

function metadataOf({ outcome, stage, resource, credentials, identity, context, error }: Decision): Record<string, string> {
  const { protocol, path } = credentials
  const metadata: Record<string, string> = { surface: protocol }
  if (identity === undefined) metadata.credential = kindOf(credentials)
  else metadata.method = identity.method
  if (context !== undefined) metadata.namespace = context.namespace
  if (path !== resource) metadata.path = withoutSecrets(path, credentials)
  if (outcome === 'deny') {
    metadata.stage = stage
    if (error !== undefined) {
      metadata.code = error.code
      metadata.reason = withoutSecrets(publicText(error), credentials)
    }
  }
  return metadata
}

/** What the caller showed, by its kind only. */
function kindOf(credentials: Credentials): string {
  const header = credentials.header('authorization')?.trim()
  if (header) {
    const scheme = header.split(' ', 1)[0].toLowerCase()
    return SCHEMES.has(scheme) ? scheme : 'other'
  }
  if (credentials.header('x-api-key')) return 'x-api-key'
  if (credentials.query('token')) return 'query'
  return credentials.certificate === undefined ? 'none' : 'certificate'
}

/** Error texts hold no secrets; should one do so after all, it does not get into the audit log. */
function withoutSecrets(text: string, credentials: Credentials): string {
  const header = credentials.header('authorization')?.trim()
  const shown = [header, header?.split(/\s+/).at(-1), tokenOf(credentials), credentials.header('x-api-key'), credentials.query('token'), credentials.query('p')]
  const secrets = shown.filter((secret): secret is string => secret !== undefined && secret.length >= SHORTEST_SECRET)
  return secrets.sort((a, b) => b.length - a.length).reduce((safe, secret) => safe.replaceAll(secret, '[redacted]'), text)
}
