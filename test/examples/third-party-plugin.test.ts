/** The example package: its own tests, loaded by path, and built and installed like any npm package. */
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { bare, type RunningServer, runServer } from '../support/server.ts'
import { filesBelow, ROOT } from '../support/tree.ts'

const run = promisify(execFile)
const EXAMPLE = join(ROOT, 'examples/third-party-plugin')

/** A copy with `svc` in its node_modules, as `npm install` leaves it. */
async function installed(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-third-party-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  for (const file of filesBelow('examples/third-party-plugin'))
    await cp(join(ROOT, file), join(folder, 'package', file.slice('examples/third-party-plugin/'.length)))
  await mkdir(join(folder, 'package/node_modules'))
  await symlink(ROOT, join(folder, 'package/node_modules/svcdb'))
  return folder
}

async function works(t: Test, server: RunningServer): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  t.equal((await fetch(`${server.url}/hooks/porch`, { method: 'POST', headers, body: '{"battery":81}' })).status, 204)
  t.match(await (await fetch(`${server.url}/hooks/porch/latest`)).json(), { source: 'porch', reading: { battery: 81 } })
  t.match(await (await fetch(`${server.url}/metrics`)).text(), /^svc_webhook_readings_total 1$/m)
  t.equal(await server.stop(), 0)
}

t.test('its own tests pass', async (t) => {
  const folder = join(await installed(t), 'package')
  const { stdout } = await run('env', bare({}, process.execPath, '--test', '--test-reporter=tap', 'src/*.test.ts'), { cwd: folder })
  t.match(stdout, /^# fail 0$/m)
  t.match(stdout, /^# pass [1-9]/m)
})

t.test('loaded by path', async (t) => {
  const folder = join(await installed(t), 'package')
  await works(t, await runServer(join(folder, 'svc.toml'), { cwd: folder }))
})

t.test('built, packed and loaded by package name, as JavaScript', async (t) => {
  const folder = await installed(t)
  const source = join(folder, 'package')
  await run('env', bare({}, join(ROOT, 'node_modules/.bin/tsc'), '-p', 'tsconfig.json'), { cwd: source })
  const site = join(folder, 'site')
  const home = join(site, 'node_modules/svc-plugin-webhook')
  await mkdir(home, { recursive: true })
  await cp(join(source, 'dist'), join(home, 'dist'), { recursive: true })
  await cp(join(source, 'package.json'), join(home, 'package.json'))
  await cp(join(EXAMPLE, 'installed/svc.toml'), join(site, 'svc.toml'))
  await symlink(ROOT, join(site, 'node_modules/svcdb'))
  await works(t, await runServer(join(site, 'svc.toml'), { cwd: site, main: join(site, 'node_modules/svcdb/kernel/main.ts') }))
})
