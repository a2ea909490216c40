/** `svc check`: what is wrong with a config, or what it would run. */
import type { NodeConfig } from '../config/config.ts'
import { describe, idle, notes, warnings } from '../config/text.ts'
import { Logs } from '../log.ts'
import { SvcNode } from '../node.ts'
import type { Io } from './argv.ts'
import { checkPlugins } from './plugin-commands.ts'

/** Goes as far as the setup phase, which declares routes and metrics and opens nothing. */
export async function check(config: NodeConfig, io: Io): Promise<number> {
  const node = new SvcNode(config, { logs: new Logs({ level: 'warn', format: 'compact' }) })
  try {
    await node.setup()
    await checkPlugins(config, io.env, node.auth.owners)
    io.out(describe(config))
    for (const note of [...notes(config), ...idle(config)]) io.out(`note: ${note}\n`)
    for (const warning of warnings(config, node.auth.open)) io.out(`warning: ${warning}\n`)
    for (const problem of node.certificateProblems) io.out(`warning: ${problem}\n`)
  } finally {
    await node.stop()
  }
  return 0
}
