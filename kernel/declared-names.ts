/** Names that plugins bring along and no two may share. Pure. */
import type { Command } from './cli/command.ts'
import type { Plugin } from './plugin.ts'
import { AUDIT_ACTIONS } from './services/audit-log.ts'

/** Words of the command line that are the kernel's. */
export const KERNEL_COMMANDS = ['serve', 'check', 'plugins', 'state', 'help']

const KINDS: readonly { what: string; kernel: readonly string[]; of(plugin: Plugin): readonly string[] }[] = [
  { what: 'command', kernel: KERNEL_COMMANDS, of: ({ commands = [] }) => commands.flatMap(wordsOf) },
  { what: 'error code', kernel: [], of: ({ errors = {} }) => Object.keys(errors) },
  { what: 'audit action', kernel: AUDIT_ACTIONS, of: ({ auditActions = [] }) => auditActions },
]

/** One that answers to some verbs alone shares its word with others. */
function wordsOf({ name, verbs }: Command): string[] {
  return verbs === undefined || KERNEL_COMMANDS.includes(name) ? [name] : verbs.map((verb) => `${name} ${verb}`)
}

/** A line for each name that is taken. */
export function nameClashes(plugins: readonly Plugin[]): string[] {
  return KINDS.flatMap(({ what, kernel, of }) => {
    const owners = new Map(kernel.map((name) => [name, 'the kernel']))
    return plugins.flatMap((plugin) =>
      of(plugin).flatMap((name) => {
        const owner = owners.get(name)
        if (owner === undefined) owners.set(name, `plugin "${plugin.id}"`)
        return owner === undefined ? [] : [`cannot run plugin "${plugin.id}": its ${what} "${name}" belongs to ${owner}; rename it, or select one of them`]
      }),
    )
  })
}
