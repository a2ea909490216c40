/** What the first start of a database leaves durable before it takes a write. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { realFileSystem } from '../../common/log/file-system.ts'
import { closeAndRemove, NOW, openEngine, tempDir, writeFloat } from '../testing/harness.ts'
import { syncAbove } from './startup.ts'

const DIR = '/data/svc'

function syncing(fault: (path: string) => string | undefined): { synced: string[]; fs: Parameters<typeof syncAbove>[1] } {
  const paths = new Map<number, string>()
  const synced: string[] = []
  const fs = {
    openSync: (path: string) => {
      const code = fault(path)
      if (code !== undefined) throw Object.assign(new Error(code), { code })
      paths.set(paths.size, path)
      return paths.size - 1
    },
    fsyncSync: (fd: number) => void synced.push(paths.get(fd) as string),
    closeSync: (fd: number) => void paths.set(fd, 'closed'),
  }
  return { synced, fs }
}

t.test('the directories above the files are synced', async (t) => {
  const { synced, fs } = syncing(() => undefined)
  syncAbove(join(DIR, 'catalog'), fs, [dirname(DIR)])
  t.same(synced, [join(DIR, 'catalog'), DIR, dirname(DIR)])
})

t.test('the one that names the data directory may be closed to us, the others not', async (t) => {
  for (const code of ['EACCES', 'EPERM']) {
    const { synced, fs } = syncing((path) => (path === dirname(DIR) ? code : undefined))
    syncAbove(join(DIR, 'catalog'), fs, [dirname(DIR)])
    t.same(synced, [join(DIR, 'catalog'), DIR])
  }
  t.throws(() => syncAbove(join(DIR, 'catalog'), syncing((path) => (path === DIR ? 'EACCES' : undefined)).fs, [dirname(DIR)]), { code: 'EACCES' })
  t.throws(() => syncAbove(join(DIR, 'catalog'), syncing((path) => (path === dirname(DIR) ? 'EIO' : undefined)).fs, [dirname(DIR)]), { code: 'EIO' })
})

t.test('a new database syncs them before its first record', async (t) => {
  const dir = join(tempDir(), 'new')
  mkdirSync(dir)
  const paths = new Map<number, string>()
  const synced: string[] = []
  const engine = await openEngine(
    dir,
    {},
    {
      ...realFileSystem,
      openSync: (path, flags) => {
        const fd = realFileSystem.openSync(path, flags)
        paths.set(fd, path)
        return fd
      },
      fsyncSync: (fd) => {
        synced.push(paths.get(fd) as string)
        realFileSystem.fsyncSync(fd)
      },
    },
  )
  const before = [...synced]
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  for (const path of [join(dir, 'catalog'), join(dir, 'wal'), dir, dirname(dir)]) t.ok(before.includes(path), path)
  await closeAndRemove(engine, dirname(dir))
})

t.test('a folder that is no data directory is not taken for one if its "tmp" has files: a start empties that', async (t) => {
  const dir = tempDir()
  mkdirSync(join(dir, 'tmp'))
  const mine = join(dir, 'tmp', 'mine.txt')
  writeFileSync(mine, 'mine')
  const message = `cannot open data directory "${dir}": it is none yet, and has a folder "tmp" with files, which a start would remove; name another folder`
  await t.rejects(openEngine(dir), { code: 'DATABASE_ERROR', message })
  t.same(readdirSync(dir), ['tmp'], 'nothing is made there')
  t.same(readdirSync(join(dir, 'tmp')), ['mine.txt'])
  // Its own remains are emptied: of a start that was killed, too.
  mkdirSync(join(dir, 'wal'), { recursive: true })
  const engine = await openEngine(dir)
  t.same(readdirSync(join(dir, 'tmp')), [])
  await closeAndRemove(engine, dir)
})

t.test('a data directory that cannot be made is named, with what to do', async (t) => {
  const file = join(tempDir(), 'file')
  writeFileSync(file, '')
  for (const dir of [file, join(file, 'data')])
    await t.rejects(openEngine(dir), {
      code: 'DATABASE_ERROR',
      message: new RegExp(
        `^cannot make data directory "${dir}": E(EXIST|NOTDIR): .*; make it a folder that the account of the server may write to, or set another data_dir$`,
      ),
    })
})
