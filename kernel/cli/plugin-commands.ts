/** The words and flags that plugins add to the command line: those that the config file selects, and the built-in ones. */

import { ConfigError, dataDirOf, type NodeConfig, readConfig, resolveConfig } from '../config/config.ts'
import { KERNEL_OVERRIDES, type Override, overridesOf } from '../config/overrides.ts'
import { printable } from '../lib/text/index.ts'
import { builtinPlugins, loadPlugin } from '../loader.ts'
import type { Plugin } from '../plugin.ts'
import { configPathOf, flagsIn, type Io, parseWords, SWITCHES, type Words, wordsOf } from './argv.ts'
import type { Command, CommandConfig } from './command.ts'

/** Columns in front of what is said of a form or a flag, at least. */
const HEAD = 38

interface PluginCommand {
  plugin: Plugin
  command: Command
}

/** What a command line is read by. */
export interface Vocabulary {
  command: string
  overrides: Override[]
  /** Flags that take a value. */
  valued: string[]
  plugins: Plugin[]
}

/**
 * Loads what the config file selects, and the built-in plugins only where the line has a flag or a word that is none of those: a start pays for nothing else.
 * What is wrong with the file, or a plugin, is said by whoever needs it.
 * @param own commands of the kernel that need no others.
 */
export async function vocabularyOf(argv: readonly string[], env: Io['env'], own: readonly string[]): Promise<Vocabulary> {
  const selected = await selectedPlugins(argv, env)
  const narrow = of(argv, selected)
  const known = [...narrow.valued, ...SWITCHES]
  const named = commandsOf(selected).filter(({ command: { name } }) => name === narrow.command)
  if (named.length > 0) {
    const shared = named.flatMap(({ command }) => command.sharedWith ?? [])
    return shared.length === 0 ? narrow : of(argv, withBuiltins(selected, await loaded(shared)))
  }
  if (own.includes(narrow.command) && flagsIn(argv).every((flag) => known.includes(flag))) return narrow
  return of(argv, withBuiltins(selected, await loaded(builtinPlugins())))
}

/** Those of the built-in plugins that can be loaded. */
function loaded(ids: readonly string[]): Promise<(Plugin | undefined)[]> {
  return Promise.all(ids.map((id) => loadPlugin(id, process.cwd()).catch(() => undefined)))
}

function of(argv: readonly string[], plugins: Plugin[]): Vocabulary {
  const overrides = [...KERNEL_OVERRIDES, ...plugins.flatMap(overridesOf)]
  const valued = ['config', ...overrides.flatMap(({ flag }) => flag ?? [])]
  return { command: wordsOf(argv, valued)[0] ?? 'serve', overrides, valued, plugins }
}

function withBuiltins(selected: readonly Plugin[], builtin: readonly (Plugin | undefined)[]): Plugin[] {
  const ids = new Set(selected.map(({ id }) => id))
  return [...builtin.filter((plugin) => plugin !== undefined && !ids.has(plugin.id)), ...selected] as Plugin[]
}

async function selectedPlugins(argv: readonly string[], env: Io['env']): Promise<Plugin[]> {
  try {
    const { tree, folder } = readConfig({ config: configPathOf(argv) }, env)
    const names = Array.isArray(tree.plugins) ? tree.plugins.filter((name) => typeof name === 'string') : []
    const loaded = await Promise.all(names.map((name) => loadPlugin(name, folder).catch(() => undefined)))
    return loaded.filter((plugin) => plugin !== undefined)
  } catch {
    return []
  }
}

export function commandsOf(plugins: readonly Plugin[]): PluginCommand[] {
  return plugins.flatMap((plugin) => (plugin.commands ?? []).map((command) => ({ plugin, command })))
}

/** The line of a command in the list of all. */
export function lineOf({ name, usage, summary }: Command): string {
  return `  ${usage === undefined ? name : `${name} ${usage}`}   ${summary}\n`
}

/** All that a command takes. */
export function helpOf(command: Command): string {
  const { name, forms = [], flags = {} } = command
  const lines = [
    ...forms.map(({ usage, summary }) => [`    ${name} ${usage}`, summary]),
    ...Object.entries(flags).map(([flag, { description, boolean }]) => [`    --${flag}${boolean ? '' : ' VALUE'}`, description]),
  ]
  const width = Math.max(HEAD, ...lines.map(([head]) => head.length + 2))
  return lineOf(command) + lines.map(([head, text]) => `${head.padEnd(width)}${text}\n`).join('')
}

/** Which of the commands of one name is meant: that of the verb, wherever flags stand. */
export function commandOf(named: readonly PluginCommand[], argv: readonly string[]): PluginCommand | undefined {
  const valued = named.flatMap(({ command }) => valuedOf(command))
  const [, verb] = wordsOf(argv, ['config', ...valued])
  return named.find(({ command }) => command.verbs?.includes(verb)) ?? named.find(({ command }) => command.verbs === undefined) ?? named[0]
}

function valuedOf({ flags = {} }: Command): string[] {
  return Object.keys(flags).filter((flag) => flags[flag].boolean !== true)
}

/** @param argv with the command's own word. @throws Error in one line. */
export async function runCommand({ plugin, command }: PluginCommand, argv: readonly string[], io: Io): Promise<number> {
  const valued = valuedOf(command)
  const switches = Object.keys(command.flags ?? {}).filter((flag) => !valued.includes(flag))
  const line = readLine(() => parseWords(argv, ['config', ...valued], ['help', ...switches]), command, io)
  if (typeof line === 'number') return line
  const { words, flags } = line
  if (flags.help !== undefined) {
    io.out(`${helpOf(command)}${'    -c, --config FILE'.padEnd(HEAD)}TOML file; without it the defaults apply\n`)
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

/** @returns the exit code where the line cannot be read. @throws Error in one line, from a command that has no code for it. */
function readLine(read: () => Words, { usageCode }: Command, io: Io): Words | number {
  try {
    return read()
  } catch (error) {
    if (usageCode === undefined) throw error
    io.err(`svc: ${printable((error as Error).message)}\n`)
    return usageCode
  }
}

function commandConfig(config: NodeConfig, plugin: Plugin): CommandConfig {
  return {
    section: config.sections.get(plugin.id),
    dataDir: dataDirOf(config),
    multiTenancy: config.server.multi_tenancy,
    sharedState: config.state !== undefined || new Set<string>(config.storage?.module.capabilities).has('shared_state'),
    openState: async () => (await import('./state.ts')).openStateOf(config, plugin.id, 'read'),
    ownState: async () => (await import('./state.ts')).openStateOf(config, plugin.id, 'exclusive'),
  }
}

/** Asks each plugin what would end a start. @throws ConfigError with all there is. */
export async function checkPlugins(config: NodeConfig, env: Io['env'], authenticators: readonly string[]): Promise<void> {
  const plugins = config.plugins.map(({ id }) => id)
  const problems: string[] = []
  for (const plugin of config.plugins) {
    try {
      await plugin.check?.({ ...commandConfig(config, plugin), env, plugins, authenticators })
    } catch (error) {
      problems.push(`cannot run plugin "${plugin.id}": ${(error as Error).message}`)
    }
  }
  if (problems.length > 0) throw new ConfigError(problems)
}
