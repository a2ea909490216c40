import { definePlugin } from 'svcdb'
import { AGENTS } from 'svcdb/agents'
import { planeCommand } from './command.ts'
import { configSchema } from './config.ts'

export default definePlugin({
  id: 'agent_plane',
  summary: 'Runs agents beside the data: durable runs whose effects happen once, wherever the process dies',
  stability: 'experimental',
  config: configSchema,
  needsSection: true,
  capabilities: ['state'],
  provides: [AGENTS],
  auditActions: ['plane_run', 'plane_cancel'],
  commands: [planeCommand],
  async setup(svc, config) {
    const { assemble } = await import('./wiring.ts')
    svc.provide(AGENTS, assemble(svc, config))
  },
})
