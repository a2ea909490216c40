/** The same random operations on an engine that encrypts every field and on the oracle: as in the conformance suite. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { type MakeEngine, testContext } from '../../conformance/context.ts'
import { FIELDS, randomConfig, randomRun } from '../../conformance/random.ts'
import { EmbeddedEngine } from '../engine.ts'

process.env.SVC_TEST_RANDOM_KEY = Buffer.alloc(32, 3).toString('base64')
const settings = {
  memtable_flush_threshold: 65_536,
  wal_max_file_size: 65_536,
  wal_max_unflushed: 1,
  compaction_fan_in: 2,
  maintenance_interval_secs: 1,
  deleted_rows_rewrite_secs: 0,
  field_encryption: { columns: Object.fromEntries(FIELDS.map((field) => [field, 'k'])), keys: { k: 'SVC_TEST_RANDOM_KEY' } },
}

/** The budget of series has rules of its own, which have nothing to do with encryption. */
const CONFIG = { ...randomConfig, max_series_cardinality: 1_000_000 }

const make: MakeEngine = async (config, now) => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-encrypted-'))
  const open = async (): Promise<EmbeddedEngine> => {
    const made = new EmbeddedEngine(testContext({ ...config, ...settings, data_dir: dir }, now))
    await made.open()
    const plain = made.measurements.bind(made)
    // The oracle has no encrypted fields.
    made.measurements = (namespace) => plain(namespace).map((info) => ({ ...info, fields: info.fields.map(({ encrypted: _, ...field }) => field) }))
    return made
  }
  let engine = await open()
  return {
    get engine() {
      return engine
    },
    async reopen() {
      await engine.close()
      engine = await open()
      return engine
    },
    settle: () => engine.tidy(),
    async dispose() {
      await engine.close()
      rmSync(dir, { recursive: true })
    },
  }
}

t.setTimeout(300_000)
const { SVC_SEED, SVC_SEEDS, SVC_STEPS } = process.env
const seeds = SVC_SEED === undefined ? Array.from({ length: Number(SVC_SEEDS ?? 2) }, (_, i) => 7000 + i) : [Number(SVC_SEED)]
for (const seed of seeds) {
  t.test(`SVC_SEED=${seed}`, { timeout: 300_000 }, async (t) => {
    const { points, compared } = await randomRun(make, seed, Number(SVC_STEPS ?? 60), CONFIG)
    t.ok(points > 0 && compared > 0, `${points} points written, ${compared} rows compared`)
  })
}
