import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { run } from './cli.ts'

async function svc(args: string[], env: Record<string, string> = {}): Promise<{ code: number; out: string; err: string }> {
  const text = { out: '', err: '' }
  const code = await run(args, { env, out: (s) => void (text.out += s), err: (s) => void (text.err += s), stopSignal: Promise.resolve('SIGTERM') })
  return { code, ...text }
}

function config(toml: string): string {
  const file = join(mkdtempSync(join(tmpdir(), 'svc-cli-')), 'svc.toml')
  writeFileSync(file, toml)
  return file
}

t.test('check says what would run, and warns of listeners open to the world', async (t) => {
  const file = config('[server]\nhttp_addr = "127.0.0.1:0"\nallow_open = true\n')
  const open = await svc(['check', '--config', file, '--bind', '0.0.0.0:8086'])
  t.equal(open.code, 0)
  t.match(open.out, /plugins: none[\s\S]*http_addr = "0.0.0.0:8086"[\s\S]*warning: .*no selected plugin authenticates[\s\S]*warning: .*without TLS/)
  const refused = await svc(['check', '--bind', '0.0.0.0:8086'])
  t.equal(refused.code, 1)
  t.match(refused.err, /^svc: .*server\.http_addr "0\.0\.0\.0:8086".*server\.allow_open = true\n$/)
  const local = await svc(['check'], { SVC_CONFIG: file })
  t.equal(local.code, 0)
  t.notMatch(local.out, 'warning')
})

t.test('check warns of what the set-up of a plugin warns of, such as a key that can be guessed, and an archive without a place', async (t) => {
  const file = config('plugins = ["api_keys", "cold_archive"]\n[server]\nhttp_addr = "127.0.0.1:0"\n[[auth.api_keys]]\nname = "a"\nkey = "secret"\n')
  const weak = await promisify(execFile)(process.execPath, [fileURLToPath(new URL('../main.ts', import.meta.url)), 'check', '--config', file])
  t.match(weak.stderr, /^WARN +api_keys: key "a" of auth\.api_keys has only 6 characters and can be guessed/)
  t.match(weak.stderr, /^WARN +cold_archive: cold_archive\.remote_url is not set: nothing is archived/m)
})

t.test('check warns of every listener, and refuses addresses that cannot be', async (t) => {
  const check = (toml: string) =>
    svc(['check', '-c', config(`plugins = ["grpc", "flight_sql"]\n[server]\nhttp_addr = "127.0.0.1:8086"\nallow_open = true\n${toml}`)])
  const open = await check('[grpc]\naddr = "0.0.0.0:4243"\n[flight_sql]\naddr = "127.0.0.1:4244"\n')
  t.match(open.out, /warning: grpc\.addr "0\.0\.0\.0:4243" is open .*authenticates[\s\S]*warning: grpc\.addr .*without TLS/)
  t.notMatch(open.out, /warning: (server|flight_sql)/)
  const clash = await check('[grpc]\naddr = "0.0.0.0:8086"\n[flight_sql]\naddr = "127.0.0.2:8087"\n')
  t.equal(clash.code, 1)
  t.match(clash.err, /^svc: .*"grpc\.addr" "0\.0\.0\.0:8086" in .*: "server\.http_addr" is "127\.0\.0\.1:8086"; give each a port of its own\n$/)
  t.equal((await check('[grpc]\naddr = "127.0.0.1:0"\n[flight_sql]\naddr = "127.0.0.1:0"\n')).code, 0)
  t.match((await check('[grpc]\naddr = "localhost"\n')).err, /^svc: cannot use "grpc\.addr" "localhost": write host:port/)
})

