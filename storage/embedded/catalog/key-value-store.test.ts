/** LMDB ends the process where it cannot open a store: what would have it do so is found before, and said. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { openState } from './state-file.ts'
import { CatalogStore } from './store.ts'

t.setTimeout(60_000)

/** Opens a store with so few file handles left, in a process of its own. @returns how that ended, and what it said. */
function openedWith(left: number, dir: string, how: 'openLmdb' | 'readLmdb'): { status: number | null; said: string } {
  const script = `
    import { closeSync, openSync } from 'node:fs'
    import { ${how} } from '${new URL('./key-value-store.ts', import.meta.url).href}'
    const held = []
    try { for (;;) held.push(openSync('/dev/null')) } catch {}
    for (let i = 0; i < ${left}; i++) closeSync(held.pop())
    let said = 'opened'
    try { await ${how}('${dir}').close() } catch (error) { said = error.code + ': ' + error.message }
    for (const fd of held) closeSync(fd)
    console.log(said)`
  const { status, stdout } = spawnSync('/bin/sh', ['-c', 'ulimit -n 60; exec "$0" "$@"', process.execPath, '--input-type=module', '-e', script])
  return { status, said: String(stdout).trim() }
}

t.test('too few file handles are said, whatever their number', { skip: process.platform !== 'linux' }, async (t) => {
  const dir = temporaryFolder(t)
  await (await CatalogStore.open(dir, true)).close()
  for (const how of ['openLmdb', 'readLmdb'] as const) {
    for (const left of [0, 1, 2, 3, 4, 5]) {
      const { status, said } = openedWith(left, dir, how)
      t.equal(status, 0, `${how}, ${left} left`)
      t.match(said, /^IO_ERROR: cannot open the catalog .* EMFILE.*ulimit -n/)
    }
    t.same(openedWith(20, dir, how), { status: 0, said: 'opened' })
  }
})

t.test('a command that reads the state says what is wrong with the file', async (t) => {
  for (const [what, bytes] of [
    ['zeros', Buffer.alloc(100_000)],
    ['other bytes', Buffer.alloc(100_000, 'svc')],
    ['the beginning of a page', Buffer.alloc(100)],
  ] as const) {
    const dir = temporaryFolder(t)
    mkdirSync(join(dir, 'catalog'))
    writeFileSync(join(dir, 'catalog', 'data.mdb'), bytes)
    await t.rejects(openState({ data_dir: dir }, 'audit'), { code: 'DATABASE_ERROR', message: /cannot read the catalog .*page/ }, what)
  }
  const dir = temporaryFolder(t)
  mkdirSync(join(dir, 'catalog', 'data.mdb'), { recursive: true })
  await t.rejects(openState({ data_dir: dir }, 'audit'), { code: 'IO_ERROR', message: /EISDIR/ })
})

t.test('a store that nothing was written to yet has no state', async (t) => {
  const dir = temporaryFolder(t)
  mkdirSync(join(dir, 'catalog'))
  writeFileSync(join(dir, 'catalog', 'data.mdb'), '')
  t.equal(await openState({ data_dir: dir }, 'audit'), undefined)
})
