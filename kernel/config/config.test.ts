import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { Type } from 'typebox'
import { BUILTIN_ENGINES, type EngineModule, loadEngine } from '../loader.ts'
import { definePlugin } from '../plugin.ts'
import { fuzz } from './config.fuzz.ts'
import { ConfigError, readConfig, resolveConfig } from './config.ts'
import { Secret } from './secret.ts'

const greeter = definePlugin({
  id: 'greeter',
  summary: 'Greets',
  stability: 'beta',
  config: Type.Object({
    greeting: Type.String({ default: 'hi', description: 'What to say' }),
    times: Type.Integer({ default: 1, minimum: 1, maximum: 9, description: 'How often' }),
    password: Type.Optional(Secret.schema({ description: 'Whom to greet' })),
  }),
  setup() {},
})
const writer = definePlugin({ id: 'writer', summary: 'Writes', stability: 'beta', capabilities: ['points'], setup() {} })
const engine = {
  createEngine: () => undefined,
  configSchema: Type.Object({ data_dir: Type.String({ default: './svc-data', description: 'Where' }) }),
  capabilities: ['points'],
} as unknown as EngineModule

function file(toml: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'svc-config-')), 'svc.toml')
  writeFileSync(path, toml)
  return path
}

async function problemsOf(toml: string, plugins = [greeter], env: Record<string, string> = {}): Promise<string[]> {
  try {
    await resolveConfig(readConfig({ config: file(toml) }, env), { plugins, engine })
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map((line) => line.replace(/\/\S*svc\.toml/g, 'svc.toml'))
    throw error
  }
  return []
}

t.test('defaults hold without a file', async (t) => {
  const config = await resolveConfig(readConfig({}, {}), { plugins: [greeter] })
  t.equal(config.server.http_addr, '127.0.0.1:8086')
  t.equal(config.server.max_write_batch_size, 100_000)
  t.same(config.sections.get('greeter'), { greeting: 'hi', times: 1 })
  t.equal(config.storage, undefined, 'no plugin needs a storage')
})

t.test('what an engine says of absent keys comes before defaults, and after everything that is written', async (t) => {
  const keys = { preset: 'none', data_dir: 'default', pace: 'default' }
  const made: EngineModule = {
    ...engine,
    configSchema: Type.Object(Object.fromEntries(Object.entries(keys).map(([key, value]) => [key, Type.String({ default: value, description: 'A key' })]))),
    presets: ({ preset }) => (preset === 'small' ? { data_dir: 'preset', pace: 'preset' } : {}),
  }
  const of = async (toml: string, env: Record<string, string> = {}) => {
    const { storage } = await resolveConfig(readConfig({ config: file(`[database]\n${toml}`) }, env), { plugins: [writer], engine: made })
    return [storage?.config.data_dir, storage?.config.pace, [...(storage?.preset ?? [])]]
  }
  t.same(await of(''), ['default', 'default', []])
  t.same(await of('preset = "small"'), ['preset', 'preset', ['data_dir', 'pace']])
  t.same(await of('preset = "small"\npace = "default"'), ['preset', 'default', ['data_dir']], 'a default written out')
  t.same(await of('preset = "small"', { SVC_DATA_DIR: 'default' }), ['default', 'preset', ['pace']], 'a variable')
})

t.test('flags win over the environment, which wins over the file, which wins over defaults', async (t) => {
  const config = file('[server]\nhttp_addr = "127.0.0.1:1"\nlog_level = "warn"\nlog_format = "json"\n[database]\ndata_dir = "/file"\n')
  const env = { SVC_CONFIG: config, SVC_HTTP_ADDR: '127.0.0.1:2', SVC_LOG_LEVEL: 'debug', SVC_DATA_DIR: '/env' }
  const resolved = await resolveConfig(readConfig({ bind: '127.0.0.1:3' }, env), { plugins: [writer], engine })
  t.equal(resolved.server.http_addr, '127.0.0.1:3')
  t.equal(resolved.server.log_level, 'debug')
  t.equal(resolved.server.log_format, 'json')
  t.equal(resolved.server.max_body_size, 10_485_760)
  t.same(resolved.storage?.config, { engine: 'embedded', data_dir: '/env' })
})

