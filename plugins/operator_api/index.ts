import { definePlugin, POLICIES } from 'svcdb'
import { AGENT_PLANES } from 'svcdb/agents'
import { openapiCommand } from './command.ts'
import { configSchema, type OperatorApiConfig } from './config.ts'

export default definePlugin({
  id: 'operator_api',
  summary: 'What people and their tools see of the agent plane, and do to it: with tokens and policies of its own',
  stability: 'experimental',
  config: configSchema,
  needsSection: true,
  requires: [AGENT_PLANES, POLICIES],
  auditActions: ['operator_call'],
  commands: [openapiCommand],
  async check({ section }) {
    const { checkFiles } = await import('./files.ts')
    await checkFiles(section as OperatorApiConfig)
  },
  async setup(svc, config) {
    const { assemble } = await import('./wiring.ts')
    assemble(svc, config)
  },
})
