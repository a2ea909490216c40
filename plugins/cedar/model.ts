/** What policies speak of: the Cedar schema, and which capability a route of the administration needs. */
import type { Action } from 'svcdb'

export type DataAction = 'Read' | 'Write' | 'Delete'
export type Capability =
  | 'ManageKeys'
  | 'ManageBackups'
  | 'ManageConfig'
  | 'ManageModels'
  | 'ManageNamespaces'
  | 'ManageNodes'
  | 'ManageRegions'
  | 'ManageCluster'
  | 'ViewCluster'

export const DATA_ACTIONS: Record<'read' | 'write' | 'delete', DataAction> = { read: 'Read', write: 'Write', delete: 'Delete' }
export const CAPABILITIES: readonly Capability[] = [
  'ManageKeys',
  'ManageBackups',
  'ManageConfig',
  'ManageModels',
  'ManageNamespaces',
  'ManageNodes',
  'ManageRegions',
  'ManageCluster',
  'ViewCluster',
]
/** The id of the one `Svc::System`. */
export const SYSTEM = 'svc'

export const SCHEMA = `
namespace Svc {
  entity Role;
  entity User in [Role] { name: String };
  entity Namespace { name: String };
  entity System enum ["${SYSTEM}"];
  type Request = {
    ip_address?: ipaddr,
    request_id: String,
    timestamp: datetime,
    hour: Long,
    roles: Set<String>,
    tenant?: String,
    method: String,
    route: String,
  };
  action ${Object.values(DATA_ACTIONS).join(', ')} appliesTo { principal: [User], resource: [Namespace], context: Request };
  action Admin;
  action ${CAPABILITIES.join(', ')} in [Admin] appliesTo { principal: [User], resource: [System], context: Request };
}
`

/** "*" at the end stands for anything, as in the table of route groups. */
const ROUTE_GROUPS: readonly [string, Capability][] = [
  ['/api/v1/admin/auth/keys*', 'ManageKeys'],
  ['/api/v1/admin/backup*', 'ManageBackups'],
  ['/api/v1/admin/restore', 'ManageBackups'],
  ['/api/v1/admin/log-level', 'ManageConfig'],
  ['/api/v1/admin/analytics/*', 'ManageModels'],
  ['/api/v1/namespaces*', 'ManageNamespaces'],
  ['/api/v1/admin/nodes*', 'ManageNodes'],
  ['/api/v1/admin/heartbeat', 'ManageNodes'],
  ['/api/v1/admin/regions*', 'ManageRegions'],
  ['/api/v1/admin/routing', 'ViewCluster'],
  ['/api/v1/admin/health', 'ViewCluster'],
  ['/api/v1/admin/topology', 'ViewCluster'],
  ['/api/v1/admin/rebalance', 'ManageCluster'],
]

/**
 * The capability that a call needs; undefined = it is about data. The metrics are about the server whoever may see them;
 * what is for admins and in no group, such as a route of a third party's plugin, needs the configuration's.
 */
export function capabilityOf(action: Action, route: string, metricsPath: string): Capability | undefined {
  if (route === metricsPath) return 'ViewCluster'
  if (action !== 'admin') return undefined
  const group = ROUTE_GROUPS.find(([pattern]) => (pattern.endsWith('*') ? route.startsWith(pattern.slice(0, -1)) : route === pattern))
  return group?.[1] ?? 'ManageConfig'
}
