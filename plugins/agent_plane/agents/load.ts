/** Agents out of modules that the config names. */
import { pathToFileURL } from 'node:url'
import { type Agent, isAgent } from 'svcdb/agents'
import { loadHint } from 'svcdb/lib/modules'
import type { AgentRegistry } from './registry.ts'

/** @throws Error naming the file. */
export async function loadAgents(files: readonly string[], registry: AgentRegistry): Promise<void> {
  for (const file of files) {
    const refuse = (why: string, cause?: unknown) => new Error(`cannot load agents of "${file}": ${why}`, { cause })
    let module: Record<string, unknown>
    try {
      module = (await import(pathToFileURL(file).href)) as Record<string, unknown>
    } catch (error) {
      const cause = (error as Error).message
      throw refuse(`${cause}${loadHint(cause, file)}`, error)
    }
    const found = new Set<Agent>(Object.values(module).flat().filter(isAgent))
    if (found.size === 0) throw refuse('it exports none; export what defineAgent gives, as default or by name')
    for (const agent of found) registry.add(agent)
  }
}
