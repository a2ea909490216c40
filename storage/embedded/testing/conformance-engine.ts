/** The embedded engine as the conformance suite takes it. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { type MakeEngine, testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { crashCopy, tempDir } from './harness.ts'

/** How an engine comes to be opened again: after a clean end, or on what a crash at this moment would leave. */
export type Ending = 'closed' | 'crashed'

/** Flushes and merges all the time. */
export const RESTLESS = {
  memtable_flush_threshold: 65_536,
  wal_max_file_size: 65_536,
  wal_max_unflushed: 1,
  compaction_fan_in: 2,
  maintenance_interval_secs: 1,
  deleted_rows_rewrite_secs: 0,
}

/** @param prepare is handed each engine before it is used. */
export const embedded =
  (settings: Record<string, unknown>, ending: Ending, prepare: (engine: EmbeddedEngine) => void = () => {}): MakeEngine =>
  async (config, now) => {
    const root = tempDir()
    let life = 0
    const dirOf = (n: number) => join(root, String(n))
    const create = () => {
      const made = new EmbeddedEngine(testContext({ ...config, ...settings, data_dir: dirOf(life) }, now))
      prepare(made)
      return made
    }
    let engine = create()
    await engine.open()
    return {
      get engine() {
        return engine
      },
      async reopen() {
        const before = engine
        if (ending === 'closed') await before.close()
        else {
          crashCopy(dirOf(life), dirOf(life + 1))
          life++
        }
        engine = create()
        await engine.open()
        if (ending === 'crashed') {
          await before.close()
          rmSync(dirOf(life - 1), { recursive: true })
        }
        return engine
      },
      settle: () => engine.tidy(),
      async dispose() {
        await engine.close()
        rmSync(root, { recursive: true })
      },
    }
  }
