import { readdirSync, rmSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type FileSystem, realFileSystem } from '../common/log/file-system.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from './testing/harness.ts'

/** The real file system, but for what `faults` replaces. */
const withFaults = (faults: Partial<FileSystem>): FileSystem => ({ ...realFileSystem, ...faults })

t.test('a full disk: the write answers STORAGE_FULL, never appears, and writes resume by themselves', async (t) => {
  const dir = tempDir()
  let full = false
  const fs = withFaults({
    write: (fd, bytes, offset, length, position, done) => {
      if (!full) return realFileSystem.write(fd, bytes, offset, length, position, done)
      // A full disk often takes the first part.
      realFileSystem.write(fd, bytes, offset, Math.min(20, length), position, () => done(Object.assign(new Error('no space'), { code: 'ENOSPC' }), 0))
    },
  })
  const engine = await openEngine(dir, {}, fs)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  full = true
  const failed = [
    writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 }),
    writeFloat(engine, 'm', 'new', NOW, { w: 3 }),
    writeFloat(engine, 'other', 'a', NOW, { v: 4 }),
  ]
  for (const write of failed) await t.rejects(write, { code: 'STORAGE_FULL' })
  t.match(engine.status(), { accepting: true }, 'ready all the same')
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`], 'reads go on')
  t.match(await engine.measurements(''), [{ name: 'm', fields: [{ name: 'v', type: 'float64' }] }], 'what the failed writes defined is gone')
  t.equal((await engine.measurements('')).length, 1)
  full = false
  await writeFloat(engine, 'm', 'new', NOW + 2n, { w: 5 })
  const expected = [`a ${NOW} v=1`, `new ${NOW + 2n} w=5`]
  t.same(await rowsOf(engine, 'm'), expected)
  const copy = crashCopy(dir)
  const recovered = await openEngine(copy)
  t.same(await rowsOf(recovered, 'm'), expected, 'the same after a crash')
  await closeAndRemove(recovered, copy)
  await closeAndRemove(engine, dir)
})

t.test('a failed fsync refuses every later write; a restart has what was acknowledged', async (t) => {
  const dir = tempDir()
  let fail = false
  const fs = withFaults({
    fdatasync: (fd, done) => (fail ? done(Object.assign(new Error('input/output error'), { code: 'EIO' })) : realFileSystem.fdatasync(fd, done)),
  })
  const engine = await openEngine(dir, {}, fs)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  fail = true
  await t.rejects(writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 }), { code: 'OVERLOADED', message: /restart/ })
  fail = false
  await t.rejects(writeFloat(engine, 'm', 'a', NOW + 2n, { v: 3 }), { code: 'OVERLOADED' }, 'no later acknowledgement')
  t.match(engine.status(), { accepting: false, reason: /write-ahead log failed/ })
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`], 'reads go on')
  await engine.close()
  const again = await openEngine(dir)
  t.same(await rowsOf(again, 'm'), [`a ${NOW} v=1`], 'exactly what was acknowledged')
  await writeFloat(again, 'm', 'a', NOW + 3n, { v: 4 })
  await closeAndRemove(again, dir)
})

t.test('an fsync that finds no space is a failed fsync: writes do not resume by themselves, and the answer does not say so', async (t) => {
  const dir = tempDir()
  let fail = false
  const fs = withFaults({
    fdatasync: (fd, done) => (fail ? done(Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })) : realFileSystem.fdatasync(fd, done)),
  })
  const engine = await openEngine(dir, {}, fs)
  fail = true
  await t.rejects(writeFloat(engine, 'm', 'a', NOW, { v: 1 }), { code: 'OVERLOADED', message: /restart/ })
  await closeAndRemove(engine, dir)
})

