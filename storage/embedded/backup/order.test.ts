/** What a backup and a restore make durable, and when: on a disk that keeps a list. Without an engine. */
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { tempDir } from '../testing/harness.ts'
import { Backups } from './backups.ts'
import { type BackupSource, createBackup } from './create.ts'
import { Directories } from './directories.ts'
import { type BackupDisk, filesBelow, realDisk } from './disk.ts'
import { hex, MANIFEST_FILE } from './manifest.ts'
import { restoreBackup } from './restore.ts'
import { verifyBackup } from './verify.ts'

const SEGMENT = 'segments/shard_1/0000000001.parquet'
const check = () => {}

function roots(t: Test): { data: string; backup: string; source: BackupSource } {
  const root = tempDir()
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const [data, backup] = [join(root, 'data'), join(root, 'backups', 'one')]
  mkdirSync(join(data, dirname(SEGMENT)), { recursive: true })
  writeFileSync(join(data, SEGMENT), 'abc')
  const source: BackupSource = {
    dataDir: data,
    now: () => 1,
    settle: async () => 42,
    lease: () => () => {},
    copyCatalog: async (to) => writeFileSync(join(to, 'data.mdb'), 'catalog'),
    detach: async () => [[{ file: SEGMENT, bytes: 3, crc32: hex(crc32('abc')) }]],
  }
  return { data, backup, source }
}

/** As where the backups lie on another file system. */
const copying: BackupDisk = { ...realDisk, link: () => Promise.reject(Object.assign(new Error('another file system'), { code: 'EXDEV' })) }

/** Calls of the disk in order; a manifest is there or not while they are made. */
function recording(root: string): { disk: BackupDisk; calls: string[] } {
  const calls: string[] = []
  const name = (path: string) => relative(root, path) || '.'
  const manifest = () => (existsSync(join(root, MANIFEST_FILE)) ? ' with a manifest' : '')
  const disk: BackupDisk = {
    ...realDisk,
    async sync(path) {
      calls.push(`sync ${name(path)}${manifest()}`)
      await realDisk.sync(path)
    },
    async write(path, bytes) {
      calls.push(`write ${name(path)}`)
      await realDisk.write(path, bytes)
    },
  }
  return { disk, calls }
}

/** From then on it is what a reader finds when the older one is gone. */
const made = ['sync unfinished', 'sync .']
const folders = ['sync unfinished/catalog', 'sync unfinished/segments/shard_1', 'sync unfinished/segments', 'sync unfinished']

t.test('the manifest goes last, when all that it names is durable', async (t) => {
  const { backup, source } = roots(t)
  const { disk, calls } = recording(backup)
  await createBackup(source, disk, backup, new Map(), check)
  t.same(
    calls,
    [
      ...['sync unfinished/catalog/data.mdb', `write unfinished/${MANIFEST_FILE}`, ...folders, ...made, 'sync .', 'sync .'],
      ...['sync . with a manifest', 'sync .. with a manifest', 'sync ../.. with a manifest'],
    ],
    'the folder made for it as well',
  )
  calls.length = 0
  await createBackup(source, disk, backup, new Map(), check)
  t.same(calls.slice(-2), ['sync . with a manifest', 'sync .. with a manifest'], 'what was there already is durable')
})

t.test('an older backup is whole until the new one is durable; then its manifest goes, durably, before anything else of it', async (t) => {
  const { backup, source } = roots(t)
  await createBackup(source, realDisk, backup, new Map(), check)
  const { disk, calls } = recording(backup)
  await createBackup(source, disk, backup, new Map(), check)
  t.same(calls, [
    ...[
      'sync unfinished/catalog/data.mdb with a manifest',
      `write unfinished/${MANIFEST_FILE}`,
      ...[...folders, ...made].map((call) => `${call} with a manifest`),
    ],
    ...['sync .', 'sync .', 'sync . with a manifest', 'sync .. with a manifest'],
  ])
})

