import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { conformance, type MakeEngine, testContext } from '../conformance/index.ts'
import { EmbeddedEngine } from './engine.ts'

const make =
  (settings: Record<string, unknown>): MakeEngine =>
  async (config, now) => {
    const dir = mkdtempSync(join(tmpdir(), 'svc-embedded-'))
    const create = () => new EmbeddedEngine(testContext({ ...config, ...settings, data_dir: dir }, now))
    let engine = create()
    await engine.open()
    return {
      get engine() {
        return engine
      },
      async reopen() {
        await engine.close()
        engine = create()
        await engine.open()
        return engine
      },
      settle: () => engine.tidy(),
      async dispose() {
        await engine.close()
        rmSync(dir, { recursive: true })
      },
    }
  }

conformance('embedded', make({}))
// Flushes and merges all the time.
conformance(
  'embedded, restless',
  make({ memtable_flush_threshold: 65_536, wal_max_file_size: 65_536, wal_max_unflushed: 1, compaction_fan_in: 2, maintenance_interval_secs: 1 }),
)
