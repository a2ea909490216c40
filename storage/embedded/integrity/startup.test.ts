/** What the first start of a database leaves durable before it takes a write. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { realFileSystem } from '../../common/log/file-system.ts'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { realEnvironment } from '../environment.ts'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { segmentsToServe, syncAbove } from './startup.ts'

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

t.test('a data directory in which the system refuses something is named, with what to do', async (t) => {
  const dir = temporaryFolder(t)
  for (const code of ['EACCES', 'EROFS']) {
    const rmSync = (path: string): never => {
      throw Object.assign(new Error(`${code}: refused, rm '${path}'`), { code })
    }
    const engine = new EmbeddedEngine(
      testContext({ data_dir: dir }, () => Number(NOW / 1_000_000n)),
      { ...realEnvironment, fs: { ...realEnvironment.fs, rmSync } },
    )
    await t.rejects(engine.open(), {
      code: 'IO_ERROR',
      message: `cannot open data directory "${dir}": ${code}: refused, rm '${join(dir, 'tmp')}'; see that the account of the server owns the folder and all in it, and that it is not mounted read-only`,
    })
    await engine.close()
  }
})

t.test('a full disk keeps a start from ending, and the error does not say that writes resume by themselves', async (t) => {
  const full = Object.assign(new Error('ENOSPC: no space left on device, open'), { code: 'ENOSPC' })
  const mkdirSync = (): never => {
    throw full
  }
  for (const fault of [{ promises: { ...realFileSystem.promises, open: () => Promise.reject(full) } }, { mkdirSync }]) {
    const [dir, fs] = [temporaryFolder(t), { ...realFileSystem, ...fault }]
    const message = `cannot open data directory "${dir}": no space left on its volume; free space, then start again`
    await t.rejects(openEngine(dir, {}, fs), { code: 'STORAGE_FULL', message })
  }
})

t.test('a backup is not opened: it would be none any more; what is restored from it is', async (t) => {
  const folder = temporaryFolder(t)
  const engine = await openEngine(join(folder, 'data'))
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  const [backup, restored] = [join(folder, 'backup'), join(folder, 'restored')]
  const made = await engine.backup.create(backup)
  const message = `cannot open data directory "${backup}": it is a backup, and a start would make it one no more; restore it (POST /api/v1/admin/restore) and name the folder that this makes`
  const refused = () => t.rejects(openEngine(backup), { code: 'DATABASE_ERROR', message })
  await refused()
  t.same(await engine.backup.verify(backup), made, 'it is as it was')
  // As one that was killed while it took the place of another leaves it.
  mkdirSync(join(backup, 'unfinished', 'former'), { recursive: true })
  renameSync(join(backup, 'backup_manifest.json'), join(backup, 'unfinished', 'backup_manifest.json'))
  await refused()
  t.same(await engine.backup.restore(backup, restored), made)
  await engine.close()
  const again = await openEngine(restored)
  t.equal((await rowsOf(again, 'm')).length, 1)
  await again.close()
})

t.test('a data directory that cannot be made is named, with what to do', async (t) => {
  const file = join(tempDir(), 'file')
  writeFileSync(file, '')
  // Below /proc there are no directories to make.
  for (const dir of [file, join(file, 'data'), ...(existsSync('/proc/self') ? ['/proc/svc'] : [])])
    await t.rejects(openEngine(dir), {
      code: 'DATABASE_ERROR',
      message: new RegExp(
        `^cannot make data directory "${dir}": E(EXIST|NOTDIR|NOENT): .*; make it a folder that the account of the server may write to, or set another data_dir$`,
      ),
    })
})

/** Segments of three bytes, each with a sidecar of two, as a start finds them. */
function found(t: Test, segments: Partial<SegmentMeta>[], setAside = false) {
  const dataDir = tempDir()
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
  const damagedDir = join(dataDir, 'damaged')
  mkdirSync(join(dataDir, 'segments'))
  const all = segments.map((more, i): SegmentMeta => {
    const [file, sidecar] = [`segments/${i}.parquet`, `segments/${i}.index`]
    writeFileSync(join(dataDir, file), 'abc')
    writeFileSync(join(dataDir, sidecar), 'de')
    return { id: i, file, bytes: 3, crc: crc32('abc'), sidecar, sidecarBytes: 2, ...more } as SegmentMeta
  })
  const steps: unknown[] = []
  const catalog = {
    segments: () => all,
    amendSegment: async (id: number, change: Partial<SegmentMeta>) => void steps.push([id, change]),
    removeSegments: async (ids: readonly number[]) => void steps.push(['removed', ids, readdirSync(join(dataDir, 'segments')).length]),
  }
  const log = { ...testContext({}, () => 0).log, error() {} }
  const serve = async () => (await segmentsToServe({ dataDir, damagedDir, setAside, log, catalog })).map(({ id, damaged }) => [id, damaged])
  return { dataDir, damagedDir, steps, serve, all }
}

