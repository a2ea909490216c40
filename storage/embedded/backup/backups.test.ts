import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { MetricsRegistry } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { EmbeddedEngine } from '../engine.ts'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, NOW, NOW_MS, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { Backups } from './backups.ts'
import { type BackupDisk, filesBelow, realDisk } from './disk.ts'
import { MANIFEST_FILE } from './manifest.ts'

t.setTimeout(120_000)
const SMALL = { maintenance_interval_secs: 1, compaction_fan_in: 2 }

/** The engine's service over a disk with faults. */
function onDisk(engine: EmbeddedEngine, faults: Partial<BackupDisk>): Backups {
  const { source } = engine.backup as unknown as { source: ConstructorParameters<typeof Backups>[0] }
  return new Backups(source, { ...realDisk, ...faults })
}

async function filled(dir: string, points = 20, config: Record<string, unknown> = SMALL): Promise<EmbeddedEngine> {
  const engine = await openEngine(dir, config)
  for (let i = 0; i < points; i++) {
    await writeFloat(engine, i % 2 === 0 ? 'm' : 'other', `h${i % 3}`, NOW + BigInt(i), { v: i, w: i / 3 })
    if (i % 7 === 6) await engine.flush()
  }
  return engine
}

const failing = (code: string) => () => Promise.reject(Object.assign(new Error(`${code}: it failed`), { code }))

t.test('restored backup was empty because paths were absolute: it opens elsewhere, after the original is gone, with the same answers', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const engine = await filled(dir)
  const expected = [await rowsOf(engine, 'm'), await rowsOf(engine, 'other')]
  const made = await engine.backup.create(join(root, 'one'))
  t.match(made, { version: 2, createdAt: NOW_MS, statistics: { wal_sequence: 20 } })
  t.ok(made.statistics.segments > 0 && made.files === made.statistics.segments + 1 && made.bytes > 0)
  await writeFloat(engine, 'm', 'late', NOW + 99n, { v: 1 })
  t.same(await engine.backup.verify(join(root, 'one')), made)
  t.same(await engine.backup.restore(join(root, 'one'), join(root, 'moved', 'here')), made)
  await closeAndRemove(engine, dir)
  rmSync(join(root, 'one'), { recursive: true })
  const again = await openEngine(join(root, 'moved', 'here'), SMALL)
  t.same([await rowsOf(again, 'm'), await rowsOf(again, 'other')], expected)
  await writeFloat(again, 'm', 'h0', NOW + 50n, { v: 7 })
  await again.flush()
  t.equal((await rowsOf(again, 'm')).length, expected[0].length + 1, 'and takes writes')
  await closeAndRemove(again, root)
})

t.test('backup raced a flush: what was acknowledged before the call is in it, whole, while writes, flushes and merges go on', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const engine = await openEngine(dir, { ...SMALL, memtable_flush_threshold: 65_536, wal_max_file_size: 65_536, max_memtable_memory: 2 ** 26 })
  let acknowledged = 0
  let stop = false
  const load = (async () => {
    for (let batch = 0; !stop; batch++) {
      await Promise.all([0, 1, 2].map((i) => writeFloat(engine, 'm', `h${batch % 50}`, NOW + BigInt(batch * 3 + i), { v: batch, w: i })))
      acknowledged = (batch + 1) * 3
    }
  })()
  for (let round = 0; round < 4; round++) {
    await new Promise((resolve) => setTimeout(resolve, 300))
    const before = acknowledged
    const [made] = await Promise.all([engine.backup.create(join(root, `b${round}`)), engine.flush()])
    t.ok(made.statistics.wal_sequence >= before)
    await engine.backup.restore(join(root, `b${round}`), join(root, `r${round}`))
    const copy = await openEngine(join(root, `r${round}`), SMALL)
    const rows = await rowsOf(copy, 'm')
    t.ok(rows.length >= before, `${rows.length} rows, ${before} were acknowledged before the call`)
    t.ok(
      rows.every((row) => / v=\d+ w=[012]$/.test(row)),
      'every row is whole',
    )
    await copy.close()
  }
  stop = true
  await load
  await closeAndRemove(engine, dir, root)
})

