/** A retention that another configuration changes between two starts: its old boundary is neither in force any more nor in anybody's way. */
import { rmSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { COLD, opened, writeDays } from '../testing/archiving.ts'
import { inside } from '../testing/catalog-faults.ts'
import { folderStore } from '../testing/folder-store.ts'
import { closeAndRemove, crashCopy, NOW, NOW_MS, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import type { RetentionCutoffs } from '../threads/removals.ts'

t.setTimeout(300_000)
const HOUR = 3_600_000_000_000n
const DAY = 24n * HOUR
const QUIET = { maintenance_interval_secs: 3600 }
const BEFORE = { ...QUIET, retention_secs: 2 * 3600 }
/** Rows of one field lie in a table shared by many measurements, rows of two in one of their own. */
const TABLES: Record<string, Record<string, number>> = { 'a table of its own': { v: 1, w: 2 }, 'a shared table': { v: 1 } }

class Node {
  engine!: EmbeddedEngine
  dir = tempDir()
  readonly clock = { ms: NOW_MS }

  async open(config: Record<string, unknown>): Promise<this> {
    this.engine = new EmbeddedEngine(testContext({ ...config, data_dir: this.dir }, () => this.clock.ms))
    await this.engine.open()
    return this
  }

  /** What is still known of earlier boundaries. */
  get cutoffs(): RetentionCutoffs {
    return inside(this.engine).tombstones.cutoffs
  }

  async restart(config: Record<string, unknown>): Promise<void> {
    await this.engine.close()
    await this.open(config)
    await this.engine.tidy()
  }

  async crash(config: Record<string, unknown>): Promise<void> {
    const copy = crashCopy(this.dir)
    await this.engine.close()
    rmSync(this.dir, { recursive: true })
    this.dir = copy
    await this.open(config)
    await this.engine.tidy()
  }

  async flush(): Promise<void> {
    await this.engine.flush()
    await this.engine.tidy()
  }
}

/** A node whose retention of two hours has removed a shard. */
async function removed(t: Test, fields: Record<string, number>, config: Record<string, unknown> = BEFORE): Promise<Node> {
  const node = await new Node().open(config)
  t.teardown(() => closeAndRemove(node.engine, node.dir))
  for (const age of [10n * DAY, 0n]) await writeFloat(node.engine, 'cpu', 'a', NOW - age, fields, { backfill: true })
  await node.engine.tidy()
  await node.flush()
  t.equal((await rowsOf(node.engine, 'cpu')).length, 1)
  return node
}

const AFTER: Record<string, Record<string, unknown>> = {
  'without the key': QUIET,
  'with a longer one': { ...QUIET, retention_secs: 30 * 86_400 },
  'with a longer one for the measurement': { ...QUIET, retention_secs: 2 * 3600, retention: { late: 30 * 86_400 } },
}

for (const [table, fields] of Object.entries(TABLES))
  for (const [name, config] of Object.entries(AFTER))
    t.test(`what is acknowledged after a restart ${name} stays: ${table}`, async (t) => {
      const node = await removed(t, fields)
      await node.restart(config)
      t.match(await writeFloat(node.engine, 'late', 'a', NOW - 3n * DAY, fields, { backfill: true }), { written: 1 })
      const rows = await rowsOf(node.engine, 'late')
      t.equal(rows.length, 1)
      const stays = async (when: string) => t.same(await rowsOf(node.engine, 'late'), rows, when)
      await node.engine.tidy()
      await stays('after a pass')
      await node.flush()
      await stays('after a flush')
      await node.crash(config)
      await stays('after a crash')
      await node.restart(config)
      await stays('after a restart')
      t.equal((await rowsOf(node.engine, 'cpu')).length, 1, 'and nothing comes back')
    })

t.test('what is acknowledged after a restart without the retention of a measurement stays', async (t) => {
  const node = await removed(t, { v: 1 }, { ...QUIET, retention: { cpu: 2 * 3600 } })
  await node.restart(QUIET)
  t.match(await writeFloat(node.engine, 'cpu', 'b', NOW - 3n * DAY, { v: 7 }, { backfill: true }), { written: 1 })
  const rows = await rowsOf(node.engine, 'cpu')
  t.equal(rows.length, 2)
  await node.flush()
  t.same(await rowsOf(node.engine, 'cpu'), rows)
  await node.crash(QUIET)
  t.same(await rowsOf(node.engine, 'cpu'), rows)
})

t.test('a boundary that a wrong clock left in the future masks what was written before it, and nothing of what comes', async (t) => {
  const node = await removed(t, { v: 1 })
  node.clock.ms = NOW_MS + 10 * 365 * 86_400_000
  const ahead = BigInt(node.clock.ms) * 1_000_000n
  t.match(await writeFloat(node.engine, 'cpu', 'a', ahead, { v: 3 }), { written: 1 })
  await node.engine.tidy()
  t.same(await rowsOf(node.engine, 'cpu'), [`a ${ahead} v=3`], 'by that clock all else is old')
  node.clock.ms = NOW_MS + 60_000
  t.match(await writeFloat(node.engine, 'cpu', 'a', NOW + 1n, { v: 4 }), { written: 1 })
  const rows = [`a ${NOW + 1n} v=4`, `a ${ahead} v=3`]
  await node.flush()
  t.same(await rowsOf(node.engine, 'cpu'), rows, 'after a flush')
  await node.crash(BEFORE)
  t.same(await rowsOf(node.engine, 'cpu'), rows, 'after a crash')
  await node.restart(BEFORE)
  t.same(await rowsOf(node.engine, 'cpu'), rows, 'after a restart')
})

for (const [table, fields] of Object.entries(TABLES))
  t.test(`a boundary goes when no file is left that it concerns: ${table}`, async (t) => {
    const config = { ...QUIET, retention_secs: 5 * 3600, retention: { audit: 0, brief: 2 * 3600 } }
    const node = await new Node().open(config)
    t.teardown(() => closeAndRemove(node.engine, node.dir))
    // Less than half of the files is behind it: no other reason to write them again.
    for (const age of [6n, 4n, 3n, 1n, 0n])
      for (const name of ['cpu', 'brief', 'audit']) await writeFloat(node.engine, name, 'a', NOW - age * HOUR, fields, { backfill: true })
    await node.flush()
    const rows = async () => [await rowsOf(node.engine, 'cpu'), await rowsOf(node.engine, 'brief'), await rowsOf(node.engine, 'audit')]
    const kept = await rows()
    t.same(
      kept.map(({ length }) => length),
      [4, 2, 5],
    )
    t.ok(node.cutoffs.general.length > 0 && node.cutoffs.own.size > 0)
    await node.restart({ ...QUIET, deleted_rows_rewrite_secs: 0 })
    for (let tries = 0; node.cutoffs.general.length + node.cutoffs.own.size > 0; tries++) {
      if (tries === 300)
        throw new Error(
          `it stays: ${JSON.stringify([node.cutoffs.general, ...node.cutoffs.own], (_, value) => (typeof value === 'bigint' ? String(value) : value))}`,
        )
      await setTimeout(20)
      await node.engine.tidy()
    }
    t.same(await rows(), kept)
    await node.engine.tidy()
    await node.crash(QUIET)
    t.same([node.cutoffs.general.length, node.cutoffs.own.size], [0, 0], 'the catalog has forgotten it too')
    t.same(await rows(), kept)
    await node.restart(config)
    await node.flush()
    t.same(await rows(), kept)
  })

t.test('archived segments: what a longer retention keeps of them stays, what an earlier one masked does not come back', async (t) => {
  const folder = tempDir()
  const open = async (days: number): Promise<EmbeddedEngine> => {
    const engine = await opened(dir, folderStore(folder), days === 0 ? {} : { retention_secs: days * 86_400 })
    await engine.tidy()
    return engine
  }
  const dir = tempDir()
  let engine = await open(0)
  t.teardown(() => closeAndRemove(engine, dir, folder))
  await writeDays(engine, 16, 12)
  await writeDays(engine, 0, 0)
  await engine.flush()
  await engine.archive.run(COLD)
  const before = await rowsOf(engine, 'cpu')
  await engine.close()
  engine = await open(14)
  const left = await rowsOf(engine, 'cpu')
  t.ok(left.length < before.length)
  await engine.close()
  engine = await open(0)
  t.same(await rowsOf(engine, 'cpu'), left)
  await writeDays(engine, 16, 16, 5)
  const more = await rowsOf(engine, 'cpu')
  t.equal(more.length, left.length + 5)
  await engine.flush()
  await engine.archive.run(COLD)
  t.same(await rowsOf(engine, 'cpu'), more, 'of the same day, archived as well')
  await engine.close()
  engine = await open(30)
  await engine.archive.run(COLD)
  t.same(await rowsOf(engine, 'cpu'), more)
})