t.test('a start on a full disk answers reads, and writes as soon as there is space', async (t) => {
  const dir = tempDir()
  const first = await openEngine(dir)
  await writeFloat(first, 'm', 'a', NOW, { v: 1 })
  await first.close()
  let full = true
  const noSpace = (): never => {
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
  }
  const fs = withFaults({ writeSync: (fd, bytes) => (full ? noSpace() : realFileSystem.writeSync(fd, bytes)) })
  const engine = await openEngine(dir, {}, fs)
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=1`])
  await t.rejects(writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 }), { code: 'STORAGE_FULL' })
  full = false
  await writeFloat(engine, 'm', 'a', NOW + 2n, { v: 3 })
  full = true
  await t.rejects(engine.flush(), { code: 'STORAGE_FULL' }, 'a flush that cannot begin says so')
  full = false
  const copy = crashCopy(dir)
  await closeAndRemove(engine, dir)
  const again = await openEngine(copy)
  t.same(await rowsOf(again, 'm'), [`a ${NOW} v=1`, `a ${NOW + 2n} v=3`])
  await closeAndRemove(again, copy)
})

t.test('short writes and interrupted calls are carried on', async (t) => {
  const dir = tempDir()
  let calls = 0
  const fs = withFaults({
    write: (fd, bytes, offset, length, position, done) => {
      if (++calls % 3 === 0) return done(Object.assign(new Error('interrupted'), { code: calls % 2 === 0 ? 'EINTR' : 'EAGAIN' }), 0)
      realFileSystem.write(fd, bytes, offset, Math.min(length, 7), position, done)
    },
  })
  const engine = await openEngine(dir, {}, fs)
  for (let i = 0; i < 5; i++) await writeFloat(engine, 'm', 'a', NOW + BigInt(i), { v: i })
  const copy = crashCopy(dir)
  await closeAndRemove(engine, dir)
  const again = await openEngine(copy)
  t.equal((await rowsOf(again, 'm')).length, 5)
  await closeAndRemove(again, copy)
})

t.test('a disk that takes no byte of a write is full', async (t) => {
  const dir = tempDir()
  let full = false
  const fs = withFaults({
    write: (fd, bytes, offset, length, position, done) => (full ? done(null, 0) : realFileSystem.write(fd, bytes, offset, length, position, done)),
  })
  const engine = await openEngine(dir, {}, fs)
  full = true
  await t.rejects(writeFloat(engine, 'm', 'a', NOW, { v: 1 }), { code: 'STORAGE_FULL' })
  full = false
  await writeFloat(engine, 'm', 'a', NOW, { v: 2 })
  t.same(await rowsOf(engine, 'm'), [`a ${NOW} v=2`])
  await closeAndRemove(engine, dir)
})

t.test('writes that wait for a slow disk are bounded like those in memtables', async (t) => {
  const dir = tempDir()
  const held: (() => void)[] = []
  let slow = false
  const fs = withFaults({
    fdatasync: (fd, done) => (slow ? void held.push(() => realFileSystem.fdatasync(fd, done)) : realFileSystem.fdatasync(fd, done)),
  })
  const engine = await openEngine(dir, { max_memtable_memory: 4 << 20, memtable_flush_threshold: 4 << 20 }, fs)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  slow = true
  const waiting: Promise<unknown>[] = []
  let refused: unknown
  let taken = 0
  for (let i = 0; refused === undefined && i < 10_000; i++) {
    const write = writeFloat(engine, 'm', `host ${i} ${'x'.repeat(2000)}`, NOW, { v: i })
    const settled = write.then(
      () => taken++,
      (error) => {
        refused = error
      },
    )
    waiting.push(settled)
    if (i % 100 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  t.match(refused, { code: 'BACKPRESSURE' })
  slow = false
  for (const go of held.splice(0)) go()
  await Promise.all(waiting)
  await writeFloat(engine, 'm', 'a', NOW + 1n, { v: 2 })
  t.equal((await rowsOf(engine, 'm')).length, taken + 2, 'all that were taken, none that was refused')
  await closeAndRemove(engine, dir)
})

t.test('a clean stop leaves nothing to replay', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await engine.close()
  await engine.close()
  t.same(readdirSync(join(dir, 'wal')), [])
  const again = await openEngine(dir)
  t.same(await rowsOf(again, 'm'), [`a ${NOW} v=1`])
  await closeAndRemove(again, dir)
})

t.test('a data directory is opened by one process', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  await t.rejects(openEngine(dir), { code: 'CONFIG_ERROR', message: /process \d+ has it open/ })
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await closeAndRemove(engine, dir)
})

t.test('a missing or shortened segment stops the start and is named', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir)
  await writeFloat(engine, 'm', 'a', NOW, { v: 1 })
  await engine.close()
  const [file] = readdirSync(join(dir, 'segments'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.parquet'))
  unlinkSync(join(dir, 'segments', file))
  await t.rejects(openEngine(dir), { code: 'DATABASE_ERROR', message: new RegExp(file.replace(/.*\//, '')) })
  rmSync(dir, { recursive: true })
})

for (const policy of ['per_write', 'per_batch', 'periodic_50']) {
  t.test(`wal_fsync_policy ${policy}: concurrent writes are there after a crash`, async (t) => {
    const dir = tempDir()
    const engine = await openEngine(dir, { wal_fsync_policy: policy, wal_max_file_size: 65_536, wal_max_unflushed: 2 })
    await Promise.all(Array.from({ length: 400 }, (_, i) => writeFloat(engine, 'm', `h${i % 7}`, NOW + BigInt(i), { v: i, w: i / 3 })))
    const copy = crashCopy(dir)
    const again = await openEngine(copy)
    t.equal((await rowsOf(again, 'm')).length, 400)
    await closeAndRemove(again, copy)
    await closeAndRemove(engine, dir)
  })
}
