/**
 * The package as `npm pack` makes it, installed in an empty folder, with the example plugin from its own tarball beside it. Nothing of the repository is
 * linked into that folder. SVC_INSTALL=registry installs what they depend on from the registry.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { copyFolder, ENV, install, pack, packRepository } from '../support/package.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { filesBelow, ROOT, read } from '../support/tree.ts'

const run = promisify(execFile)
const EXAMPLE = 'examples/third-party-plugin'
const POLLING = 'examples/polling-source'
const QUERY_EXAMPLE = 'examples/query-endpoint'
const TOKENS = 'examples/authenticator'

const folder = mkdtempSync(join(tmpdir(), 'svc-package-'))
// Builds, packs and installs: on a busy machine that is no matter of seconds.
t.setTimeout(300_000)
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const site = join(folder, 'site')
const cache = join(folder, 'cache')
const source = join(site, 'svc-plugin-webhook')
const installed = join(site, 'node_modules/svcdb')
const main = join(site, 'node_modules/.bin/svc')

const svc = async (...args: string[]) => {
  const { stdout, stderr } = await run(main, args, { cwd: site, env: ENV })
  return { stdout, stderr }
}
const failureOf = (...args: string[]) =>
  svc(...args).then(
    () => 'it did not fail',
    (error: { stderr: string }) => error.stderr,
  )
const config = (name: string, text: string): string => {
  writeFileSync(join(site, name), text)
  return join(site, name)
}
const serve = (file: string): Promise<RunningServer> => runServer(file, { cwd: site, main })

async function hooksWork(t: Test, server: RunningServer): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  t.equal((await fetch(`${server.url}/hooks/porch`, { method: 'POST', headers, body: '{"battery":81}' })).status, 204)
  t.match(await (await fetch(`${server.url}/hooks/porch/latest`)).json(), { source: 'porch', reading: { battery: 81 } })
  t.match(await (await fetch(`${server.url}/metrics`)).text(), /^svc_webhook_readings_total 1$/m)
  t.equal(await server.stop(), 0)
}

t.before(async () => {
  const tarball = await packRepository(folder)
  for (const file of filesBelow(EXAMPLE)) cpSync(join(ROOT, file), join(source, file.slice(EXAMPLE.length)))
  await install(site, cache, tarball)
})

t.test('packing leaves the manifest as it was', async (t) => {
  t.equal(readFileSync(join(folder, 'repository/package.json'), 'utf8'), read('package.json'))
})

t.test('it holds JavaScript and declarations, no sources and no tests', async (t) => {
  t.equal(lstatSync(installed).isSymbolicLink(), false)
  const files = readdirSync(installed, { recursive: true }) as string[]
  t.ok(files.length > 500)
  t.equal(readFileSync(join(installed, 'svc.toml'), 'utf8'), read('svc.toml'), 'with a file to begin with')
  t.same(
    files.filter((file) => /(?<!\.d)\.ts$|\.(test|bench|fuzz)\.|testing|simulation|testcases/.test(file)),
    [],
  )
})

t.test('its declarations pass a compiler that checks those of libraries too', async (t) => {
  const home = join(site, 'declarations')
  mkdirSync(home)
  const libs = readdirSync(join(installed, 'dist/kernel/lib')).filter((name) => existsSync(join(installed, 'dist/kernel/lib', name, 'index.d.ts')))
  const names = ['svcdb', 'svcdb/testkit', 'svcdb/agents', ...libs.map((name) => `svcdb/lib/${name}`)]
  writeFileSync(join(home, 'all.ts'), names.map((name, i) => `import * as n${i} from '${name}'\nvoid n${i}\n`).join(''))
  const compilerOptions = { module: 'nodenext', target: 'esnext', strict: true, noEmit: true, skipLibCheck: false, types: ['node'] }
  writeFileSync(join(home, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['all.ts'] }))
  const { stdout } = await run('tsc', ['-p', '.'], { cwd: home, env: ENV }).catch((error) => error as { stdout: string })
  t.equal(stdout, '')
})

t.test('the svc command serves a config: writes, SQL and PromQL', async (t) => {
  const file = config(
    'svc.toml',
    'plugins = ["native", "line_protocol", "remote_write", "otlp", "grpc", "flight_sql", "promql", "sql", "export", "backup", "dashboards"]\n',
  )
  t.match((await svc('--version')).stdout, /^\d+\.\d+\.\d+$/m)
  t.match((await svc('check', '--config', file)).stdout, /promql/)
  t.match((await svc('plugins')).stdout, /line_protocol/)
  const server = await serve(file)
  t.equal((await fetch(`${server.url}/write`, { method: 'POST', body: 'weather,city=basel temp=21.5' })).status, 204)
  const headers = { 'content-type': 'application/json' }
  const sql = { method: 'POST', headers, body: '{"query":"SELECT city, temp FROM weather"}' }
  t.match(await (await fetch(`${server.url}/api/v1/svc/sql`, sql)).json(), { rows: [['basel', 21.5]] })
  t.match(await (await fetch(`${server.url}/api/v1/query?query=weather_temp`)).json(), { data: { result: [{ metric: { city: 'basel' } }] } })
  // Files that lie beside the code.
  const models = filesBelow('plugins/dashboards/models').map((name) => JSON.parse(read(name)))
  t.same(await (await fetch(`${server.url}/api/v1/dashboards/export`)).json(), models)
  t.equal(await (await fetch(`${server.url}/api/v1/dashboards/rules`)).text(), read('plugins/dashboards/rules/svc.yml'))
  t.equal(await server.stop(), 0)
})

t.test('a query endpoint with a SQL function of its own: its tests pass against the installed package', async (t) => {
  const home = join(site, 'svc-plugin-comfort')
  for (const file of filesBelow(QUERY_EXAMPLE)) cpSync(join(ROOT, file), join(home, file.slice(QUERY_EXAMPLE.length)))
  const { stdout } = await run(process.execPath, ['--test', '--test-reporter=tap', 'src/*.test.ts'], { cwd: home, env: ENV })
  t.match(stdout, /^# fail 0$/m)
  t.match(stdout, /^# pass 3$/m)
})

t.test('a source that polls: its tests pass, and it stores what it polls', { timeout: 120_000 }, async (t) => {
  const polling = join(site, 'svc-plugin-poll')
  for (const file of filesBelow(POLLING)) cpSync(join(ROOT, file), join(polling, file.slice(POLLING.length)))
  const { stdout } = await run(process.execPath, ['--test', '--test-reporter=tap', 'src/*.test.ts'], { cwd: polling, env: ENV })
  t.match(stdout, /^# fail 0$/m)
  await install(site, cache, await pack(polling, folder))
  const polled = createServer((_, answer) => void answer.end('{"load": 0.5}')).listen(0, '127.0.0.1')
  t.teardown(() => polled.close())
  await once(polled, 'listening')
  const url = `http://127.0.0.1:${(polled.address() as AddressInfo).port}/`
  const server = await serve(config('poll.toml', `plugins = ["svc-plugin-poll"]\n[poll]\nurl = "${url}"\nevery_ms = 100\n`))
  while (!/^svc_poll_answers_total [1-9]/m.test(await (await fetch(`${server.url}/metrics`)).text())) await turn()
  t.equal(await server.stop(), 0)
})

t.test('an authenticator: its tests pass, and only its tokens let in', { timeout: 120_000 }, async (t) => {
  const home = join(site, 'svc-plugin-signed-tokens')
  for (const file of filesBelow(TOKENS)) cpSync(join(ROOT, file), join(home, file.slice(TOKENS.length)))
  const { stdout } = await run(process.execPath, ['--test', '--test-reporter=tap', 'src/*.test.ts'], { cwd: home, env: ENV })
  t.match(stdout, /^# fail 0$/m)
  t.match(stdout, /^# pass 3$/m)
  await install(site, cache, await pack(home, folder))
  const text = (key: string) => `plugins = ["svc-plugin-signed-tokens", "sql"]\n[signed_tokens]\nkey = "${key.repeat(32)}"\n`
  const file = config('tokens.toml', text('k'))
  const other = config('forged.toml', text('f'))
  const made = async (given: string, seconds: string) => (await svc('make-token', '--config', given, '--subject', 'ci', '--ttl-secs', seconds)).stdout.trim()
  const expired = await made(file, '1')
  const ends = Date.now() + 1000
  const [token, forged] = [await made(file, '600'), await made(other, '600')]
  t.match(await failureOf('make-token', '--config', file, '--subject', 'ci', '--ttl-secs', '0'), /cannot make a token with --ttl-secs "0"/)
  const server = await serve(file)
  const ask = async (given?: string): Promise<number> => {
    const authorization: Record<string, string> = given === undefined ? {} : { authorization: `Bearer ${given}` }
    const headers = { 'content-type': 'application/json', ...authorization }
    return (await fetch(`${server.url}/api/v1/svc/sql`, { method: 'POST', headers, body: '{"query":"SELECT 1"}' })).status
  }
  t.equal(await ask(), 401)
  t.equal(await ask(token), 200)
  t.equal(await ask(forged), 401)
  while (Date.now() < ends) await turn()
  t.equal(await ask(expired), 401)
  t.equal(await server.stop(), 0)
})

t.test('a plugin in a package of its own', async (t) => {
  await t.test('its tests pass against the installed package', async (t) => {
    const { stdout } = await run(process.execPath, ['--test', '--test-reporter=tap', 'src/*.test.ts'], { cwd: source, env: ENV })
    t.match(stdout, /^# fail 0$/m)
    t.match(stdout, /^# pass [1-9]/m)
  })
  await t.test('loaded by its path', async (t) => hooksWork(t, await serve(join(source, 'svc.toml'))))
  await t.test('packed, installed and loaded by its name', { timeout: 120_000 }, async (t) => {
    await install(site, cache, await pack(source, folder))
    const home = join(site, 'node_modules/svc-plugin-webhook')
    t.equal(lstatSync(home).isSymbolicLink(), false)
    t.notOk(readdirSync(home).includes('node_modules'), 'it has no svcdb of its own')
    cpSync(join(ROOT, EXAMPLE, 'installed/svc.toml'), join(site, 'webhook.toml'))
    t.match((await svc('check', '--config', 'webhook.toml')).stdout, /webhook/)
    t.match((await svc('plugins', '--config', 'webhook.toml')).stdout, /max_fields/)
    await hooksWork(t, await serve(join(site, 'webhook.toml')))
  })
  await t.test('with a copy of svcdb of its own it is refused', async (t) => {
    copyFolder(join(site, 'node_modules/svc-plugin-webhook'), join(site, 'node_modules/svc-plugin-copied'))
    copyFolder(installed, join(site, 'node_modules/svc-plugin-copied/node_modules/svcdb'))
    const file = config('copied.toml', 'plugins = ["svc-plugin-copied"]\n')
    for (const command of ['serve', 'check']) {
      const error = await failureOf(command, '--config', file)
      t.match(
        error,
        /^svc: cannot load plugin "svc-plugin-copied": .* uses the copy of svcdb in .*svc-plugin-copied\/node_modules\/svcdb\/dist\/,.* peerDependencies/m,
      )
      t.match(error, `the server that runs is the one in ${installed}`)
    }
  })
  await t.test('for another version of the API it is refused', async (t) => {
    const text = `import { definePlugin } from 'svcdb'\nexport default definePlugin({ id: 'newer', api: '1.999', summary: 's', stability: 'beta', setup() {} })\n`
    writeFileSync(join(site, 'newer.js'), text)
    const cause =
      /cannot load plugin "\.\/newer\.js": cannot define plugin "newer": it is written for version 1\.999 of the plugin API, and svcdb [\d.]+ has 1\.\d+; install/
    t.match(await failureOf('check', '--config', config('newer.toml', 'plugins = ["./newer.js"]\n')), cause)
    writeFileSync(join(site, 'missing.js'), `import { noSuchThing } from 'svcdb'\nexport default noSuchThing\n`)
    const missing =
      /cannot load plugin "\.\/missing\.js": .*'svcdb' does not provide an export named 'noSuchThing' at .*missing\.js:1; it is written for another version of svcdb/
    t.match(await failureOf('check', '--config', config('missing.toml', 'plugins = ["./missing.js"]\n')), missing)
  })
})
