/** The command line: serve, check, plugins. Returns an exit code; only main.ts ends the process. */
import { parseArgs } from 'node:util'
import { isWildcard, parseAddress } from './addresses.ts'
import { SvcNode } from './boot.ts'
import { ConfigError, type NodeConfig, readConfig, resolveConfig } from './config.ts'
import { OVERRIDES } from './config-schema.ts'
import { builtinPlugins, loadPlugin } from './loader.ts'
import { Logs } from './log.ts'
import { didYouMean } from './nearest.ts'
import type { Schema } from './section.ts'
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

Flags:
  -c, --config FILE    TOML file; without it the defaults apply
${OVERRIDES.map(({ flag, path, env }) => `${`  --${flag} VALUE`.padEnd(38)}${path.join('.')} (${env.join(', ')})`).join('\n')}
  -v, --version
`

export async function run(argv: readonly string[], io: Io): Promise<number> {
  try {
    const { command, flags } = parse(argv)
    if (flags.version !== undefined) return say(io, `${VERSION}\n`)
    if (command === 'help' || flags.help !== undefined) return say(io, HELP)
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
  for (const arg of argv) {
    const name = /^--([^=]+)/.exec(arg)?.[1]
    const known = [...names, 'version', 'help']
    if (name !== undefined && !known.includes(name))
      throw new Error(`cannot use flag "--${name}": there is no such flag; ${didYouMean(name, known, 'svc help lists them')}`)
  }
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const, ...(name === 'config' ? { short: 'c' } : {}) }]))
  const { values, positionals } = parseArgs({
    args: [...argv],
    options: { ...options, version: { type: 'boolean', short: 'v' }, help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
  })
  const [command = 'serve', ...more] = positionals
  if (!COMMANDS.includes(command))
    throw new Error(`cannot run command "${command}": there is no such command; ${didYouMean(command, COMMANDS, `the commands are ${COMMANDS.join(', ')}`)}`)
  if (more.length > 0) throw new Error(`cannot use argument "${more[0]}": ${command} takes flags only`)
  return { command, flags: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value === undefined ? undefined : String(value)])) }
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
  for (const plugin of config.plugins) sections.push([plugin.section ?? plugin.id, config.sections.get(plugin.id)])
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
    const keys = Object.entries((plugin.config as Schema | undefined)?.properties ?? {})
    for (const [key, schema] of keys)
      lines.push(`  ${plugin.section ?? plugin.id}.${key} = ${JSON.stringify(schema.default) ?? '(none)'}: ${schema.description}`)
    lines.push('')
  }
  return lines.length === 0 ? 'there are no built-in plugins\n' : lines.join('\n')
}