t.test('wherever a backup over an older one fails or ends, the older one or the new one is whole, also when the next one fails', async (t) => {
  const { data, backup, source } = roots(t)
  const other = 'segments/shard_2/0000000002.parquet'
  mkdirSync(join(data, dirname(other)), { recursive: true })
  writeFileSync(join(data, other), 'other')
  const next: BackupSource = { ...source, now: () => 2, detach: async () => [[{ file: other, bytes: 5, crc32: hex(crc32('other')) }]] }
  for (const ending of ['fails', 'ends'])
    for (let at = 0, done = false; !done; at++) {
      rmSync(backup, { recursive: true, force: true })
      await createBackup(source, copying, backup, new Map(), check)
      let calls = 0
      let replacing = false
      const step =
        <A extends unknown[], R>(work: (...args: A) => Promise<R>, last = false) =>
        async (...args: A): Promise<R> => {
          if (last) replacing = true
          // Where the process ends nothing is cleared up either.
          if (calls === at || (ending === 'ends' && calls > at)) {
            if (calls === at) calls++
            throw Object.assign(new Error('EIO: it failed'), { code: 'EIO' })
          }
          calls++
          return work(...args)
        }
      const { files } = copying
      const disk: BackupDisk = {
        ...copying,
        copy: step(copying.copy),
        sync: step(copying.sync),
        write: step(copying.write),
        files: {
          ...files,
          mkdir: step(files.mkdir as never),
          rm: step(files.rm as never),
          rename: step(files.rename as never, true),
        } as BackupDisk['files'],
      }
      const made = await createBackup(next, disk, backup, new Map(), check).catch(() => undefined)
      done = made !== undefined && calls <= at
      const there = await verifyBackup(realDisk, backup, check).catch(() => undefined)
      const label = `${ending} at step ${at}`
      // Once names change it may be either.
      t.ok(there, label)
      if (made !== undefined) t.match(there, { created_at: 2 }, label)
      else if (!replacing) t.match(there, { created_at: 1 }, label)
      if (replacing) {
        const restored = join(dirname(backup), 'restored')
        await restoreBackup(realDisk, backup, restored, check)
        const held = there?.created_at === 2 ? other : SEGMENT
        t.same(await filesBelow(restored, 'segments'), [held], `${label}: what is restored`)
        rmSync(restored, { recursive: true })
        const before = there?.created_at
        await t.rejects(createBackup(next, { ...copying, write: () => Promise.reject(new Error('it is full')) }, backup, new Map(), check), {
          message: 'it is full',
        })
        t.match(await verifyBackup(realDisk, backup, check), { created_at: before }, `${label}: the next one fails`)
      }
      t.match(await createBackup(next, copying, backup, new Map(), check), { created_at: 2 }, `${label}: the next one`)
      t.match(await verifyBackup(realDisk, backup, check), { created_at: 2 }, `${label}: is whole`)
    }
})

t.test('a first backup that ends when it is whole is one, and listed as such; one whose removal ends early is none', async (t) => {
  const { backup, source } = roots(t)
  const { rename } = copying.files
  for (let ends = 0; ; ends++) {
    rmSync(backup, { recursive: true, force: true })
    // It was there already: what fails is not cleared up.
    mkdirSync(backup, { recursive: true })
    let renames = 0
    const files = {
      ...copying.files,
      rename: async (from: string, to: string) => {
        if (renames++ >= ends) throw new Error('it ends')
        await rename(from, to)
      },
    }
    const failed = await createBackup(source, { ...copying, files }, backup, new Map(), check).then(
      () => false,
      () => true,
    )
    t.match(await verifyBackup(realDisk, backup, check), { created_at: 1 }, `after ${ends} renames`)
    const listed = () => new Directories(realDisk.files).list(dirname(backup))
    t.same(await listed(), [{ name: 'one', finished: true }])
    let removals = 0
    const half = { ...realDisk.files, rm: (async (...args) => (removals++ < 2 ? realDisk.files.rm(...args) : undefined)) as typeof realDisk.files.rm }
    await new Directories(half).remove(backup)
    t.same(await listed(), [{ name: 'one', finished: false }])
    if (!failed) break
    t.ok(ends < 10)
  }
})

t.test('segments stay from before the snapshot until all is in place, whether that goes well or not', async (t) => {
  const { data, backup, source } = roots(t)
  const steps: string[] = []
  const disk: BackupDisk = {
    ...realDisk,
    async sync(path) {
      steps.push(`sync ${relative(backup, path) || '.'}`)
      await realDisk.sync(path)
    },
  }
  const watched: BackupSource = {
    ...source,
    lease: () => {
      steps.push('lease')
      return () => void steps.push('release')
    },
    copyCatalog: async (to) => {
      steps.push('snapshot')
      await source.copyCatalog(to)
    },
  }
  await createBackup(watched, disk, backup, new Map(), check)
  t.ok(steps.indexOf('lease') >= 0 && steps.indexOf('lease') < steps.indexOf('snapshot'))
  t.equal(steps.at(-1), 'release')
  t.equal(steps.filter((step) => step === 'release').length, 1)
  steps.length = 0
  rmSync(join(data, SEGMENT))
  await t.rejects(createBackup(watched, disk, backup, new Map(), check), { code: 'DATABASE_ERROR' })
  t.equal(steps.at(-1), 'release')
})

