import { spawnSync } from 'node:child_process'
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'

const ROOT = join(import.meta.dirname, '..')

t.test('an interrupted npm pack is repaired by the next set-up, which says so', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-manifest-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const file of ['package.json', 'package-lock.json', 'scripts/setup.mjs', 'scripts/manifest.mjs']) cpSync(join(ROOT, file), join(folder, file))
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const manifest = join(folder, 'package.json')
  const own = readFileSync(manifest, 'utf8')
  const run = (script: string, ...args: string[]) => spawnSync(process.execPath, [join(folder, 'scripts', script), ...args], { encoding: 'utf8' })

  t.equal(run('manifest.mjs', 'publish').status, 0)
  const { private: closed, exports, bin, scripts } = JSON.parse(readFileSync(manifest, 'utf8'))
  t.equal(closed, undefined)
  t.equal(exports['.'].default, './dist/kernel/index.js')
  t.equal(bin.svc, 'dist/kernel/main.js')
  t.same(scripts, JSON.parse(own).scripts, 'so that npm test still finds its way to the set-up')
  t.match(run('setup.mjs').stdout, /setup: an interrupted npm pack had left the published package.json/)
  t.equal(readFileSync(manifest, 'utf8'), own)
  t.equal(run('setup.mjs').stdout, '')

  run('manifest.mjs', 'publish')
  appendFileSync(manifest, '\n')
  const refused = run('setup.mjs')
  t.not(refused.status, 0)
  t.match(refused.stderr, /cannot put package.json back after an interrupted npm pack: it was changed since/)
  t.equal(readFileSync(join(folder, 'package.source.json'), 'utf8'), own, 'nothing is lost')
})
