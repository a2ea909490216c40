/** The parts put together: loaded where the section is. */
import { AUDIT_LOG, type AuditLog, type LoadedPolicies, POLICIES, type Policies, type Svc } from 'svcdb'
import { AGENT_PLANES, type AgentPlanes } from 'svcdb/agents'
import { ACTIONS, POLICY_SCHEMA } from './actions.ts'
import { OperatorApi } from './api.ts'
import type { OperatorApiConfig } from './config.ts'
import { tokensOf } from './files.ts'
import { Gate } from './gate.ts'
import { addRoutes } from './handler.ts'
import { Listener } from './listener.ts'
import { apiMetrics } from './metrics.ts'
import { OPERATIONS } from './routes/index.ts'

export function assemble(svc: Svc, config: OperatorApiConfig): void {
  const { log, clock } = svc
  const held: { api?: OperatorApi; policies?: LoadedPolicies; listener?: Listener } = {}
  const metrics = apiMetrics(svc.metrics)
  const planes = svc.use<AgentPlanes>(AGENT_PLANES)
  addRoutes(svc, config.base_path, OPERATIONS, () => held.api as OperatorApi, metrics)
  svc.start(async () => {
    const tokens = await tokensOf(config.tokens_file)
    held.policies = await svc.use<Policies>(POLICIES).load({ path: config.policy, schema: POLICY_SCHEMA })
    const gate = new Gate({ tokens, planes, policies: held.policies, clock, log })
    gate.rehearse(ACTIONS)
    for (const tenant of tokens.tenants)
      if (planes.find(tenant) === undefined) log.warn({ tenant }, 'tokens are of a tenant that has no plane here: their callers are refused')
    held.api = new OperatorApi({
      gate,
      operations: OPERATIONS,
      bounds: { depth: svc.server.max_body_depth, members: svc.server.max_body_members },
      auditReads: config.audit_reads,
      auditLog: () => svc.find<AuditLog>(AUDIT_LOG),
      log,
    })
    log.info({ tokens: tokens.count, policies: held.policies.count, tenants: planes.tenants.length }, 'the operator API is open')
  })
  svc.ready(async () => {
    if (config.addr === undefined) return
    held.listener = new Listener(svc, config.addr, held.api as OperatorApi, metrics)
    await held.listener.start()
  })
  svc.drain(() => held.listener?.stop())
  svc.stop(async () => {
    await held.listener?.stop()
    held.policies?.close()
  })
}