t.test('definitions and deletes that only the log has are in the backup', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const engine = await filled(dir)
  await engine.flush()
  await engine.declareField('', 'm', { name: 'declared', type: 'int64' })
  await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'h0' }] })
  const expected = await rowsOf(engine, 'm')
  await engine.backup.create(join(root, 'b'))
  await engine.backup.restore(join(root, 'b'), join(root, 'r'))
  const copy = await openEngine(join(root, 'r'))
  t.same(await rowsOf(copy, 'm'), expected)
  t.ok((await copy.measurements('')).some(({ fields }) => fields.some(({ name }) => name === 'declared')))
  await closeAndRemove(copy)
  await closeAndRemove(engine, dir, root)
})

t.test('a lease keeps files that a merge replaces until the backup has them', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const metrics = new MetricsRegistry()
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  const engine = new EmbeddedEngine({ config: { ...SMALL, data_dir: dir }, log, metrics: metrics.child('storage'), now: () => NOW_MS })
  await engine.open()
  for (let i = 0; i < 8; i++) {
    await writeFloat(engine, 'm', 'a', NOW + BigInt(i), { v: i, w: i })
    if (i < 7) await engine.flush()
  }
  const gauge = async () => Number(/^svc_leased_segments (\d+)/m.exec(await metrics.text())?.[1])
  const onDiskNow = async () => (await filesBelow(join(dir, 'segments'))).length
  t.equal(await gauge(), 0)
  let max = 0
  const backups = onDisk(engine, {
    link: async (from, to) => {
      // Time for merges to replace every segment of the snapshot.
      for (let i = 0; i < 3; i++) {
        await writeFloat(engine, 'm', 'b', NOW + BigInt(1000 + i), { v: i, w: i })
        await engine.flush()
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      max = Math.max(max, await gauge())
      await realDisk.link(from, to)
    },
  })
  const made = await backups.create(join(root, 'b'))
  t.ok(made.statistics.segments > 0)
  t.ok(max > 0, `${max} segments were leased`)
  t.same(await backups.verify(join(root, 'b')), made)
  t.equal(await gauge(), 0, 'and then no more')
  await engine.flush()
  t.ok((await onDiskNow()) < 12, 'what was merged is gone')
  metrics.close()
  await closeAndRemove(engine, dir, root)
})

t.test('a backup in a directory that has one replaces it; files no longer named go', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const target = join(root, 'b')
  const engine = await filled(dir)
  await engine.backup.create(target)
  const first = await filesBelow(target)
  for (let i = 0; i < 6; i++) {
    await writeFloat(engine, 'm', 'x', NOW + BigInt(100 + i), { v: i, w: i })
    await engine.flush()
  }
  // Of another database: the same name, other contents.
  const [segment] = first.filter((file) => file.startsWith('segments/'))
  unlinkSync(join(target, segment))
  writeFileSync(join(target, segment), 'something else')
  writeFileSync(join(target, 'segments', 'left-over.parquet'), 'old')
  const made = await engine.backup.create(target)
  t.same(await engine.backup.verify(target), made)
  const now = await filesBelow(target)
  t.notOk(now.includes('segments/left-over.parquet'))
  t.equal(now.length, made.files + 1)
  await closeAndRemove(engine, dir, root)
})

t.test('segments are shared by hard links, the catalog is not', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const engine = await openEngine(dir, { compaction_fan_in: 64 })
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await engine.backup.create(join(root, 'b'))
  await engine.backup.restore(join(root, 'b'), join(root, 'r'))
  const [segment] = await filesBelow(join(root, 'b'), 'segments')
  const inode = (folder: string, file: string) => statSync(join(folder, file)).ino
  t.same([inode(join(root, 'b'), segment), inode(join(root, 'r'), segment)], [inode(dir, segment), inode(dir, segment)])
  t.equal(new Set([dir, join(root, 'b'), join(root, 'r')].map((folder) => inode(folder, 'catalog/data.mdb'))).size, 3)
  await closeAndRemove(engine, dir, root)
})