t.test('check prints the durability that is in force, and what a preset gave', async (t) => {
  const check = async (toml: string) =>
    (await svc(['check', '-c', config(`plugins = ["line_protocol"]\n[database]\n${toml}`)], { SVC_BIND: '127.0.0.1:0' })).out
  const written = await check('preset = "small"\nwal_fsync_policy = "per_batch"\n')
  t.match(written, 'durability: a write is on disk before its answer (per_batch)')
  t.match(written, /^wal_fsync_policy = "per_batch" # file$/m, 'a default that is written out stands')
  t.match(written, /^memtable_flush_threshold = 8388608 # preset$/m)
  const small = await check('preset = "small"\nmemtable_flush_threshold = 16777216\n')
  t.match(small, /^durability: a write is answered before it is on disk: .*5000 ms/m)
  t.match(small, /^wal_fsync_policy = "periodic_5000" # preset$/m)
  t.match(small, /^memtable_flush_threshold = 16777216 # file$/m)
  t.notMatch(await check(''), '# preset')
})

t.test('check does not show where agent_plane.push goes: the path may be what lets in', async (t) => {
  const file = config(
    'plugins = ["agent_plane", "webhooks"]\n[server]\nhttp_addr = "127.0.0.1:0"\n[[agent_plane.push]]\nid = "ops"\nurl = "https://ops.example/hooks/hunter2"\n',
  )
  const { code, out, err } = await svc(['check', '-c', file])
  t.equal(code, 0, err)
  t.match(out, '"id":"ops"')
  t.notMatch(out, 'hunter2')
})

t.test('check looks at the files that a start reads', async (t) => {
  const tokens = '- token: "0123456789abcdef0123456789abcdef"\n  actor: ann\n'
  const folder = mkdtempSync(join(tmpdir(), 'svc-check-'))
  const files = { 'tokens.yaml': tokens, 'short.yaml': tokens.replace(/[0-9a-f]{32}/, 'short'), 'all.cedar': 'permit (principal, action, resource);' }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const operator = (tokens: string, policy: string) => {
    const keys = `tokens_file = "${join(folder, tokens)}"\npolicy = "${join(folder, policy)}"\n`
    return `plugins = ["agent_plane", "cedar", "operator_api"]\n[authorization]\nengine = "none"\n[agent_plane]\n[operator_api]\n${keys}`
  }
  const checked = (toml: string) => svc(['check', '-c', config(toml), '--bind', '127.0.0.1:0'])
  t.match(await checked(operator('tokens.yaml', 'all.cedar')), { code: 0 })
  t.match(await checked(operator('none.yaml', 'all.cedar')), {
    code: 1,
    err: /"operator_api": cannot use operator_api.tokens_file ".*none.yaml": it cannot be read/,
  })
  t.match(await checked(operator('short.yaml', 'all.cedar')), { code: 1, err: /entry 1: token has 5 bytes/ })
  t.match(await checked(operator('tokens.yaml', 'none.cedar')), {
    code: 1,
    err: /cannot use operator_api.policy ".*none.cedar": it cannot be read .*; name a folder or a file/,
  })
  const jwt = (file: string) => `plugins = ["jwt"]\n[auth.jwt]\nalgorithm = "RS256"\npublic_key_pem_file = "${file}"\n`
  t.match(await checked(jwt(join(folder, 'none.pem'))), { code: 1, err: /"jwt": cannot use auth.jwt.public_key_pem_file ".*none.pem": ENOENT/ })
  const elliptic = fileURLToPath(new URL('../../test/support/certificates/first.pem', import.meta.url))
  t.match(await checked(jwt(elliptic)), { code: 1, err: /its key does not go with auth.jwt.algorithm "RS256"/ })
  t.match(await checked(jwt(elliptic).replace('RS256', 'ES256')), { code: 0 })
})

t.test('check says where each value comes from', async (t) => {
  const file = config('[server]\nmax_body_size = 4096\n')
  const { out } = await svc(['check', '-c', file, '--bind', '127.0.0.1:0'], { SVC_LOG_LEVEL: 'warn' })
  for (const line of [
    'http_addr = "127.0.0.1:0" # --bind',
    'log_level = "warn" # SVC_LOG_LEVEL',
    'max_body_size = 4096 # file',
    'multi_tenancy = false # default',
  ])
    t.ok(out.includes(`\n${line}\n`), line)
})

t.test('paths in a file are relative to it, those of flags and variables to the current folder', async (t) => {
  const file = config(
    'plugins = ["native", "export", "backup"]\n[server]\nhttp_addr = "127.0.0.1:0"\nbackup_root = "../kept"\n[database]\ndata_dir = "data"\n[export]\ndirectory = "out"\n',
  )
  const folder = dirname(file)
  const { out, err } = await svc(['check', '-c', relative(process.cwd(), file)])
  t.equal(err, '')
  for (const [key, value] of [
    ['data_dir', join(folder, 'data')],
    ['directory', join(folder, 'out')],
    ['backup_root', join(folder, '../kept')],
  ])
    t.ok(out.includes(`\n${key} = ${JSON.stringify(value)} # file\n`), key)
  const given = await svc(['check', '-c', file, '--data-dir', 'here'])
  t.ok(given.out.includes(`\ndata_dir = ${JSON.stringify(join(process.cwd(), 'here'))} # --data-dir\n`))
  const secure = config('plugins = ["cedar", "jwt"]\n[server]\nhttp_addr = "127.0.0.1:0"\n[tls]\ncert = "no.pem"\nkey = "no.key"\n')
  t.match((await svc(['check', '-c', secure])).err, join(dirname(secure), 'no.'), 'tls')
})

t.test('check says which plugins do nothing for want of their section', async (t) => {
  const list = 'plugins = ["native", "line_protocol", "triggers", "mqtt"]\n[server]\nhttp_addr = "127.0.0.1:0"\n'
  const note = /^note: plugins are selected that do nothing, for \S+ has no section of theirs: \[triggers\], \[mqtt\]; an empty one/m
  t.match(await svc(['check', '-c', config(list)]), { code: 0, out: note })
  t.match((await svc(['check', '-c', config(`${list}[triggers]\n`)])).out, /no section of theirs: \[mqtt\];/)
  t.notMatch((await svc(['check', '-c', config('plugins = ["native"]\n')])).out, /^note:/m)
  t.match((await svc(['check'])).out, /^note: no plugin is selected, so that nothing can be written or asked; .* --config$/m)
})

t.test('check prints no secret', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-cli-'))
  const source = `
    import { definePlugin, Secret, Type } from '${new URL('../index.ts', import.meta.url).href}'
    export default definePlugin({ id: 'vault', summary: 's', stability: 'beta', config: Type.Object({ password: Secret.schema({ description: 'p' }), url: Type.String({ description: 'u' }) }), setup() {} })`
  writeFileSync(join(folder, 'vault.ts'), source)
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of the config language
  writeFileSync(join(folder, 'svc.toml'), 'plugins = ["./vault.ts"]\n[vault]\npassword = "${VAULT}"\nurl = "https://me:${VAULT}@h.example/p"\n')
  const answer = await svc(['check', '-c', join(folder, 'svc.toml')], { VAULT: 'hunter2' })
  t.equal(answer.code, 0)
  t.match(answer.out, '[vault]\npassword = "[redacted]" # file\nurl = "https://…@h.example/p" # file')
  t.notMatch(answer.out, 'hunter2')
})

t.test('a refused config prints each problem on a line of its own', async (t) => {
  const { code, err } = await svc(['serve', '-c', config('[server]\nhttp_adr = "x"\n[databse]\n')])
  t.equal(code, 1)
  t.match(err, /^svc: .*did you mean "http_addr"\?\nsvc: .*"\[databse\]".*\n$/)
})

t.test('a bad address is refused by check too', async (t) => {
  const { code, err } = await svc(['check', '--bind', 'nowhere'])
  t.equal(code, 1)
  t.match(err, /^svc: .*"nowhere": write host:port/)
})

t.test('help, version, plugins', async (t) => {
  t.match(await svc(['help']), { code: 0, out: /--data-dir VALUE +database.data_dir \(SVC_DATA_DIR\)/ })
  t.match(await svc(['--version']), { code: 0, out: /^\d+\.\d+\.\d+\n$/ })
  t.match(await svc(['plugins']), { code: 0, out: /^line_protocol \(stable\): [\s\S]*\n {2}line_protocol\.\w+ = .*: ./m })
})

t.test('help of one command is about that command', async (t) => {
  const all = await svc(['help'])
  t.match(all.out, /plane {3}Begins runs/)
  t.notMatch(all.out, /--amendment/, 'flags of a command are in its own help')
  t.ok(all.out.split('\n').every((line) => line.length < 250))
  const serve = await svc(['serve', '--help'])
  t.match(serve, { code: 0, out: /^ {2}serve +run the server[^\n]*\n\nFlags:\n[\s\S]*--data-dir VALUE/ })
  t.notMatch(serve.out, /generate-key/)
  t.match(await svc(['plane', '--help']), { code: 0, out: /^ {2}plane {3}Begins[^\n]*\n {4}plane run CAPABILITY +begins a run[\s\S]*--amendment VALUE/ })
  t.match(await svc(['plane', 'verfy']), { code: 2, err: /^svc: cannot run "plane verfy": did you mean "verify"\?\n$/ })
  t.match(await svc(['plane', 'cancel']), { code: 2, err: /^svc: cannot run "plane cancel": name a run; write svc plane cancel RUN\n$/ })
  t.match(await svc(['plane', 'quarantine', 'r']), { code: 2, err: /write svc plane quarantine RUN reopen\|abandon\n$/ })
  t.match(await svc(['plane', 'waiting', 'x']), { code: 2, err: /^svc: cannot run "plane waiting": write svc plane waiting\n$/ })
})

t.test('plugins lists those of a config file too', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-cli-'))
  const source = `
    import { definePlugin, Type } from '${new URL('../index.ts', import.meta.url).href}'
    const config = Type.Object({ greeting: Type.String({ default: 'hi', description: 'What to say' }) })
    export default definePlugin({ id: 'greeter', summary: 'Greets', stability: 'beta', config, setup() {} })`
  writeFileSync(join(folder, 'greeter.ts'), source)
  writeFileSync(join(folder, 'svc.toml'), 'plugins = ["line_protocol", "./greeter.ts"]\n')
  const { code, out } = await svc(['plugins', '--config', join(folder, 'svc.toml')])
  t.equal(code, 0)
  t.match(out, /^greeter \(beta, from \.\/greeter\.ts\): Greets\n {2}greeter\.greeting = "hi": What to say$/m)
  t.equal(out.match(/^line_protocol /gm)?.length, 1)
  writeFileSync(join(folder, 'svc.toml'), 'plugins = ["./missing.ts"]\n')
  t.match(await svc(['plugins', '--config', join(folder, 'svc.toml')]), { code: 1, err: /cannot find plugin "\.\/missing\.ts"/ })
})

t.test('what is mistyped gets the nearest name', async (t) => {
  t.match(await svc(['serve', '--bnd', 'x']), { code: 1, err: 'svc: cannot use flag "--bnd": there is no such flag; did you mean "--bind"?\n' })
  t.match(await svc(['chek']), { code: 1, err: 'did you mean "check"?' })
  t.match(await svc(['serve', 'more']), { code: 1, err: /cannot use argument "more"/ })
  t.match(await svc(['serve', 'svc.toml']), { code: 1, err: /serve takes flags only; write --config svc\.toml$/m })
  t.match(await svc(['serve', '--bind']), { code: 1, err: /--bind/ })
})

t.test('check refuses what a start would refuse', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-cli-'))
  const local = '[server]\nhttp_addr = "127.0.0.1:0"\n'
  const check = async (toml: string): Promise<string> => {
    const { code, out, err } = await svc(['check', '-c', config(toml)])
    t.equal(code, err === '' ? 0 : 1)
    t.equal(out === '', err !== '', 'either the one or the other')
    return err
  }
  const database = (more: string) => `plugins = ["native"]\n${local}[database]\ndata_dir = ${JSON.stringify(join(folder, 'data'))}\n${more}`
  t.equal(await check(database('retention_secs = 7200\nshard_duration_secs = 3600\n')), '')
  t.match(
    await check(database('retention_secs = 10\nshard_duration_secs = 3600\n')),
    /^svc: .*\[database\] retention_secs = 10: it is shorter than shard_duration_secs = 3600.*\n$/,
  )
  t.match(
    await check(database('max_memtable_memory = 1048576\nmemtable_flush_threshold = 2097152\n')),
    /max_memtable_memory = 1048576: it is below memtable_flush_threshold/,
  )
  t.match(
    await check(database('[database.field_encryption]\ncolumns = { secret = "k1" }\nkeys = { k1 = "SVC_CLI_TEST_UNSET" }\n')),
    /the environment variable SVC_CLI_TEST_UNSET is not set; set it to base64 of 32 bytes/,
  )
  t.notOk(existsSync(join(folder, 'data')), 'and opens nothing')
})

t.test('check refuses a path with a NUL, a tenant without a plane, limits that nothing enforces, and an archive in the data directory', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-cli-'))
  const check = async (plugins: string, more: string) =>
    svc([
      'check',
      '-c',
      config(`plugins = [${plugins}]\n[server]\nhttp_addr = "127.0.0.1:0"\n[database]\ndata_dir = ${JSON.stringify(join(folder, 'data'))}\n${more}`),
    ])
  const refuses = async (plugins: string, more: string, err: RegExp) => t.match(await check(plugins, more), { code: 1, out: '', err }, more)
  await refuses('"native", "export"', '[export]\ndirectory = "a\\u0000b"\n', /cannot use "export\.directory" "a\\u0000b" in .*: no path has a NUL/)
  for (const [key, rule] of [
    ['schedules', 'name = "often"\nevery_secs = 60'],
    ['on_event', 'kind = "order"'],
    ['on_signal', 'trigger = "hot"'],
  ])
    await refuses(
      '"agent_plane"',
      `[[agent_plane.${key}]]\n${rule}\ncapability = "a.b"\ntenant = "nobody"\n`,
      new RegExp(`agent_plane\\.${key} .*: there is no tenant "nobody"`),
    )
  t.match(await check('"agent_plane"', '[agent_plane]\ntenants = ["acme"]\n[[agent_plane.on_event]]\nkind = "order"\ncapability = "a.b"\ntenant = "acme"\n'), {
    code: 0,
  })
  await refuses('"namespaces"', '[namespaces]\ndefault_max_request_rps = 5\n', /cannot use namespaces\.default_max_request_rps: .* add the plugin "rate_limit"/)
  const archive = (path: string) => `[cold_archive]\nremote_url = ${JSON.stringify(path)}\n`
  for (const inside of ['data', 'data/cold'])
    await refuses('"cold_archive"', archive(join(folder, inside)), /cannot archive to folder .*: it lies in the data directory/)
  await refuses('"cold_archive"', archive(`file://${join(folder, 'data/cold')}`), /lies in the data directory/)
  t.match(await check('"cold_archive"', archive(join(folder, 'data-cold'))), { code: 0 })
  t.same(readdirSync(folder), [], 'and nothing is made')
})

