import { definePlugin, SIGNAL_SINK } from 'svcdb'
import { AGENT_PLANES, AGENTS } from 'svcdb/agents'
import { planeCommand } from './command.ts'
import { configSchema } from './config.ts'

export default definePlugin({
  id: 'agent_plane',
  summary: 'Runs agents beside the data: durable runs whose effects happen once, wherever the process dies',
  stability: 'experimental',
  config: configSchema,
  needsSection: true,
  capabilities: ['state'],
  provides: [AGENTS, AGENT_PLANES, SIGNAL_SINK],
  auditActions: ['plane_run', 'plane_cancel', 'plane_resume'],
  commands: [planeCommand],
  async setup(svc, config) {
    const [{ assemble }, { AgentRegistry }, { loadAgents }, { requireTenants, signalSink }] = await Promise.all([
      import('./wiring.ts'),
      import('./agents/registry.ts'),
      import('./agents/load.ts'),
      import('./agents/beginnings.ts'),
    ])
    requireTenants(config)
    const registry = new AgentRegistry()
    await loadAgents(config.agents, registry)
    const planes = assemble(svc, config, registry)
    svc.provide(SIGNAL_SINK, signalSink(svc, config, planes))
    svc.provide(AGENTS, planes.default.agents)
    svc.provide(AGENT_PLANES, planes)
  },
})
