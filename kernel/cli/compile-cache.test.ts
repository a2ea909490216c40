import { chmodSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ownFolder } from './compile-cache.ts'

function cacheHome(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-cache-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

t.test('compiled code is kept in a folder that only its user can write', async (t) => {
  const home = cacheHome(t)
  const folder = ownFolder({ XDG_CACHE_HOME: join(home, 'new') })
  t.equal(folder, join(home, 'new/svcdb'))
  t.equal(statSync(folder as string).mode & 0o777, 0o700)
  t.equal(ownFolder({ XDG_CACHE_HOME: home, CACHE_DIRECTORY: join(home, 'service') }), join(home, 'service/svcdb'))
})

t.test('a folder that others can write, a link and a file are not used', async (t) => {
  const home = cacheHome(t)
  const folder = ownFolder({ XDG_CACHE_HOME: home }) as string
  chmodSync(folder, 0o770)
  t.equal(ownFolder({ XDG_CACHE_HOME: home }), undefined)
  rmSync(folder, { recursive: true })
  symlinkSync(cacheHome(t), folder)
  t.equal(ownFolder({ XDG_CACHE_HOME: home }), undefined)
  rmSync(folder)
  writeFileSync(folder, '')
  t.equal(ownFolder({ XDG_CACHE_HOME: home }), undefined)
})