t.test('across file systems segments are copied', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const engine = await filled(dir)
  const expected = await rowsOf(engine, 'm')
  const backups = onDisk(engine, { link: failing('EXDEV') })
  const made = await backups.create(join(root, 'b'))
  for (const file of (await filesBelow(join(root, 'b'))).filter((name) => name.endsWith('.parquet'))) t.equal(statSync(join(root, 'b', file)).nlink, 1)
  t.same(await engine.backup.verify(join(root, 'b')), made)
  await backups.restore(join(root, 'b'), join(root, 'r'))
  const copy = await openEngine(join(root, 'r'))
  t.same(await rowsOf(copy, 'm'), expected)
  await closeAndRemove(copy)
  await closeAndRemove(engine, dir, root)
})

t.test('verify and restore name the file that is corrupt, and restore leaves nothing', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  // Without merges each backup has the same files.
  const engine = await filled(dir, 20, { ...SMALL, compaction_fan_in: 64 })
  const make = async (name: string) => {
    rmSync(join(root, name), { recursive: true, force: true })
    // Copies: corruption to a link would be corruption to the database.
    await onDisk(engine, { link: failing('EXDEV') }).create(join(root, name))
    return join(root, name)
  }
  const flip = (file: string, at: number) => {
    const bytes = readFileSync(file)
    bytes[at] ^= 1 << (at % 8)
    writeFileSync(file, bytes)
  }
  const corruptions: [string, (file: string, size: number) => void, string][] = [
    ['flip', (file, size) => flip(file, size >> 1), 'has checksum'],
    ['truncate', (file, size) => truncateSync(file, size - 1), 'bytes, the manifest says'],
    ['zero length', (file) => truncateSync(file, 0), 'has 0 bytes, the manifest says'],
    ['missing', (file) => unlinkSync(file), 'is missing'],
    ['longer', (file, size) => writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.from([size & 255])])), 'bytes, the manifest says'],
    [
      'a link elsewhere',
      (file) => {
        unlinkSync(file)
        symlinkSync('/etc/hostname', file)
      },
      'is not a plain file',
    ],
  ]
  const backup = await make('b')
  const files = (await filesBelow(backup)).filter((file) => file !== MANIFEST_FILE)
  for (const path of [files.find((file) => file.endsWith('.parquet')) as string, 'catalog/data.mdb']) {
    for (const [corruption, apply, expected] of corruptions) {
      await make('b')
      const { size } = statSync(join(backup, path))
      apply(join(backup, path), size)
      for (const attempt of [() => engine.backup.verify(backup), () => engine.backup.restore(backup, join(root, 'r'))])
        await t.rejects(attempt(), { code: 'INVALID_REQUEST', message: new RegExp(`${path}.*${expected}`) }, `${path}: ${corruption}`)
      if (corruption !== 'a link elsewhere') await t.rejects(engine.backup.verify(backup), { message: new RegExp(String(size)) }, 'the expected size is named')
    }
  }
  await make('b')
  writeFileSync(join(backup, 'segments', 'garbage'), 'xyz')
  await t.rejects(engine.backup.verify(backup), { code: 'INVALID_REQUEST', message: /"segments\/garbage" of 3 bytes is not in the manifest/ })
  await make('b')
  const [a, b] = files.filter((file) => file.endsWith('.parquet'))
  const swapped = readFileSync(join(backup, a))
  writeFileSync(join(backup, a), readFileSync(join(backup, b)))
  writeFileSync(join(backup, b), swapped)
  await t.rejects(engine.backup.verify(backup), { code: 'INVALID_REQUEST' }, 'two segments swapped')
  await make('b')
  flip(join(backup, MANIFEST_FILE), 100)
  for (const attempt of [() => engine.backup.verify(backup), () => engine.backup.restore(backup, join(root, 'r'))])
    await t.rejects(attempt(), { code: 'INVALID_REQUEST', message: /backup_manifest\.json": it is corrupt/ })
  unlinkSync(join(backup, MANIFEST_FILE))
  await t.rejects(engine.backup.verify(backup), { code: 'INVALID_REQUEST', message: /has no backup_manifest\.json/ })
  t.same(readdirSync(root), ['b'], 'nothing of a target')
  await t.rejects(engine.backup.verify(join(root, 'none')), { code: 'INVALID_REQUEST', message: /no such directory/ })
  await closeAndRemove(engine, dir, root)
})

