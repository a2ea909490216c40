import { globSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { testContext } from '../../conformance/index.ts'
import type { KeptLogs } from '../changes/kept-logs.ts'
import { EmbeddedEngine } from '../engine.ts'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, NOW, NOW_MS, tempDir, writeFloat } from '../testing/harness.ts'

t.test('a pass whose own record finds no space in the log removes what is free, and says what failed', async (t) => {
  const dir = tempDir()
  const clock = { ms: NOW_MS }
  let full = false
  const fs: FileSystem = {
    ...realFileSystem,
    write: (fd, bytes, offset, length, position, done) => {
      if (full) done(Object.assign(new Error('no space'), { code: 'ENOSPC' }), 0)
      else realFileSystem.write(fd, bytes, offset, length, position, done)
    },
  }
  const config = { data_dir: dir, maintenance_interval_secs: 3600, soft_delete_ttl_secs: 3600 }
  const engine = new EmbeddedEngine(
    testContext(config, () => clock.ms),
    { fs },
  )
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  for (const measurement of ['deleted', 'dropped']) await writeFloat(engine, measurement, 'a', NOW, { v: 1, w: 1 })
  await engine.flush()
  await engine.drop('', 'dropped')
  const { segments, maintenance } = inside(engine)
  // As long as a merge reads it, it stays.
  const release = segments.claim(segments.all().filter(({ table }) => table === segments.all()[0].table)) as () => void
  await engine.delete({ namespace: '', measurement: 'deleted' })
  await engine.tidy()
  release()
  const files = (): number => globSync('**/*.parquet', { cwd: join(dir, 'segments') }).length
  t.equal(files(), 2)
  clock.ms += 7_200_000
  await writeFloat(engine, 'clock', 'a', BigInt(clock.ms) * 1_000_000n, { v: 1, w: 1 })
  full = true
  let expired = 0
  const { logs } = (maintenance as unknown as { dependencies: { logs: KeptLogs } }).dependencies
  const expire = logs.expire.bind(logs)
  logs.expire = () => {
    expired++
    expire()
  }
  await t.rejects(engine.tidy(), { code: 'STORAGE_FULL' })
  await until('the file is gone', () => files() === 1, 20_000)
  t.equal(expired, 1, 'so do log files that are too old')
  full = false
  await engine.tidy()
  await until('so is that of the drop', () => files() === 0, 20_000)
})