t.test('a segment that was found corrupt is served again where its file is whole again', async (t) => {
  const { dataDir, steps, serve, all } = found(t, [{}, { damaged: true }])
  t.same(await serve(), [
    [0, undefined],
    [1, undefined],
  ])
  t.same(steps, [[1, { damaged: undefined }]])
  writeFileSync(join(dataDir, all[1].file), 'abd')
  await t.rejects(serve(), { code: 'DATABASE_ERROR', message: /1\.parquet" is corrupt/ })
})

t.test('a file that is shorter or longer than the catalog says is not served, nor one whose sidecar is', async (t) => {
  for (const [name, bytes] of [
    ['0.parquet', 'ab'],
    ['0.parquet', 'abcd'],
    ['0.index', 'd'],
    ['0.index', 'def'],
  ]) {
    const { dataDir, serve } = found(t, [{}])
    writeFileSync(join(dataDir, 'segments', name), bytes)
    await t.rejects(serve(), { code: 'DATABASE_ERROR', message: new RegExp(`${name}" has ${bytes.length} bytes`) })
  }
})

t.test('all files of a segment are set aside before the catalog forgets it', async (t) => {
  const { dataDir, damagedDir, steps, serve } = found(t, [{}, {}], true)
  writeFileSync(join(dataDir, 'segments', '0.parquet'), 'ab')
  t.same(await serve(), [[1, undefined]])
  t.same(readdirSync(join(damagedDir, 'segments')).sort(), ['0.index', '0.parquet'])
  t.same(steps, [['removed', [0], 2]])
})

t.test('without its catalog a database with segments or logs is not taken for a new one', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await engine.flush()
  await closeAndRemove(engine)
  t.teardown(() => rmSync(dir, { recursive: true }))
  const files = () => ['segments', 'wal'].map((folder) => readdirSync(join(dir, folder), { recursive: true }).sort())
  const before = files()
  rmSync(join(dir, 'catalog'), { recursive: true })
  for (const left of ['segments and logs', 'segments']) {
    if (left === 'segments') for (const name of readdirSync(join(dir, 'wal'))) rmSync(join(dir, 'wal', name))
    await t.rejects(openEngine(dir), { message: /it is empty or missing, though there are segments or logs/ }, left)
  }
  t.same(files(), [before[0], []], 'nothing is removed')
})

/** A database with a segment of each of some writes, and its catalog of after the first. Merges wait for more. */
async function withOlderCatalog(t: Test, { logged }: { logged: boolean }) {
  const dir = temporaryFolder(t)
  const config = { compaction_fan_in: 32, cdc_log_size: 0 }
  const files = () => readdirSync(join(dir, 'segments'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.parquet'))
  const write = async (engine: EmbeddedEngine, n: number) => {
    await writeFloat(engine, 'm', 'a', NOW + BigInt(n), { v: n })
    await engine.flush()
  }
  const first = await openEngine(dir, config)
  await write(first, 1)
  await first.close()
  const catalog = join(dir, 'catalog', 'data.mdb')
  const older = readFileSync(catalog)
  const second = await openEngine(dir, config)
  for (const n of [2, 3]) await write(second, n)
  // As a kill leaves them.
  if (logged) await writeFloat(second, 'm', 'a', NOW + 4n, { v: 4 })
  const log = readdirSync(join(dir, 'wal')).map((name) => [name, readFileSync(join(dir, 'wal', name))] as const)
  await second.close()
  if (logged) for (const [name, bytes] of log) writeFileSync(join(dir, 'wal', name), bytes)
  const after = files()
  writeFileSync(catalog, older)
  return { dir, config, files, after }
}

t.test('segments that are newer than the catalog, as where that was put back from a copy, are set aside and not removed', async (t) => {
  const { dir, config, files, after } = await withOlderCatalog(t, { logged: false })
  t.equal(after.length, 3)
  const [own] = files().filter((name) => name.endsWith('1.parquet'))
  const shard = dirname(own)
  for (const name of [`${own}.of-mine`, `${shard}/notes`, `${shard}/0000000009.parquet.tmp`]) writeFileSync(join(dir, 'segments', name), 'x')
  const errors: unknown[] = []
  const context = testContext({ data_dir: dir, ...config }, () => Number(NOW / 1_000_000n))
  for (const round of [0, 1]) {
    const engine = new EmbeddedEngine({ ...context, log: { ...context.log, error: (...line: unknown[]) => void errors.push(...line) } })
    await engine.open()
    t.equal((await rowsOf(engine, 'm')).length, 1)
    if (round === 0) for (const name of after.filter((name) => name !== own)) writeFileSync(join(dir, 'segments', name), 'another of that number')
    // Nothing more is written: the log stays empty.
    await engine.close()
  }
  t.match(errors, [{ files: 2, directory: join(dir, 'damaged') }, /^there are segment files that the catalog does not know yet/, { files: 2 }, /set aside/])
  t.same(readdirSync(join(dir, 'segments', shard)).sort(), ['0000000001.parquet', '0000000001.parquet.of-mine', 'notes'], 'files of others stay')
  t.same(
    readdirSync(join(dir, 'damaged', 'segments', shard)).sort(),
    ['0000000002.parquet', '0000000002.parquet.1', '0000000003.parquet', '0000000003.parquet.1'],
    'none takes the place of another',
  )
})

t.test('a start that is refused for the log, which an older catalog does not fit, has removed no segment', async (t) => {
  const { dir, config, files, after } = await withOlderCatalog(t, { logged: true })
  await t.rejects(openEngine(dir, config), { message: /^cannot replay write-ahead log file .* the file before it, 0+\d\.wal, is missing/ })
  t.same(files(), after)
})

t.test('what a flush has left whose rows are in the log is removed', async (t) => {
  const dir = temporaryFolder(t)
  const engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  const [[name, bytes]] = readdirSync(join(dir, 'wal')).map((name) => [name, readFileSync(join(dir, 'wal', name))] as const)
  const catalog = readFileSync(join(dir, 'catalog', 'data.mdb'))
  await engine.close()
  t.equal(readdirSync(join(dir, 'segments')).length, 1)
  writeFileSync(join(dir, 'wal', name), bytes)
  writeFileSync(join(dir, 'catalog', 'data.mdb'), catalog)
  const again = await openEngine(dir)
  t.equal((await rowsOf(again, 'm')).length, 1)
  t.notOk(existsSync(join(dir, 'damaged')))
  await again.close()
})