t.test('text from the environment takes the type of its key, and a refusal names the variable', async (t) => {
  const tls = { SVC_TLS_CERT: 'a.pem', SVC_TLS_KEY: 'a.key' }
  const good = await resolveConfig(readConfig({ 'tls-reload-interval-secs': '5' }, tls))
  t.match(good.tls, { cert: 'a.pem', key: 'a.key', client_auth: 'required', reload_interval_secs: 5 })
  await t.rejects(
    resolveConfig(readConfig({}, { ...tls, SVC_TLS_RELOAD_INTERVAL_SECS: 'soon' })),
    /"tls.reload_interval_secs" "soon" in SVC_TLS_RELOAD_INTERVAL_SECS: must be number/,
  )
})

t.test('everything wrong is reported at once, with the nearest names', async (t) => {
  const toml =
    'plugins = ["no_such_plugin_xyz"]\n[server]\nhttp_adr = "x"\nlog_level = "loud"\nmax_body_size = 5\n[greter]\na = 1\n[greeter]\ngreting = "x"\ntimes = 10\n'
  t.match(await problemsOf(toml), [
    /^cannot find plugin "no_such_plugin_xyz": /,
    /^cannot use "server.max_body_size" 5 in svc.toml: must be >= 1024; /,
    /^cannot use "server.log_level" "loud" in svc.toml: must be one of trace, debug, info, warn or error; changed /,
    /^cannot use "greeter.greting" in svc.toml: there is no such key; did you mean "greeting"\?$/,
    /^cannot use "greeter.times" 10 in svc.toml: must be <= 9; How often$/,
    /^cannot use "server.http_adr" in svc.toml: there is no such key; did you mean "http_addr"\?$/,
    /^cannot use section "\[greter\]" in svc.toml: there is no such name; did you mean "greeter"\?$/,
  ])
})

t.test('a value of another type is told how it is written', async (t) => {
  const toml = 'plugins = ["./not/there.ts"]\n[server]\nhttp_addr = 8086\nmax_body_size = "10MB"\nallow_open = "true"\nallowed_hosts = "svc"\n'
  t.match(await problemsOf(toml), [
    /^cannot find plugin ".\/not\/there.ts": there is no such \.ts or \.js file, .* at \/.*\/not\/there\.ts/,
    /^cannot use "server.http_addr" 8086 .*: must be string; write "8086", in quotes; /,
    /^cannot use "server.allow_open" "true" .*: must be boolean; write true or false, without quotes; /,
    /^cannot use "server.allowed_hosts" "svc" .*: must be array; write \["svc"\], a list; /,
    /^cannot use "server.max_body_size" "10MB" .*: must be integer; write digits alone, without quotes and unit; /,
  ])
})

t.test('a section that is needed is told by its name', async (t) => {
  const read = readConfig({ config: file('plugins = ["line_protocol"]\n[database]\nengine = "forward"\n') }, {})
  await t.rejects(resolveConfig(read), /^cannot find "database.forward" in .*: it is needed; add \[database.forward\]$/m)
})

t.test('the id of a plugin that has no such section is told the keys that it has', async (t) => {
  t.match(await problemsOf('[jwt]\nissuer = "x"\n[api_keys]\nname = "x"\n[cedar]\na = 1\n'), [
    /^cannot use section "\[jwt\]" in svc.toml: there is no such name; plugin "jwt" has the keys auth.jwt, /,
    /^cannot use section "\[api_keys\]" .*; plugin "api_keys" has the keys auth.api_keys, .*storage.object_store_url/,
    /^cannot use section "\[cedar\]" .*; plugin "cedar" has the keys authorization.engine, /,
  ])
})

