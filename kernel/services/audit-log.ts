/** What happened to the server's security, and who did it. Whoever keeps the audit log provides the service AUDIT_LOG; others find it and record. */
import type { CallContext } from '../auth/auth.ts'
import { classify } from '../lib/errors/index.ts'

/** Name of the service `AuditLog`. */
export const AUDIT_LOG = 'audit_log'

/** Those that every node knows; a plugin names its own as `auditActions`. */
export const AUDIT_ACTIONS = [
  'write',
  'read',
  'delete',
  'admin',
  'create_rollup',
  'drop_rollup',
  'forecast',
  'detect_anomalies',
  'subscribe',
  'login_failure',
  'key_rotation',
  'token_refresh',
  'trigger_create',
  'trigger_drop',
  'signal_fired',
  'schema_change',
  'data_export',
  'permission_change',
  'policy_load',
  'api_key_create',
  'api_key_revoke',
  'namespace_create',
  'namespace_delete',
  'quota_change',
  'custom',
] as const

/** An action of the list that every node knows, or one that a plugin has declared. */
export type AuditAction = (typeof AUDIT_ACTIONS)[number] | (string & {})

/** One entry, as it is handed over: the log adds the time and the chain. */
export interface AuditRecord {
  action: AuditAction
  /** What it was done to: a key's name, a namespace, a route's pattern. Never a secret. */
  resource: string
  decision: 'allow' | 'deny'
  /** Who did it; absent = the server itself, recorded as `system`. */
  by?: Pick<CallContext, 'principal' | 'address' | 'requestId'>
  metadata?: Record<string, string>
}

/** The service AUDIT_LOG. */
export interface AuditLog {
  /** Resolves when the entry is kept. @throws SvcError when it cannot be: what was to be recorded should then not be done. */
  record(record: AuditRecord): Promise<void>
}

/**
 * Does what is to be recorded, once it is. When it then fails, a second entry says so: the same one, denied, with the metadata `failed`.
 * @throws what `record` throws, and nothing is done; or what `act` throws.
 */
export async function audited<T>(auditLog: AuditLog | undefined, record: AuditRecord, act: () => Promise<T>): Promise<T> {
  await auditLog?.record(record)
  try {
    return await act()
  } catch (error) {
    // The caller is told why it failed, not why the audit log could not be written.
    await auditLog?.record({ ...record, decision: 'deny', metadata: { ...record.metadata, failed: classify(error).code } }).catch(() => {})
    throw error
  }
}
