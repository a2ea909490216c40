/** For tests: an agent of one capability, `<name>.do`. */
import { type Agent, type AgentContext, type AgentManifest, defineAgent, type Json } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'

/** @param commissions agents whose capabilities it may commission. */
export function oneAgent(name: string, does: (ctx: AgentContext) => Promise<Json>, commissions: string[] = []): Agent {
  const manifest: AgentManifest = {
    apiVersion: 'svc/v1alpha1',
    kind: 'Agent',
    metadata: { name, version: '1' },
    spec: { capabilities: { provides: [`${name}.do`] }, security: { commissions }, budgets: {} },
  }
  return defineAgent({
    manifest,
    skills: (skill) => [skill({ capability: `${name}.do`, summary: 'Of a test', input: Type.Any(), output: Type.Any(), invoke: does })],
  })
}