t.test('a corrupt segment of the database is noticed when it is copied, and by verification when it is linked', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const engine = await openEngine(dir, { compaction_fan_in: 64 })
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await engine.flush()
  const [segment] = (await filesBelow(join(dir, 'segments'))).map((file) => join(dir, 'segments', file))
  const bytes = readFileSync(segment)
  bytes[bytes.length >> 1] ^= 1
  writeFileSync(segment, bytes)
  await t.rejects(onDisk(engine, { link: failing('EXDEV') }).create(join(root, 'copied')), { code: 'DATABASE_ERROR', message: /have checksum/ })
  await engine.backup.create(join(root, 'linked'))
  await t.rejects(engine.backup.verify(join(root, 'linked')), { code: 'INVALID_REQUEST', message: /has checksum/ })
  truncateSync(segment, bytes.length - 1)
  await t.rejects(engine.backup.create(join(root, 'short')), { code: 'DATABASE_ERROR', message: /the catalog says/ })
  unlinkSync(segment)
  await t.rejects(engine.backup.create(join(root, 'none')), { code: 'DATABASE_ERROR', message: /no such file/ })
  t.same(readdirSync(root), ['linked'])
  await closeAndRemove(engine, dir, root)
})

t.test('a database that has become corrupt does not take the older backup away', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const target = join(root, 'b')
  const engine = await openEngine(dir, { compaction_fan_in: 64, segment_verification: 'background' })
  for (const v of [1, 2]) {
    await writeFloat(engine, 'm', 'a', NOW + BigInt(v), { v, w: v })
    await engine.flush()
  }
  // As on another file system: the files of the backup are its own.
  const made = await onDisk(engine, { link: failing('EXDEV') }).create(target)
  const [file] = await filesBelow(join(dir, 'segments'))
  const path = join(dir, 'segments', file)
  const whole = readFileSync(path)
  const { segments, scrubber } = inside(engine)
  for (const [name, spoil, message] of [
    ['short', () => truncateSync(path, whole.length - 1), /the catalog says/],
    ['gone', () => unlinkSync(path), /no such file/],
    ['known to be corrupt', () => scrubber.report(segments.all()[0].id, 'a test says so'), /it is corrupt/],
  ] as const) {
    spoil()
    await t.rejects(engine.backup.create(target), { code: 'DATABASE_ERROR', message }, name)
    t.same(await engine.backup.verify(target), made, `${name}: the older one is whole`)
    writeFileSync(path, whole)
  }
  await closeAndRemove(engine, dir, root)
})

