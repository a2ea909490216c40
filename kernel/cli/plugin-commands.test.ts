import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { type Command, definePlugin } from '../index.ts'
import { run } from './cli.ts'
import type { CommandCall, CommandConfig } from './command.ts'
import { helpOf, runCommand } from './plugin-commands.ts'

const texts = () => {
  const said = { out: '', err: '' }
  const io = {
    env: {} as Record<string, string>,
    out: (text: string) => void (said.out += text),
    err: (text: string) => void (said.err += text),
    stopSignal: new Promise<string>(() => {}),
  }
  return { said, io }
}

function commandThat(act: (call: CommandCall) => Promise<number>): { plugin: ReturnType<typeof definePlugin>; command: Command } {
  const command: Command = {
    name: 'make-key',
    usage: 'WHAT',
    summary: 'Makes a key',
    flags: { name: { description: 'Its name' }, force: { description: 'Even so', boolean: true } },
    run: act,
  }
  return { command, plugin: definePlugin({ id: 'line_protocol', summary: 's', stability: 'beta', commands: [command], setup() {} }) }
}

t.test('a command gets its flags and words, and says how it went', async (t) => {
  const { said, io } = texts()
  io.env.KEY = 'k'
  let seen: Partial<CommandCall> = {}
  const found = commandThat(async (call) => {
    seen = call
    call.out('done\n')
    call.err('careful\n')
    return 3
  })
  t.equal(await runCommand(found, ['make-key', 'a', '--name', 'ci', '--force', 'b'], io), 3)
  t.match(seen, { args: ['a', 'b'], flags: { name: 'ci', force: 'true' }, env: { KEY: 'k' } })
  t.same(said, { out: 'done\n', err: 'careful\n' })
  await runCommand(found, ['make-key', '--name=x'], io)
  t.match(seen, { args: [], flags: { name: 'x', force: undefined } })
})

t.test('unknown flags and missing values are refused before anything is done', async (t) => {
  const { io } = texts()
  const found = commandThat(async () => t.fail('it ran') as never)
  await t.rejects(runCommand(found, ['make-key', '--nam', 'x'], io), /cannot use flag "--nam": there is no such flag; did you mean "--name"\?/)
  await t.rejects(runCommand(found, ['make-key', '--bind', 'x'], io), /cannot use flag "--bind"/)
  await t.rejects(runCommand(found, ['make-key', '--name'], io), /^cannot read the flags: .*--name.* missing; svc help lists them$/)
  await t.rejects(runCommand(found, ['make-key', '--name', '--force'], io), /^cannot read the flags: .*--name.* ambiguous; svc help lists them$/)
  await t.rejects(runCommand(found, ['make-key', '--force=x'], io), /^cannot read the flags: .*--force.*; svc help lists them$/)
  await t.rejects(runCommand(found, ['make-key', '-x'], io), /^cannot read the flags: Unknown option '-x'; svc help lists them$/)
})

t.test('a command whose exit code 1 says something has another one for a line that cannot be read', async (t) => {
  const { said, io } = texts()
  const { plugin, command } = commandThat(async () => t.fail('it ran') as never)
  const found = { plugin, command: { ...command, usageCode: 2 } }
  t.equal(await runCommand(found, ['make-key', '--nam', 'x'], io), 2)
  t.equal(await runCommand(found, ['make-key', '--name'], io), 2)
  t.match(said, { out: '', err: /^svc: cannot use flag "--nam": .*\nsvc: cannot read the flags: .*\n$/ })
})

t.test('--help says what the command takes', async (t) => {
  const { said, io } = texts()
  const found = commandThat(async () => t.fail('it ran') as never)
  t.equal(await runCommand(found, ['make-key', '--help'], io), 0)
  t.match(said.out, /^ {2}make-key WHAT {3}Makes a key\n {4}--name VALUE +Its name\n {4}--force +Even so\n {4}-c, --config FILE/)
  t.equal(helpOf({ name: 'x', summary: 'Does x', run: async () => 0 }), '  x   Does x\n')
})

t.test('config() is what the plugin would run with', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-commands-'))
  const file = (name: string, toml: string) => {
    writeFileSync(join(folder, name), toml)
    return join(folder, name)
  }
  const ask = async (argv: string[], env: Record<string, string> = {}): Promise<CommandConfig> => {
    const { io } = texts()
    Object.assign(io.env, env)
    let config: CommandConfig | undefined
    const found = commandThat(async (call) => {
      config = await call.config()
      return 0
    })
    await runCommand(found, ['make-key', ...argv], io)
    return config as CommandConfig
  }
  const selected = file('a.toml', 'plugins = ["line_protocol"]\n[server]\nmulti_tenancy = true\n[database]\ndata_dir = "somewhere"\n')
  const config = await ask(['--config', selected])
  t.match(config, { dataDir: join(folder, 'somewhere'), multiTenancy: true })
  t.type(config.section, 'object')
  t.match(await ask([], { SVC_CONFIG: selected, SVC_DATA_DIR: '/env' }), { dataDir: '/env' })
  const { openState, ownState, ...nothing } = await ask(['-c', file('b.toml', '')])
  t.same(nothing, { section: undefined, dataDir: undefined, multiTenancy: false, sharedState: false }, 'not selected, and nothing kept')
  t.same([await openState(), await ownState()], [undefined, undefined])
  await t.rejects(ask(['-c', file('c.toml', '[server]\nhttp_adr = "x"\n')]), /did you mean "http_addr"/)
})

t.test('a word that is no command gets the nearest, of the plugins too', async (t) => {
  const { said, io } = texts()
  t.equal(await run(['plugin'], io), 1)
  t.match(said.err, 'svc: cannot run command "plugin": there is no such command; did you mean "plugins"?\n')
  t.equal(await run(['-c', '/no/such.toml', 'check'], io), 1)
  t.match(said.err, 'cannot read config "/no/such.toml"')
})

t.test('the verb that tells commands of one name apart may stand behind flags', async (t) => {
  const file = join(mkdtempSync(join(tmpdir(), 'svc-verbs-')), 'plane.toml')
  writeFileSync(file, 'plugins = ["operator_api"]\n')
  for (const argv of [
    ['plane', 'openapi', '-c', file],
    ['-c', file, 'plane', 'openapi'],
    ['plane', '--config', file, 'openapi'],
    ['plane', `--config=${file}`, 'openapi'],
  ]) {
    const { said, io } = texts()
    t.equal(await run(argv, io), 0, argv.join(' '))
    t.match(JSON.parse(said.out), { openapi: /^3/ })
  }
})