t.test('a segment that has another length than the catalog says is not backed up', async (t) => {
  const { data, backup, source } = roots(t)
  for (const bytes of ['ab', 'abcd']) {
    writeFileSync(join(data, SEGMENT), bytes)
    await t.rejects(createBackup(source, realDisk, backup, new Map(), check), {
      code: 'DATABASE_ERROR',
      message: new RegExp(`it has ${bytes.length} bytes, the catalog says 3`),
    })
    t.notOk(existsSync(backup), 'nothing is left')
  }
})

t.test('a backup over an older one has what there is now: no file is left over, and none is kept that has changed', async (t) => {
  const { data, backup, source } = roots(t)
  const former = 'segments/shard_1/0000000000.parquet'
  writeFileSync(join(data, former), 'abc')
  const both = await source.detach('')
  await createBackup({ ...source, detach: async () => [...both, [{ file: former, bytes: 3, crc32: hex(crc32('abc')) }]] }, copying, backup, new Map(), check)
  writeFileSync(join(backup, SEGMENT), 'xyz')
  // As servers before this one left it when they ended.
  writeFileSync(join(backup, `${MANIFEST_FILE}.tmp`), 'half')
  for (const disk of [copying, realDisk]) {
    await createBackup(source, disk, backup, new Map(), check)
    t.same(readdirSync(backup).sort(), [MANIFEST_FILE, 'catalog', 'segments'].sort())
    t.match(await verifyBackup(disk, backup, check), { segments: 1, file_count: 2 })
    t.notOk(existsSync(join(backup, former)))
    t.equal(readFileSync(join(backup, SEGMENT), 'utf8'), 'abc')
  }
})

t.test('a segment that is not what the catalog says is noticed when it is copied', async (t) => {
  const { data, backup, source } = roots(t)
  writeFileSync(join(data, SEGMENT), 'abd')
  await t.rejects(createBackup(source, copying, backup, new Map(), check), { code: 'DATABASE_ERROR', message: /the catalog says .* of 3 bytes/ })
  t.notOk(existsSync(backup))
})

t.test('a backup that is being made is neither verified nor restored, and none is restored into itself', async (t) => {
  const { data, backup, source } = roots(t)
  const { promise: copied, resolve: go } = Promise.withResolvers<void>()
  const { promise: begun, resolve: begins } = Promise.withResolvers<void>()
  const slow: BackupSource = {
    ...source,
    copyCatalog: async (to) => {
      begins()
      await copied
      await source.copyCatalog(to)
    },
  }
  const backups = new Backups(slow)
  const making = backups.create(backup)
  await begun
  const conflict = { code: 'CONFLICT', message: /in use by another backup/ }
  await t.rejects(backups.verify(backup), conflict)
  await t.rejects(backups.restore(backup, join(dirname(data), 'restored')), conflict)
  go()
  await making
  t.match(await backups.verify(backup), { files: 2 })
  await t.rejects(backups.restore(backup, join(backup, 'restored')), { code: 'INVALID_REQUEST', message: /inside the backup/ })
  await t.resolves(backups.restore(backup, join(dirname(data), 'restored')))
})

/** A disk the first file of which is read when the test says so. */
function waiting(): { disk: BackupDisk; begun: Promise<void>; go(): void } {
  const { promise: begun, resolve: begins } = Promise.withResolvers<void>()
  const { promise: gate, resolve: go } = Promise.withResolvers<void>()
  let reads = 0
  const content: BackupDisk['content'] = async (...args) => {
    begins()
    if (reads++ === 0) await gate
    return realDisk.content(...args)
  }
  return { disk: { ...realDisk, content }, begun, go }
}

t.test('a backup that is being verified or restored is not removed, and one that is being removed is in use', async (t) => {
  const { data, backup, source } = roots(t)
  await createBackup(source, realDisk, backup, new Map(), check)
  const conflict = { code: 'CONFLICT', message: /cannot remove backup .*in use by another backup/ }
  const restored = join(dirname(data), 'restored')
  for (const read of [(backups: Backups) => backups.verify(backup), (backups: Backups) => backups.restore(backup, restored)]) {
    const { disk, begun, go } = waiting()
    const backups = new Backups(source, disk)
    const reading = read(backups)
    await begun
    await t.rejects(backups.directories.remove(backup), conflict)
    await t.rejects(backups.directories.remove(dirname(backup)), conflict)
    go()
    t.match(await reading, { files: 2 })
  }
  const { promise: begun, resolve: begins } = Promise.withResolvers<void>()
  const { promise: gate, resolve: go } = Promise.withResolvers<void>()
  const rm: typeof realDisk.files.rm = async (...args) => {
    begins()
    await gate
    await realDisk.files.rm(...args)
  }
  const backups = new Backups(source, { ...realDisk, files: { ...realDisk.files, rm } })
  const removing = backups.directories.remove(backup)
  await begun
  await t.rejects(backups.verify(backup), { code: 'CONFLICT' })
  go()
  await removing
  t.notOk(existsSync(backup))
})

