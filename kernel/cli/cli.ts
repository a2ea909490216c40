/** The command line: serve, check, plugins, and the commands of plugins. Returns an exit code; only main.ts ends the process. */

import { ConfigError, readConfig, resolveConfig } from '../config/config.ts'
import { type Override, settingOf } from '../config/overrides.ts'
import { listPlugins } from '../config/text.ts'
import { KERNEL_COMMANDS } from '../declared-names.ts'
import { didYouMean, printable } from '../lib/text/index.ts'
import { VERSION } from '../version.ts'
import { type Io, parseWords, SWITCHES } from './argv.ts'
import { commandOf, commandsOf, lineOf, runCommand, type Vocabulary, vocabularyOf } from './plugin-commands.ts'

/** Those that need no plugin but the selected ones. */
const SELECTED_ONLY = ['serve', 'check', 'state']

const LINES: Record<string, string> = {
  serve: 'run the server (default)',
  check: 'check the config and say what it would run',
  plugins: 'list the plugins with their config keys: the built-in ones and, with --config, those that the file names',
  state:
    "copy --from NAME --to NAME: moves all state, between database and what [state] names; discard --from database: gives up the database's own; stop every node first",
  help: 'this text',
}

const lineOfOwn = (command: string): string => `  ${command.padEnd(10)}${LINES[command]}\n`

const HEAD = `svc ${VERSION}, a time-series database server

Usage: svc <command> [flags]

Commands:
${Object.keys(LINES).map(lineOfOwn).join('')}`

const flagsText = (overrides: readonly Override[], of = ''): string => `
Flags${of}:
${'  -c, --config FILE'.padEnd(38)}TOML file; without it the defaults apply
${overrides.flatMap((override) => (override.flag === undefined ? [] : `${`  --${override.flag} VALUE`.padEnd(38)}${settingOf(override)}`)).join('\n')}
  -v, --version
`

export async function run(argv: readonly string[], io: Io): Promise<number> {
  try {
    if (argv.length === 1 && ['-v', '--version'].includes(argv[0])) return say(io, `${VERSION}\n`)
    const known = await vocabularyOf(argv, io.env, SELECTED_ONLY)
    return KERNEL_COMMANDS.includes(known.command) ? await runOwn(known, argv, io) : await runPlugged(known, argv, io)
  } catch (error) {
    const lines = error instanceof ConfigError ? error.problems : [(error as Error).message]
    for (const line of lines) io.err(`svc: ${printable(line)}\n`)
    return 1
  }
}

async function runOwn(known: Vocabulary, argv: readonly string[], io: Io): Promise<number> {
  const { command, valued } = known
  if (command === 'state') return runState(known, argv, io)
  const { words, flags } = parseWords(argv, valued, SWITCHES)
  const [, more] = words
  if (more !== undefined)
    throw new Error(`cannot use argument "${more}": ${command} takes flags only${more.endsWith('.toml') ? `; write --config ${more}` : ''}`)
  if (flags.version !== undefined) return say(io, `${VERSION}\n`)
  if (command === 'help') return say(io, help(known))
  // Flags of all plugins count, and so does a line that names no command.
  if (flags.help !== undefined) {
    const all = await vocabularyOf(['help', ...argv], io.env, [])
    return say(io, words.length === 0 ? help(all) : lineOfOwn(command) + flagsText(all.overrides))
  }
  if (command === 'plugins') return say(io, await listPlugins(readConfig(flags, io.env)))
  const config = await resolveConfig(readConfig(flags, io.env))
  // A word of the command line loads what it needs: a node is most of the program.
  return command === 'check' ? (await import('./check.ts')).check(config, io) : (await import('./serve.ts')).serve(config, io)
}

async function runState({ valued }: Vocabulary, argv: readonly string[], io: Io): Promise<number> {
  const { words, flags } = parseWords(argv, [...valued, 'from', 'to'], SWITCHES)
  if (flags.help !== undefined) return say(io, lineOfOwn('state') + flagsText([]))
  const [, verb, more] = words
  if ((verb !== 'copy' && verb !== 'discard') || more !== undefined)
    throw new Error(`cannot run "${words.join(' ')}": it is svc state copy --from NAME --to NAME, or svc state discard --from database`)
  const config = await resolveConfig(readConfig(flags, io.env))
  const commands = await import('./state.ts')
  return verb === 'copy' ? commands.copy(config, flags, io) : commands.discard(config, flags, io)
}

async function runPlugged({ command: name, plugins }: Vocabulary, argv: readonly string[], io: Io): Promise<number> {
  const all = commandsOf(plugins)
  const found = commandOf(
    all.filter(({ command }) => command.name === name),
    argv,
  )
  if (found !== undefined) return runCommand(found, argv, io)
  const names = [...new Set([...KERNEL_COMMANDS, ...all.map(({ command }) => command.name)])]
  // Plugins of others are known by the file that names them, and by nothing else.
  const configured = io.env.SVC_CONFIG !== undefined || argv.some((word) => /^(-c|--config(=.*)?)$/.test(word))
  const others = configured ? '' : '; one of a plugin of others needs the --config that selects it'
  throw new Error(`cannot run command "${name}": there is no such command; ${didYouMean(name, names, `the commands are ${names.join(', ')}${others}`)}`)
}

function help({ plugins, overrides }: Vocabulary): string {
  const plugged = commandsOf(plugins).map(({ command }) => lineOf(command))
  return (
    HEAD +
    (plugged.length === 0 ? '' : `\nCommands of plugins; svc <command> --help has their flags:\n${plugged.join('')}`) +
    flagsText(overrides, ' of serve, check and plugins')
  )
}

function say(io: Io, text: string): number {
  io.out(text)
  return 0
}
