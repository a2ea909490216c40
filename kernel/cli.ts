/** The command line: serve, check, plugins. Returns an exit code; only main.ts ends the process. */
import { parseArgs } from 'node:util'
import { isWildcard, parseAddress } from './addresses.ts'
import { dataDirOf, SvcNode } from './boot.ts'
import type { Command } from './command.ts'
import { ConfigError, type NodeConfig, readConfig, resolveConfig } from './config.ts'
import { OVERRIDES } from './config-schema.ts'
import { builtinPlugins, loadPlugin } from './loader.ts'
import { Logs } from './log.ts'
import { didYouMean } from './nearest.ts'
import type { Plugin } from './plugin.ts'
import { mountsOf } from './section-table.ts'
import { VERSION } from './version.ts'

export interface Io {
  env: Record<string, string | undefined>
  out(text: string): void
  err(text: string): void
  /** Resolves at the first signal to stop. */
  stopSignal: Promise<string>
}

const COMMANDS = ['serve', 'check', 'plugins', 'help']

const HELP = `svc ${VERSION}, a time-series database server

Usage: svc <command> [flags]

Commands:
  serve     run the server (default)
  check     check the config and say what it would run
  plugins   list the built-in plugins with their config keys
  help      this text
`

const FLAGS = `
Flags:
  -c, --config FILE    TOML file; without it the defaults apply
${OVERRIDES.map(({ flag, path, env }) => `${`  --${flag} VALUE`.padEnd(38)}${path.join('.')} (${env.join(', ')})`).join('\n')}
  -v, --version
`

export async function run(argv: readonly string[], io: Io): Promise<number> {
  try {
    // What takes a value, and what does not, is known from the command.
    const word =
      argv.find((arg, i) => !arg.startsWith('-') && !['-c', '--config', ...OVERRIDES.map(({ flag }) => `--${flag}`)].includes(argv[i - 1])) ?? 'serve'
    const plugged = COMMANDS.includes(word) ? undefined : await findCommand(word)
    if (plugged !== undefined) return await runCommand(plugged.plugin, plugged.command, argv, io)
    const { command, flags } = parse(argv)
    if (flags.version !== undefined) return say(io, `${VERSION}\n`)
    if (command === 'help' || flags.help !== undefined) return say(io, HELP + (await pluggedHelp()) + FLAGS)
    if (command === 'plugins') return say(io, await listPlugins())
    const config = await resolveConfig(readConfig(flags, io.env))
    return command === 'check' ? await check(config, io) : await serve(config, io)
  } catch (error) {
    const lines = error instanceof ConfigError ? error.problems : [(error as Error).message]
    for (const line of lines) io.err(`svc: ${line}\n`)
    return 1
  }
}

function parse(argv: readonly string[]): { command: string; flags: Record<string, string | undefined> } {
  const names = ['config', ...OVERRIDES.flatMap(({ flag }) => flag ?? [])]
  const { words, flags } = parseWords(argv, names, ['version', 'help'])
  const [command = 'serve', ...more] = words
  if (!COMMANDS.includes(command))
    throw new Error(`cannot run command "${command}": there is no such command; ${didYouMean(command, COMMANDS, 'svc help lists them')}`)
  if (more.length > 0) throw new Error(`cannot use argument "${more[0]}": ${command} takes flags only`)
  return { command, flags }
}

interface Words {
  words: string[]
  flags: Record<string, string | undefined>
}

function parseWords(argv: readonly string[], valued: readonly string[], switches: readonly string[]): Words {
  const known = [...valued, ...switches]
  for (const arg of argv) {
    const name = /^--([^=]+)/.exec(arg)?.[1]
    if (name !== undefined && !known.includes(name))
      throw new Error(`cannot use flag "--${name}": there is no such flag; ${didYouMean(name, known, 'svc help lists them')}`)
  }
  const short: Record<string, string> = { config: 'c', version: 'v', help: 'h' }
  const option = (name: string, type: 'string' | 'boolean') => [name, { type, ...(name in short ? { short: short[name] } : {}) }] as const
  const options = Object.fromEntries([...valued.map((name) => option(name, 'string')), ...switches.map((name) => option(name, 'boolean'))])
  const { values, positionals } = parseArgs({ args: [...argv], options, allowPositionals: true })
  return {
    words: positionals,
    flags: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value === undefined ? undefined : String(value)])),
  }
}

async function pluggedCommands(): Promise<{ plugin: Plugin; command: Command }[]> {
  const found: { plugin: Plugin; command: Command }[] = []
  for (const id of builtinPlugins()) {
    const plugin = await loadPlugin(id, process.cwd())
    for (const command of plugin.commands ?? []) found.push({ plugin, command })
  }
  return found
}