t.test('the engines that are named are those that there are', async (t) => {
  for (const id of BUILTIN_ENGINES) t.type((await loadEngine(id, '/')).createEngine, 'function', id)
  const folders = readdirSync(join(import.meta.dirname, '../../storage'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const others = folders.map(({ name }) => name).filter((name) => !BUILTIN_ENGINES.includes(name))
  t.same(others, ['common', 'conformance', 'postgres'])
})

t.test('a choice that is written without its quotes is told of them', async (t) => {
  t.match(await problemsOf('[tls]\ncert = "a"\nkey = "b"\nmin_version = 1.3\n'), [
    /^cannot use "tls.min_version" 1.3 in svc.toml: must be one of 1.2, 1.3; write "1.3", in quotes; /,
  ])
})

t.test('a choice of literals is told of all of them', async (t) => {
  const mode = Type.Union([Type.Literal('soft'), Type.Literal('hard')], { default: 'soft', description: 'How it stops' })
  const wait = Type.Union([Type.Literal('none'), Type.Integer({ minimum: 1 })], { default: 1, description: 'How long' })
  const config = Type.Object({ mode, wait, modes: Type.Array(mode, { default: [], description: 'All' }) })
  const stopper = definePlugin({ id: 'stopper', summary: 'Stops', stability: 'beta', config, setup() {} })
  t.match(await problemsOf('[stopper]\nmode = "sof"\nwait = "x"\nmodes = ["soft", "har"]\n', [stopper as never]), [
    /^cannot use "stopper.mode" "sof" in svc.toml: must be one of soft, hard; How it stops$/,
    /^cannot use "stopper.wait" "x" in svc.toml: must be one of none, or integer; How long$/,
    /^cannot use "stopper.modes\[1\]" "har" in svc.toml: must be one of soft, hard/,
  ])
})

t.test('beside a plugin that cannot be loaded, its section and [database] are not called wrong', async (t) => {
  const toml = 'plugins = ["./not_there.ts"]\n[not_there]\naddr = "x"\n[greter]\n[database]\ndata_dir = "x"\n'
  t.match(await problemsOf(toml), [
    /^cannot find plugin ".\/not_there.ts": /,
    /^cannot use section "\[greter\]" in svc.toml: there is no such name; did you mean "greeter"\?$/,
  ])
})

t.test('what is wrong in a list or a table of free names is named with its place, and with what belongs there', async (t) => {
  const lister = definePlugin({
    id: 'lister',
    summary: 'Lists',
    stability: 'beta',
    config: Type.Object({
      hosts: Type.Array(Type.String({ pattern: '^[a-z]+$' }), { default: [], description: 'Names of hosts' }),
      rates: Type.Record(Type.String(), Type.Integer({ minimum: 0 }), { default: {}, description: 'Requests a second by name' }),
      labels: Type.Record(Type.String({ pattern: '^[a-z]+$' }), Type.String(), { default: {}, description: 'Of each answer' }),
      targets: Type.Array(
        Type.Object({ port: Type.Integer({ description: 'Of the target' }), tags: Type.Optional(Type.Array(Type.String(), { description: 'Its tags' })) }),
        {
          default: [],
          description: 'Where to',
        },
      ),
    }),
    setup() {},
  })
  const problems = await problemsOf(
    '[lister]\nhosts = ["a", "B"]\nrates = { a = -1 }\nlabels = { a = "b", B-1 = "c" }\ntargets = [{ port = 1 }, { port = "x", tags = [1] }, 5]\n',
    [lister as never],
  )
  t.same(problems, [
    'cannot use "lister.labels.B-1" in svc.toml: the names there must match pattern "^[a-z]+$"; Of each answer',
    'cannot use "lister.hosts[1]" "B" in svc.toml: must match pattern "^[a-z]+$"; Names of hosts',
    'cannot use "lister.rates.a" -1 in svc.toml: must be >= 0; Requests a second by name',
    'cannot use "lister.targets[1].port" "x" in svc.toml: must be integer; write digits alone, without quotes and unit; Of the target',
    'cannot use "lister.targets[1].tags[0]" 1 in svc.toml: must be string; write "1", in quotes; Its tags',
    'cannot use "lister.targets[2]" 5 in svc.toml: must be object; Where to',
  ])
})

t.test('a mistyped built-in plugin gets the nearest id', async (t) => {
  const [problem] = await problemsOf('plugins = ["line_protocl"]')
  t.match(problem, /cannot find plugin "line_protocl".*did you mean "line_protocol"\?/)
})

t.test('a section that is not selected is named as it is, whatever keys it has', async (t) => {
  t.match(await problemsOf('[rate_limit]\nenabled = true\n[storage]\nobject_store_url = "memory://"\n[audit]\npath = "x"\n'), [
    /^cannot use section "\[rate_limit\]" .*plugin "rate_limit", which is not selected/,
    /^cannot use section "\[storage\]" .*plugin "api_keys"/,
    /^cannot use section "\[audit\]" .*plugin "audit"/,
  ])
})

t.test('the section of a plugin that is not selected is refused, naming the plugin', async (t) => {
  const [problem] = await problemsOf('[line_protocol]\n')
  t.match(
    problem,
    'cannot use section "[line_protocol]" in svc.toml: it belongs to plugin "line_protocol", which is not selected; add "line_protocol" to plugins or remove the section',
  )
})

t.test('a [database] that nothing uses is refused', async (t) => {
  t.match(await problemsOf('[database]\ndata_dir = "x"\n'), [/"\[database\]" in svc.toml: no selected plugin uses a storage/])
  t.same(await problemsOf('[database]\ndata_dir = "x"\n', [writer]), [])
})

t.test('a capability that the engine lacks is refused', async (t) => {
  const sql = definePlugin({ id: 'needs_sql', summary: 's', stability: 'beta', capabilities: ['sql'], setup() {} })
  t.match(await problemsOf('', [sql]), [
    /cannot run plugin "needs_sql" on storage engine "embedded": the engine lacks the capability "sql"; use another engine or remove the plugin$/,
  ])
})

t.test('where only a state store is lacking, one of its own is what to do', async (t) => {
  const keeper = definePlugin({ id: 'keeper', summary: 's', stability: 'beta', capabilities: ['points', 'state'], setup() {} })
  const of = (toml: string) => resolveConfig(readConfig({ config: file(toml) }, {}), { plugins: [keeper], engine: { ...engine, capabilities: ['points'] } })
  await t.rejects(of(''), /lacks the capability "state"; add a section \[state\], such as with engine = "postgres", use another engine or remove the plugin$/)
  await t.resolves(of('[state]\nengine = "postgres"\nurl = "postgres://svc@localhost/svc"\n'))
})

t.test('a capability that only a key gives is refused with that key, and goes with what comes along', async (t) => {
  const keeper = definePlugin({ id: 'keeper', summary: 's', stability: 'beta', capabilities: ['backup'], setup() {} })
  const made: EngineModule = {
    ...engine,
    configSchema: Type.Object({ disk: Type.Optional(Type.String({ description: 'Where' })) }),
    capabilities: ['points', 'backup'],
    lacking: ({ disk }): Record<string, string> => (disk === undefined ? { backup: 'name a disk in database.disk' } : {}),
  }
  const of = (toml: string) => resolveConfig(readConfig({ config: file(toml) }, {}), { plugins: [keeper], engine: made })
  await t.rejects(of(''), /the engine lacks the capability "backup"; name a disk in database.disk or remove the plugin$/)
  const { storage } = await of('[database]\ndisk = "x"\n')
  t.same([...(storage?.capabilities ?? [])], ['points', 'backup'])
})

t.test('plugins may own a section under another name, nested ones and lists too', async (t) => {
  const keys = definePlugin({
    id: 'keys',
    section: 'auth.api_keys',
    summary: 's',
    stability: 'beta',
    config: Type.Array(Type.Object({ name: Type.String({ description: 'Name' }) })),
    setup() {},
  })
  const encryption = definePlugin({
    id: 'encryption',
    section: 'database.field_encryption',
    summary: 's',
    stability: 'beta',
    config: Type.Object({ on: Type.Boolean({ default: false, description: 'On' }) }),
    setup() {},
  })
  const source = readConfig({ config: file('[[auth.api_keys]]\nname = "a"\n[database]\ndata_dir = "/x"\n[database.field_encryption]\non = true\n') }, {})
  const config = await resolveConfig(source, { plugins: [keys, encryption, writer], engine })
  t.same(config.sections.get('keys'), [{ name: 'a' }])
  t.same(config.sections.get('encryption'), { on: true })
  t.same(config.storage?.config, { engine: 'embedded', data_dir: '/x' })
  t.match(await problemsOf('[[auth.api_keys]]\nnme = "a"\n', [keys]), [
    /"auth.api_keys\[0\].nme".*did you mean "name"/,
    /cannot find "auth.api_keys\[0\].name"/,
  ])
  const copy = definePlugin({ id: 'copy', section: 'auth.api_keys', summary: 's', stability: 'beta', config: Type.Array(Type.Object({})), setup() {} })
  t.match(await problemsOf('', [keys, copy]), [/plugin "copy": its key "auth.api_keys" belongs to another/])
  t.match(await problemsOf('[auth]\nother = 1\n[[auth.api_keys]]\nname = "a"\n', [keys]), [
    /^cannot use "auth.other" in svc.toml: there is no such key; the keys of \[auth\] are exempt_paths, api_keys$/,
  ])
})

t.test('a section of a plugin or an engine that is not selected is told whose it is, within [database] too', async (t) => {
  t.same(await problemsOf('[database.checkpoints]\ninterval_secs = 3600\n[database.clickhouse]\nurl = "x"\n[database.forwrd]\n', [writer]), [
    'cannot use section "[database.checkpoints]" in svc.toml: it belongs to plugin "backup", which is not selected; add "backup" to plugins or remove the section',
    'cannot use section "[database.clickhouse]" in svc.toml: it is of the storage engine "clickhouse", which is not selected; set engine = "clickhouse" in [database] or remove the section',
    'cannot use "database.forwrd" in svc.toml: there is no such key; the keys of [database] are engine, data_dir',
  ])
})

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: the placeholder is what is tested
t.test('${NAME} in strings is the environment, $${NAME} the text itself', async (t) => {
  const source = readConfig({ config: file('[greeter]\ngreeting = "a${WHO}b$${WHO}"\n') }, { WHO: 'X' })
  const config = await resolveConfig(source, { plugins: [greeter] })
  t.match(config.sections.get('greeter'), { greeting: 'aXb${WHO}' })
  t.match(await problemsOf('[greeter]\ngreeting = "${NOT_SET}"\n'), [
    /cannot expand "\$\{NOT_SET\}" of "greeter.greeting" in svc.toml: the environment variable NOT_SET is not set/,
  ])
})

t.test('variables that are not set hide nothing else that is wrong, and what they would be is not judged', async (t) => {
  const wrong = '[greeter]\ntimes = 10\ngreting = "${B}"\npassword = "${A}${B}"\n[server]\nhttp_addr = "${A}"\nmax_body_size = "${A}"\n'
  t.match(await problemsOf(`plugins = ["\${A}", "none"]\n${wrong}[database]\nengine = "\${A}"\n[nothing]\n`, [greeter, writer]), [
    /^cannot expand "\$\{A\}" of "plugins\[0\]"/,
    /^cannot expand "\$\{B\}" of "greeter.greting"/,
    /^cannot expand "\$\{A\}" of "greeter.password"/,
    /^cannot expand "\$\{A\}" of "server.http_addr"/,
    /^cannot expand "\$\{A\}" of "server.max_body_size"/,
    /^cannot expand "\$\{A\}" of "database.engine"/,
    /^cannot find plugin "none"/,
    /^cannot use "greeter.greting" in svc.toml: there is no such key; did you mean "greeting"/,
    /^cannot use "greeter.times" 10 /,
  ])
  t.match(await problemsOf('plugins = "${A}"\n[no_such_section]\nx = 1\n'), [/^cannot expand "\$\{A\}" of "plugins" in svc.toml: /])
})
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: the placeholder is what is tested

t.test('a syntax error names the file and the line', async (t) => {
  t.match(await problemsOf('[server]\nhttp_addr = \n'), [/^cannot read config "svc.toml" at line 2: /])
  t.throws(() => readConfig({ config: '/no/such/file.toml' }, {}), /cannot read config "\/no\/such\/file.toml": ENOENT.*; name a file that is there/)
})

t.test('a path without "./" is told how it is written', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-config-'))
  mkdirSync(join(folder, 'plugins'))
  writeFileSync(join(folder, 'plugins/own.ts'), '')
  writeFileSync(join(folder, 'svc.toml'), 'plugins = ["plugins/own.ts"]\n')
  await t.rejects(
    resolveConfig(readConfig({ config: join(folder, 'svc.toml') }, {})),
    /cannot find plugin "plugins\/own.ts": .*; a path begins with "\.\/": did you mean "\.\/plugins\/own.ts"\?/,
  )
})

t.test('an origin of * needs allow_unsafe_cors', async (t) => {
  t.match(await problemsOf('[server]\ncors_allowed_origins = ["*"]\n'), [/any site could call the server from a browser/])
  t.same(await problemsOf('[server]\ncors_allowed_origins = ["*"]\nallow_unsafe_cors = true\n'), [])
})

t.test('an origin that no browser sends is refused, with what one sends', async (t) => {
  const of = (...origins: string[]) => problemsOf(`[server]\ncors_allowed_origins = ${JSON.stringify(origins)}\n`)
  for (const origin of ['https://grafana.example', 'http://localhost:3000', 'http://[::1]:3000', 'null', 'moz-extension://4f2a-b'])
    t.same(await of(origin), [], origin)
  for (const [origin, sent] of [
    ['https://grafana.example/', 'https://grafana.example'],
    ['https://grafana.example/d/1', 'https://grafana.example'],
    ['HTTPS://Grafana.example:443', 'https://grafana.example'],
    ['http://me@grafana.example', 'http://grafana.example'],
    ['grafana.example', 'https://grafana.example'],
    ['app://a/b', 'https://grafana.example'],
  ]) {
    const [problem, ...others] = await of(origin)
    t.match(problem, /^cannot use "server.cors_allowed_origins" ".*" in svc.toml: no browser sends it so; write /, origin)
    t.ok(problem.endsWith(`write "${sent}"`), problem)
    t.same(others, [])
  }
})

t.test('a public_url that is none is refused, and a metrics_path that no route can have', async (t) => {
  t.same(await problemsOf('[server]\npublic_url = "https://svc.example/below"\nmetrics_path = "/a/b-c.d"\n'), [])
  t.match(await problemsOf('[server]\npublic_url = "http://"\n'), [/cannot use "server.public_url" "http:\/\/" in svc.toml: it is no URL/])
  for (const path of ['/', '/:x', '/a*', '/a b', 'metrics'])
    t.match(await problemsOf(`[server]\nmetrics_path = "${path}"\n`), [/cannot use "server.metrics_path"/], path)
})

t.test('dependencies: missing, cyclic, twice, and order', async (t) => {
  const make = (id: string, requires: string[], provides: string[] = []) =>
    definePlugin({ id, summary: 's', stability: 'beta', requires, provides, setup() {} })
  t.match(await problemsOf('', [make('a', ['clocks'], ['clock'])]), [
    /plugin "a": it requires "clocks", which no selected plugin provides; did you mean "clock"\?/,
  ])
  t.match(await problemsOf('', [make('a', ['otlp_export'])]), [/it requires "otlp_export", which no selected plugin provides; add "otlp" to plugins$/])
  t.match(await problemsOf('', [make('a', ['b']), make('b', ['a'])]), [/it requires itself by way of a -> b -> a/])
  const one = make('a', [])
  t.match(await problemsOf('', [one, one]), [/cannot run plugin "a" twice/])
  t.match(await problemsOf('', [one, make('a', [])]), [/cannot run two plugins of the id "a", .*; remove one, or give that of your own another id/])
  t.match(await problemsOf('', [make('a', [], ['x']), make('b', [], ['x'])]), [/plugin "b": "x" is provided by plugin "a" already/])
  const config = await resolveConfig(readConfig({}, {}), { plugins: [make('user', ['service']), make('other', []), make('maker', [], ['service'])] })
  t.same(
    config.plugins.map((plugin) => plugin.id),
    ['maker', 'user', 'other'],
  )
})

t.test('a secret is handed over wrapped, and is in no message', async (t) => {
  const config = await resolveConfig(readConfig({ config: file('[greeter]\npassword = "hunter2"\n') }, {}), { plugins: [greeter] })
  const { password } = config.sections.get('greeter') as { password: Secret }
  t.equal(password.reveal(), 'hunter2')
  t.notMatch(JSON.stringify(config.sections.get('greeter')), 'hunter2')
  const problems = await problemsOf('[greeter]\npassword = 31337\n')
  t.match(problems, [/cannot use "greeter.password" in svc.toml: must be string/])
  t.notMatch(problems[0], '31337')
})

t.test('a secret is in no message about what lies around it', async (t) => {
  const keyring = definePlugin({
    id: 'keyring',
    summary: 'Holds keys',
    stability: 'beta',
    config: Type.Object({
      keys: Type.Array(Secret.schema({ description: 'A key' }), { default: [], description: 'Keys' }),
      locks: Type.Array(Type.Object({ key: Secret.schema({ description: 'A key' }) }), { default: [], description: 'Locks' }),
    }),
    setup() {},
  })
  const wrong = ['keys = "hunter2"', 'keys = { first = "hunter2" }', 'locks = { key = "hunter2" }', 'locks = ["hunter2"]', 'locks = "hunter2"']
  for (const line of [...wrong.map((each) => `[keyring]\n${each}\n`), 'keyring = "hunter2"\n']) {
    const problems = await problemsOf(line, [keyring])
    t.match(problems, [/cannot use "keyring\S*" in svc.toml: must be (array|object)/], line)
    t.notMatch(problems.join('\n'), 'hunter2')
  }
})

t.test('what stands under an unknown key is in no message: it may be a secret under the wrong name', async (t) => {
  const model = Type.Object({ key_env: Type.String({ description: 'A variable' }) }, { additionalProperties: false })
  const models = Type.Array(model, { default: [], description: 'Models' })
  const reader = definePlugin({ id: 'reader', summary: 'Reads', stability: 'beta', config: Type.Object({ models }), setup() {} })
  const problems = await problemsOf('[[reader.models]]\nkey_env = "A"\nkey_en = "hunter2"\n', [reader])
  t.same(problems, ['cannot use "reader.models[0].key_en" in svc.toml: there is no such key; did you mean "key_env"?'])
})

t.test('a password in a URL is in no message', async (t) => {
  for (const line of [
    'public_url = "http://me:hunter2@svc.example"',
    'public_url = "ftp://me:hun/ter2@svc.example"',
    'allowed_hosts = ["http://me:hunter2@svc.example"]',
    'http_addr = "me:hunter2@127.0.0.1:8086"',
    'cors_allowed_origins = "http://me:hunter2@svc.example"',
  ]) {
    const [problem = ''] = await problemsOf(`[server]\n${line}\n`)
    t.match(problem, /cannot use "server.*…@/, line)
    t.notMatch(problem, /hun\/?ter2/)
  }
})

t.test('what is far too long is refused at once, and not repeated whole', async (t) => {
  for (const text of ['x', 'a:', '//', '@', 'a:@'].map((part) => part.repeat(100_000))) {
    const problems = await problemsOf(`[server]\nhttp_addr = "${text}"\nlog_level = "${text}"\nallowed_hosts = "${text}"\npublic_url = "${text}"\n`)
    t.equal(problems.length, 4)
    for (const problem of problems) t.ok(problem.length < 1000, `${problem.length} characters`)
  }
})

t.test('definePlugin refuses bad ids and keys without a description', async (t) => {
  const base = { summary: 's', stability: 'beta' as const, setup() {} }
  t.throws(() => definePlugin({ ...base, id: 'Bad-Id' }), /an id is lower case/)
  t.throws(() => definePlugin({ ...base, id: 'server' }), /belongs to the kernel/)
  t.throws(
    () => definePlugin({ ...base, id: 'x', config: Type.Object({ a: Type.Object({ b: Type.String() }, { description: 'A' }) }) }),
    /config key "a.b" has no description/,
  )
})

t.test('random files are refused or right', async (t) => {
  const seed = Date.now() % 2 ** 31
  t.comment(`seed ${seed}`)
  const { refused } = await fuzz(seed, (files) => files < 100)
  t.ok(refused > 50)
})
