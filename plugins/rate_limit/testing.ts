/** For tests: keys, an audit log that is looked into, and routes that answer. */
import { AUDIT_LOG, type AuditRecord, definePlugin, NAMESPACES, type NamespaceDefinition, type Plugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

/** Sections out of keys: those of limits that are not the plugin's own stand in [server]. */
export function configOf(keys: Record<string, unknown>, more: Record<string, unknown> = {}) {
  const inServer = ([key]: [string, unknown]) => /^(per_user_)?rate_limit_/.test(key)
  const all = Object.entries(keys)
  const server = { ...(more.server as object | undefined), ...Object.fromEntries(all.filter(inServer)) }
  return { ...more, server, rate_limit: Object.fromEntries(all.filter((entry) => !inServer(entry))) }
}

export const routes: Plugin = definePlugin({
  id: 'routes',
  summary: 'Routes for the tests',
  stability: 'experimental',
  setup(svc) {
    svc.http.get('/who', async (request) => svc.context(request))
    svc.http.get('/public', { config: { action: 'public' } }, async () => ({}))
  },
})

/** `Bearer ann`, `Bearer bob:red`: a principal and the namespaces it is confined to; `root` is an admin, `wrong...` is refused, later. */
export const keys: Plugin = definePlugin({
  id: 'keys',
  summary: 'Knows keys',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(async ({ header }) => {
      const [, principal, namespaces] = /^Bearer (\w+)(?::([\w,-]+))?$/.exec(header('authorization') ?? '') ?? []
      if (principal === undefined) return undefined
      await new Promise((resolve) => setImmediate(resolve))
      if (principal.startsWith('wrong')) return new SvcError('UNAUTHORIZED', 'the key is not known')
      return { principal, method: 'api_key', claims: {}, namespaces: namespaces?.split(',') ?? [], admin: principal === 'root' }
    })
  },
})

/** @param fail as an audit log does whose disk is full. */
export function auditLog(records: AuditRecord[], fail: () => boolean = () => false): Plugin {
  return definePlugin({
    id: 'audit_log',
    summary: 'Keeps what is recorded',
    stability: 'experimental',
    provides: [AUDIT_LOG],
    setup(svc) {
      svc.provide(AUDIT_LOG, {
        async record(record: AuditRecord) {
          if (fail()) throw new SvcError('STORAGE_FULL', 'the disk is full')
          records.push(record)
        },
      })
    },
  })
}

/** @param quotas requests a second, and at once, by name. */
export function directory(quotas: Map<string, [rps: number, burst: number]>): Plugin {
  const none = { max_series_count: 0, max_ingestion_rate: 0, max_storage_bytes: 0, max_measurements: 0, max_models: 0 }
  const get = (name: string): NamespaceDefinition | undefined => {
    const [max_request_rps, max_request_burst] = quotas.get(name) ?? []
    if (max_request_rps === undefined || max_request_burst === undefined) return undefined
    return { name, description: '', owner: 'root', quota: { ...none, max_request_rps, max_request_burst } }
  }
  return definePlugin({
    id: 'directory',
    summary: 'Knows namespaces',
    stability: 'experimental',
    provides: [NAMESPACES],
    setup: (svc) => svc.provide(NAMESPACES, { get, list: () => [...quotas.keys()].flatMap((name) => get(name) ?? []), names: () => [...quotas.keys()] }),
  })
}