t.test('check asks plugins what would end a start', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-cli-'))
  const keys = (more: string) =>
    config(`plugins = ["native", "api_keys"]\n[server]\nhttp_addr = "127.0.0.1:0"\n[database]\ndata_dir = ${JSON.stringify(join(folder, 'data'))}\n${more}`)
  const none = keys('')
  const refused = await svc(['check', '-c', none])
  t.match(refused, { code: 1, out: '', err: /^svc: cannot run plugin "api_keys": cannot let anybody in: there is no API key; run `svc generate-key/ })
  const one = `[[auth.api_keys]]\nname = "a"\nkey = "svc_${'a'.repeat(43)}"\nadmin = true\n`
  t.match(await svc(['check', '-c', keys(one)]), { code: 0, err: '' })
  t.match(await svc(['check', '-c', keys(`${one}[auth.api_key]\nenabled = false\n`)]), { code: 1, err: /auth\.api_key\.enabled is false and no other plugin/ })
  const kept = keys('[auth]\npersistent_api_keys = true\n')
  t.match(await svc(['check', '-c', kept]), { code: 1, err: /cannot let anybody in/ })
  t.match(await svc(['generate-key', '-c', kept, '--name', 'admin', '--admin']), { code: 0, out: /^svc_/ })
  t.match(await svc(['check', '-c', kept]), { code: 0, err: '' })
  const noAuthorities = config('plugins = ["webhooks"]\n[database]\nengine = "memory"\n[webhooks]\nca_file = "/nowhere.pem"\n')
  t.match(await svc(['check', '-c', noAuthorities]), { code: 1, err: /cannot use webhooks\.ca_file "\/nowhere\.pem": ENOENT.*; name a PEM file/ })
  const noPolicies = config(`plugins = ["cedar", "api_keys"]\n[authorization]\npolicy_dir = "/nowhere"\n[database]\nengine = "memory"\n${one}`)
  t.match(await svc(['check', '-c', noPolicies]), { code: 1, err: /cannot read the policies of "\/nowhere": ENOENT.*; make the folder/ })
  const sealed = keys('[auth]\npersistent_api_keys = true\nencryption_key_env = "SVC_CLI_TEST_UNSET"\n')
  t.match(await svc(['check', '-c', sealed]), { code: 1, err: /the environment variable SVC_CLI_TEST_UNSET of auth\.encryption_key_env is not set/ })
})

t.test('the help names each command once, and so does what is said of one that is none', async (t) => {
  const { out } = await svc(['help'])
  const lines = out.split('\n').filter((line) => /^ {2}[a-z]/.test(line))
  for (const line of lines) t.notMatch(line, /^ +([\w-]+) \1\b/)
  const { err } = await svc(['nonsense'])
  const names = /the commands are (.*)\n/.exec(err)?.[1].split(', ') ?? []
  t.ok(names.length > 5, err)
  t.same(names, [...new Set(names)])
})
