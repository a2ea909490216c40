/** Log files that are kept for readers of changes, on a volume that has no space until they are gone. */
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import t, { type Test } from 'tap'
import { eventually } from '../../../test/support/until.ts'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { follow } from '../../conformance/follow.ts'
import type { EmbeddedEngine } from '../engine.ts'
import { walFileSequence } from '../paths.ts'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

/** A volume on which new files of the log find no space while it is full; the first file of before that goes gives some back. */
class FullVolume {
  full = false
  readonly fs: FileSystem
  private before: string[] = []

  constructor() {
    this.fs = {
      ...realFileSystem,
      writeSync: (fd, bytes) => {
        if (this.full) throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
        return realFileSystem.writeSync(fd, bytes)
      },
      unlinkSync: (path) => {
        realFileSystem.unlinkSync(path)
        if (this.before.includes(basename(path))) this.full = false
      },
    }
  }

  fill(dir: string): void {
    this.before = logsOf(dir)
    this.full = true
  }
}

const logsOf = (dir: string): string[] => readdirSync(join(dir, 'wal')).sort()

const config = { maintenance_interval_secs: 3600, compaction_fan_in: 64, compaction_max_backlog: 64 }

/** An engine with three log files that the database itself does not need. */
async function followed(t: Test, { fs }: FullVolume): Promise<{ engine: EmbeddedEngine; dir: string }> {
  const dir = tempDir()
  const engine = await openEngine(dir, config, fs)
  const follower = follow(engine)
  for (const i of [0n, 1n, 2n]) {
    await writeFloat(engine, 'm', 'a', NOW + i, { v: 1, w: 1 })
    await engine.flush()
  }
  await follower.until(3)
  await follower.stop()
  t.ok(logsOf(dir).length >= 3, 'they stay for readers that come back')
  return { engine, dir }
}

/** Nothing is left below the newest file. */
const onlyNewest = (t: Test, dir: string, newest: number): boolean => t.same(logsOf(dir).map(walFileSequence), [newest])

t.test('a start on a full volume gives them up, and writes go on', async (t) => {
  const volume = new FullVolume()
  const { engine, dir } = await followed(t, volume)
  await engine.close()
  t.ok(logsOf(dir).length >= 3)
  volume.fill(dir)
  const again = await openEngine(dir, config, volume.fs)
  // Until then the first write may find none.
  await writeFloat(again, 'm', 'a', NOW + 3n, { v: 2, w: 2 }).catch((error) => t.match(error, { code: 'STORAGE_FULL' }))
  await writeFloat(again, 'm', 'a', NOW + 4n, { v: 3, w: 3 })
  t.ok((await rowsOf(again, 'm')).includes(`a ${NOW + 4n} v=3 w=3`))
  onlyNewest(t, dir, inside(again).wal.file)
  await closeAndRemove(again, dir)
})

t.test('so does a flush that finds no space for a new log file', async (t) => {
  const volume = new FullVolume()
  const { engine, dir } = await followed(t, volume)
  await writeFloat(engine, 'm', 'a', NOW + 3n, { v: 2, w: 2 })
  volume.fill(dir)
  await t.rejects(engine.flush(), { code: 'STORAGE_FULL' })
  onlyNewest(t, dir, inside(engine).wal.file)
  await engine.flush()
  await closeAndRemove(engine, dir)
})

/** What the maintenance thread says while files of the log take its space. */
const noSpace = () => new SvcError('STORAGE_FULL', 'no space for a segment')

t.test('so does one that finds no space for its segments', async (t) => {
  const { engine, dir } = await followed(t, new FullVolume())
  const { pool, wal } = inside(engine)
  const flush = pool.flush.bind(pool)
  pool.flush = async (...args) => {
    if (logsOf(dir).length > 2) throw noSpace()
    return flush(...args)
  }
  await writeFloat(engine, 'm', 'a', NOW + 3n, { v: 2, w: 2 })
  await t.rejects(engine.flush(), { code: 'STORAGE_FULL' })
  // The one before the newest has the rows that are to be flushed.
  t.same(logsOf(dir).map(walFileSequence), [wal.file - 1, wal.file])
  await engine.flush()
  await closeAndRemove(engine, dir)
})

t.test('and a merge', async (t) => {
  const { engine, dir } = await followed(t, new FullVolume())
  const { config, pool, maintenance, segments, wal } = inside(engine)
  const compact = pool.compact.bind(pool)
  pool.compact = async (...args) => {
    if (logsOf(dir).length > 1) throw noSpace()
    return compact(...args)
  }
  config.compaction_fan_in = 2
  await engine.tidy()
  await maintenance.settled()
  onlyNewest(t, dir, wal.file)
  await engine.tidy()
  await maintenance.settled()
  await eventually(() => segments.all().length < 3)
  await closeAndRemove(engine, dir)
})