t.test('what a restore makes is in use until it is there, and lies in no backup', async (t) => {
  const { data, backup, source } = roots(t)
  await createBackup(source, realDisk, backup, new Map(), check)
  const { disk, begun, go } = waiting()
  const backups = new Backups(source, disk)
  const target = join(dirname(data), 'deep', 'restored')
  const restoring = backups.restore(backup, target)
  await begun
  for (const path of [target, dirname(target), join(target, 'below')]) await t.rejects(backups.create(path), { code: 'CONFLICT' }, path)
  await t.rejects(backups.restore(backup, target), { code: 'CONFLICT' })
  go()
  await restoring
  t.same(readdirSync(target).sort(), ['catalog', 'segments', 'wal'])
  const other = join(dirname(backup), 'other')
  await backups.create(other)
  const refused = { code: 'INVALID_REQUEST', message: /the directory is inside the backup ".*other"; choose one elsewhere/ }
  await t.rejects(backups.restore(backup, join(other, 'below', 'restored')), refused)
  await t.rejects(backups.create(join(other, 'below')), refused)
  t.match(await backups.verify(other), { files: 2 })
})

t.test('what a backup does with the list of segments grows as the list does', async (t) => {
  const { data, backup, source } = roots(t)
  const count = 200
  const names = Array.from({ length: count }, (_, i) => `segments/shard_1/${String(i).padStart(10, '0')}.parquet`)
  for (const name of names) writeFileSync(join(data, name), 'abc')
  let reads = 0
  const segmentOf = (name: string) => ({
    get file() {
      reads++
      return name
    },
    ...{ bytes: 3, crc32: hex(crc32('abc')) },
  })
  const known = new Map()
  for (const folder of ['one', 'two']) {
    reads = 0
    await createBackup({ ...source, detach: async () => names.map((name) => [segmentOf(name)]) }, realDisk, `${backup}-${folder}`, known, check)
    t.ok(reads < 10 * count, `${reads} looks at ${count} names`)
  }
  await createBackup(source, realDisk, backup, known, check)
  t.same([...known.keys()], [SEGMENT], 'those that are gone are forgotten')
})

t.test('all files of a backup are found, however many there are', async (t) => {
  const entry = (name: string, isDirectory: boolean) => ({ name, isDirectory: () => isDirectory })
  const many = Array.from({ length: 200_000 }, (_, i) => entry(`${i}.parquet`, false))
  const folders: Record<string, ReturnType<typeof entry>[]> = { '': [entry('segments', true)], segments: [entry('one', true), entry('two', true)] }
  const readdir = async (path: string) => folders[relative('/backup', path)] ?? many
  const found = await filesBelow('/backup', '', { ...realDisk.files, readdir } as unknown as BackupDisk['files'])
  t.equal(new Set(found).size, 2 * many.length)
})

t.test('a restore is renamed when it is durable, and so are the folders made for it then', async (t) => {
  const { backup, source } = roots(t)
  await createBackup(source, realDisk, backup, new Map(), check)
  const root = dirname(backup)
  const target = join(root, 'new', 'folder', 'restored')
  const calls: string[] = []
  const sync: BackupDisk['sync'] = async (path) => {
    const made = path.includes('.restoring-') ? path.replace(/.*\.restoring-\w{8}/, 'made') : relative(dirname(root), path)
    calls.push(`${made} ${existsSync(target) ? 'after' : 'before'}`)
    await realDisk.sync(path)
  }
  await restoreBackup({ ...realDisk, sync }, backup, target, check)
  t.same(
    calls.toSorted(),
    [
      ...['made before', 'made/catalog before', 'made/segments before', 'made/segments/shard_1 before', 'made/wal before'],
      ...['backups after', 'backups/new after', 'backups/new/folder after'],
    ].toSorted(),
  )
})

