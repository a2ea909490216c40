/** The words that built-in plugins add to the command line. */

import { ConfigError, type NodeConfig, readConfig, resolveConfig } from '../config/config.ts'
import { builtinPlugins, loadPlugin } from '../loader.ts'
import { dataDirOf } from '../node.ts'
import type { Plugin } from '../plugin.ts'
import { type Io, parseWords } from './argv.ts'
import type { Command, CommandConfig } from './command.ts'

export interface PluginCommand {
  plugin: Plugin
  command: Command
}

/** By plugin. One that cannot be loaded has none here: it says why where it is selected. */
export async function pluginCommands(): Promise<PluginCommand[]> {
  const found: PluginCommand[] = []
  for (const id of builtinPlugins()) {
    const plugin = await loadPlugin(id, process.cwd()).catch(() => undefined)
    for (const command of plugin?.commands ?? []) found.push({ plugin: plugin as Plugin, command })
  }
  return found
}

export function helpOf({ name, usage, summary, flags = {} }: Command): string {
  const lines = Object.entries(flags).map(([flag, { description, boolean }]) => `${`    --${flag}${boolean ? '' : ' VALUE'}`.padEnd(38)}${description}\n`)
  return `  ${usage === undefined ? name : `${name} ${usage}`}   ${summary}\n${lines.join('')}`
}

/** @param argv with the command's own word. @throws Error in one line. */
export async function runCommand({ plugin, command }: PluginCommand, argv: readonly string[], io: Io): Promise<number> {
  const own = Object.entries(command.flags ?? {})
  const named = (boolean: boolean) => own.filter(([, flag]) => (flag.boolean === true) === boolean).map(([name]) => name)
  const { words, flags } = parseWords(argv, ['config', ...named(false)], ['help', ...named(true)])
  if (flags.help !== undefined) {
    io.out(`${helpOf(command)}${'    -c, --config FILE'.padEnd(38)}TOML file; without it the defaults apply\n`)
    return 0
  }
  return command.run({
    flags,
    args: words.slice(1),
    env: io.env,
    out: io.out,
    err: io.err,
    async config() {
      return commandConfig(await resolveConfig(readConfig(flags, io.env)), plugin)
    },
  })
}

function commandConfig(config: NodeConfig, plugin: Plugin): CommandConfig {
  const { storage } = config
  return {
    section: config.sections.get(plugin.id),
    dataDir: dataDirOf(config),
    multiTenancy: config.server.multi_tenancy,
    openState: async () => (storage === undefined ? undefined : storage.module.openState?.(storage.config, plugin.id)),
  }
}

/** Asks each plugin what would end a start. @throws ConfigError with all there is. */
export async function checkPlugins(config: NodeConfig, env: Io['env']): Promise<void> {
  const plugins = config.plugins.map(({ id }) => id)
  const problems: string[] = []
  for (const plugin of config.plugins) {
    try {
      await plugin.check?.({ ...commandConfig(config, plugin), env, plugins })
    } catch (error) {
      problems.push(`cannot run plugin "${plugin.id}": ${(error as Error).message}`)
    }
  }
  if (problems.length > 0) throw new ConfigError(problems)
}
