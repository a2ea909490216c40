import { definePlugin } from 'svcdb'
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
  provides: [AGENTS, AGENT_PLANES],
  auditActions: ['plane_run', 'plane_cancel'],
  commands: [planeCommand],
  async setup(svc, config) {
    const { assemble } = await import('./wiring.ts')
    const planes = assemble(svc, config)
    svc.provide(AGENTS, planes.default.agents)
    svc.provide(AGENT_PLANES, planes)
  },
})