t.test('wherever a restore fails, nothing is left of it, and the next one is made', async (t) => {
  const { backup, source } = roots(t)
  await createBackup(source, realDisk, backup, new Map(), check)
  const target = join(dirname(backup), 'restored')
  for (let at = 0; ; at++) {
    let calls = 0
    const step =
      <A extends unknown[], R>(work: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        if (calls++ === at) throw Object.assign(new Error('EIO: it failed'), { code: 'EIO' })
        return work(...args)
      }
    const { files } = copying
    const disk: BackupDisk = {
      ...copying,
      copy: step(copying.copy),
      sync: step(copying.sync),
      files: { ...files, mkdir: step(files.mkdir as never), rename: step(files.rename as never) } as BackupDisk['files'],
    }
    const failed = await restoreBackup(disk, backup, target, check).then(
      () => undefined,
      (error: Error) => error.message,
    )
    if (failed === undefined) break
    t.same([failed, readdirSync(dirname(backup))], ['EIO: it failed', ['one']], `step ${at}`)
  }
  t.same(readdirSync(target).sort(), ['catalog', 'segments', 'wal'])
})

t.test('a restore that can clear nothing up says what failed first', async (t) => {
  const { backup, source } = roots(t)
  await createBackup(source, realDisk, backup, new Map(), check)
  const fails = (message: string) => () => Promise.reject(new Error(message))
  const disk: BackupDisk = { ...realDisk, copy: fails('it is full'), files: { ...realDisk.files, rm: fails('it is broken') } as BackupDisk['files'] }
  await t.rejects(restoreBackup(disk, backup, join(dirname(backup), 'restored'), check), { message: 'it is full' })
})

t.test('a folder that is made at the target meanwhile is not replaced', async (t) => {
  const { backup, source } = roots(t)
  await createBackup(source, realDisk, backup, new Map(), check)
  const target = join(dirname(backup), 'restored')
  const disk: BackupDisk = {
    ...realDisk,
    copy(from, to, check) {
      mkdirSync(target)
      return realDisk.copy(from, to, check)
    },
  }
  await t.rejects(restoreBackup(disk, backup, target, check), { code: 'INVALID_REQUEST' })
  t.same(readdirSync(dirname(backup)).sort(), ['one', 'restored'])
  t.same(readdirSync(target), [])
})

t.test('a file that changes while it is restored is refused', async (t) => {
  const { backup, source } = roots(t)
  await createBackup(source, realDisk, backup, new Map(), check)
  const target = join(dirname(backup), 'restored')
  const changes: [string, (path: string) => void][] = [
    ['catalog/data.mdb', (path) => writeFileSync(path, 'CATALOG')],
    ['catalog/data.mdb', (path) => appendFileSync(path, '!')],
    [SEGMENT, (path) => writeFileSync(path, 'abd')],
  ]
  for (const [file, change] of changes) {
    const path = join(backup, file)
    const kept = readFileSync(path)
    // After the verification, in the moment of the copy; segments are copied where they cannot be linked.
    const disk: BackupDisk = {
      ...realDisk,
      link: () => Promise.reject(Object.assign(new Error('another file system'), { code: 'EXDEV' })),
      copy(from, to, check) {
        if (from === path) change(path)
        return realDisk.copy(from, to, check)
      },
    }
    await t.rejects(restoreBackup(disk, backup, target, check), { code: 'INVALID_REQUEST', message: new RegExp(`file "${file}" changed while it was copied`) })
    t.same(readdirSync(dirname(backup)), ['one'], 'nothing is left')
    rmSync(path)
    writeFileSync(path, kept)
  }
  await restoreBackup(realDisk, backup, target, check)
  t.equal(readFileSync(join(target, SEGMENT), 'utf8'), 'abc')
})

t.test('a file that changes while it is restored, and keeps its length, leaves nothing', async (t) => {
  const { backup, source } = roots(t)
  await createBackup(source, copying, backup, new Map(), check)
  for (const file of [SEGMENT, 'catalog/data.mdb']) {
    const changing: BackupDisk = {
      ...copying,
      copy: async (from, to, check) => {
        const bytes = readFileSync(from)
        if (from.endsWith(file)) writeFileSync(from, bytes.toReversed())
        return copying.copy(from, to, check).finally(() => writeFileSync(from, bytes))
      },
    }
    const target = join(dirname(backup), 'restored')
    const message = new RegExp(`file "${file}" changed while it was copied`)
    await t.rejects(restoreBackup(changing, backup, target, check), { code: 'INVALID_REQUEST', message })
    t.same(readdirSync(dirname(backup)), ['one'])
  }
})