async function findCommand(word: string): Promise<{ plugin: Plugin; command: Command } | undefined> {
  const all = await pluggedCommands()
  const found = all.find(({ command }) => command.name === word)
  if (found !== undefined) return found
  const names = [...COMMANDS, ...all.map(({ command }) => command.name)]
  throw new Error(`cannot run command "${word}": there is no such command; ${didYouMean(word, names, `the commands are ${names.join(', ')}`)}`)
}

async function pluggedHelp(): Promise<string> {
  const lines = (await pluggedCommands()).map(({ plugin, command: { name, usage, summary, flags = {} } }) => {
    const head = `  ${[name, usage].filter((part) => part !== undefined).join(' ')}   ${summary}\n`
    return (
      head +
      Object.entries(flags)
        .map(([flag, { description, boolean }]) => `${`    --${flag}${boolean ? '' : ' VALUE'}`.padEnd(38)}${description}\n`)
        .join('')
    )
  })
  return lines.length === 0 ? '' : `\nCommands of plugins:\n${lines.join('')}`
}

async function runCommand(plugin: Plugin, command: Command, argv: readonly string[], io: Io): Promise<number> {
  const own = Object.entries(command.flags ?? {})
  const named = (boolean: boolean) => own.filter(([, flag]) => (flag.boolean === true) === boolean).map(([name]) => name)
  const { words, flags } = parseWords(argv, ['config', ...named(false)], ['help', ...named(true)])
  if (flags.help !== undefined) return say(io, HELP + (await pluggedHelp()) + FLAGS)
  return command.run({
    flags,
    args: words.slice(1),
    env: io.env,
    out: io.out,
    err: io.err,
    async config() {
      const config = await resolveConfig(readConfig(flags, io.env))
      return { section: config.sections.get(plugin.id), dataDir: dataDirOf(config), multiTenancy: config.server.multi_tenancy }
    },
  })
}

function say(io: Io, text: string): number {
  io.out(text)
  return 0
}

async function serve(config: NodeConfig, io: Io): Promise<number> {
  const node = new SvcNode(config)
  const log = node.logs.child('kernel')
  const up = (async () => {
    await node.setup()
    await node.start()
  })()
  const signal = await Promise.race([io.stopSignal, up.then(() => io.stopSignal)])
  log.info({ signal }, 'stopping')
  const failures = await node.stop()
  await up.catch(() => {}) // it was interrupted by the signal, or had failed and thrown above
  log.info('stopped')
  return failures.length === 0 ? 0 : 1
}

/** Goes as far as the setup phase, which declares routes and metrics and opens nothing. */
async function check(config: NodeConfig, io: Io): Promise<number> {
  const node = new SvcNode(config, { logs: new Logs({ level: 'error', format: 'text' }) })
  try {
    await node.setup()
    io.out(describe(config))
    for (const warning of warnings(config, node.auth.open)) io.out(`warning: ${warning}\n`)
  } finally {
    await node.stop()
  }
  return 0
}

function describe(config: NodeConfig): string {
  const lines = [
    `config: ${config.file}`,
    `storage engine: ${config.storage?.engine ?? 'none (no selected plugin uses one)'}`,
    `plugins: ${config.plugins.map((p) => p.id).join(', ') || 'none'}`,
  ]
  const sections: [string, unknown][] = [['server', config.server]]
  if (config.tls !== undefined) sections.push(['tls', config.tls])
  if (config.storage !== undefined) sections.push(['database', config.storage.config])
  sections.push(['auth', config.auth])
  for (const plugin of config.plugins) {
    const own = config.sections.get(plugin.id)
    for (const { section, member } of mountsOf(plugin)) sections.push([section, member === undefined ? own : (own as Record<string, unknown>)[member]])
  }
  for (const [name, section] of sections) {
    const members = Object.entries(section as object)
    if (members.length > 0) lines.push('', `[${name}]`, ...members.map(([key, value]) => `${key} = ${JSON.stringify(value)}`))
  }
  return `${lines.join('\n')}\n\n`
}

function warnings({ listeners, tls }: NodeConfig, open: boolean): string[] {
  return listeners.flatMap(({ key, address }) => {
    if (!isWildcard(parseAddress(address).host)) return []
    const found = open ? [`${key} "${address}" is open to the world and no selected plugin authenticates; listen on 127.0.0.1 or add one`] : []
    if (tls === undefined) found.push(`${key} "${address}" is open to the world without TLS; add a [tls] section or listen on 127.0.0.1`)
    return found
  })
}

async function listPlugins(): Promise<string> {
  const lines: string[] = []
  for (const id of builtinPlugins()) {
    const plugin = await loadPlugin(id, process.cwd())
    lines.push(`${plugin.id} (${plugin.stability}): ${plugin.summary}`)
    for (const { section, schema } of mountsOf(plugin))
      for (const [key, { default: value, description }] of Object.entries(schema.properties ?? {}))
        lines.push(`  ${section}.${key} = ${JSON.stringify(value) ?? '(none)'}: ${description}`)
    lines.push('')
  }
  return lines.length === 0 ? 'there are no built-in plugins\n' : lines.join('\n')
}