t.test('directories that overlap the database or hold something else are refused', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const engine = await filled(dir)
  const before = readdirSync(dir)
  symlinkSync(join(dir, 'segments'), join(root, 'way-in'))
  for (const target of [
    dir,
    dirname(dir),
    join(dir, 'segments'),
    join(dir, 'catalog', 'b'),
    join(dir, 'wal'),
    join(dir, 'elsewhere'),
    join(root, 'way-in', 'b'),
  ])
    await t.rejects(engine.backup.create(target), { code: 'INVALID_REQUEST', message: /overlaps the database's own/ }, target)
  mkdirSync(join(root, 'home'))
  writeFileSync(join(root, 'home', 'letter.txt'), 'mine')
  await t.rejects(engine.backup.create(join(root, 'home')), { code: 'INVALID_REQUEST', message: /holds "letter\.txt"/ })
  await t.rejects(engine.backup.create(join(root, 'home', 'letter.txt')), { code: 'INVALID_REQUEST', message: /not a directory/ })
  t.same(readdirSync(dir), before, 'nothing has changed')
  const own = join(dir, 'backups', 'one')
  await engine.backup.create(own)
  await t.rejects(engine.backup.restore(own, join(root, 'home')), { code: 'INVALID_REQUEST', message: /it exists/ })
  await t.rejects(engine.backup.restore(own, join(dir, 'wal', 'r')), { code: 'INVALID_REQUEST', message: /overlaps/ })
  await t.rejects(engine.backup.restore(own, join(own, 'r')), { code: 'INVALID_REQUEST', message: /inside the backup/ })
  await engine.backup.restore(own, join(dir, 'backups', 'restored'))
  await t.rejects(engine.backup.create(join(dir, 'backups', 'restored')), { code: 'INVALID_REQUEST', message: /holds "wal"/ }, 'a data directory is no backup')
  await closeAndRemove(engine, dir, root)
})

t.test('a full disk or a failed fsync: a clear error, nothing half made, the database unharmed', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const engine = await filled(dir)
  const expected = await rowsOf(engine, 'm')
  const cases: [Partial<BackupDisk>, string][] = [
    [{ link: failing('EXDEV'), copy: failing('ENOSPC') }, 'STORAGE_FULL'],
    [{ link: failing('ENOSPC') }, 'STORAGE_FULL'],
    [{ write: failing('ENOSPC') }, 'STORAGE_FULL'],
    [{ write: failing('EDQUOT') }, 'STORAGE_FULL'],
    [{ sync: failing('EIO') }, 'IO_ERROR'],
    [{ sync: (path) => (path.endsWith('data.mdb') ? failing('EIO')() : realDisk.sync(path)) }, 'IO_ERROR'],
    [{ sync: (path) => (existsSync(join(path, MANIFEST_FILE)) ? failing('EIO')() : realDisk.sync(path)) }, 'IO_ERROR'],
    [{ link: failing('EACCES') }, 'INVALID_REQUEST'],
  ]
  for (const [faults, code] of cases) {
    await t.rejects(onDisk(engine, faults).create(join(root, 'b')), { code })
    t.same(readdirSync(root), [], 'nothing is left')
    t.same(await rowsOf(engine, 'm'), expected)
  }
  const good = await engine.backup.create(join(root, 'b'))
  for (const [faults, code] of cases.filter(([{ sync }]) => sync === undefined)) {
    await t.rejects(onDisk(engine, faults).create(join(root, 'b')), { code })
    t.same(await engine.backup.verify(join(root, 'b')), good, 'the older one is left')
    t.same(readdirSync(join(root, 'b')).sort(), [MANIFEST_FILE, 'catalog', 'segments'])
  }
  t.same(await engine.backup.create(join(root, 'b')), good, 'and the next attempt works')
  for (const faults of [{ link: failing('EXDEV'), copy: failing('ENOSPC') }, { sync: failing('EIO') }] as Partial<BackupDisk>[]) {
    await t.rejects(onDisk(engine, faults).restore(join(root, 'b'), join(root, 'r')), { code: /STORAGE_FULL|IO_ERROR/ })
    t.same(readdirSync(root), ['b'], 'no half-made target')
  }
  t.same(await rowsOf(engine, 'm'), expected)
  await closeAndRemove(engine, dir, root)
})

t.test('one backup at a time; closing ends it and leaves nothing', async (t) => {
  const dir = tempDir()
  const root = tempDir()
  const engine = await filled(dir)
  let gate = Promise.withResolvers<void>()
  let links = 0
  const slow: Partial<BackupDisk> = {
    link: async (from, to) => {
      links++
      await gate.promise
      await realDisk.link(from, to)
    },
  }
  const backups = onDisk(engine, slow)
  const first = backups.create(join(root, 'a'))
  await until('it is at work', () => links > 0)
  await t.rejects(backups.create(join(root, 'b')), { code: 'CONFLICT', message: /another backup/ })
  await t.rejects(backups.verify(join(root, 'a')), { code: 'CONFLICT', message: /in use/ })
  gate.resolve()
  await first
  gate = Promise.withResolvers()
  links = 0
  const cut = t.rejects(backups.create(join(root, 'c')), { code: 'DATABASE_CLOSED' })
  await until('the next one is at work', () => links > 0)
  const closed = backups.close()
  gate.resolve()
  await closed
  await cut
  t.same(readdirSync(root), ['a'])
  await t.rejects(backups.verify(join(root, 'a')), { code: 'DATABASE_CLOSED' })
  await closeAndRemove(engine, dir, root)
})
