/** A retention that another configuration changes between two starts: its old boundary is neither in force any more nor in anybody's way. */
import { rmSync } from 'node:fs'
import t, { type Test } from 'tap'
import type { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

t.setTimeout(180_000)
const HOUR = 3_600_000_000_000n
const DAY = 24n * HOUR
const QUIET = { maintenance_interval_secs: 3600 }
const BEFORE = { ...QUIET, retention_secs: 2 * 3600 }
/** Rows of one field lie in a table shared by many measurements, rows of two in one of their own. */
const TABLES: Record<string, Record<string, number>> = { 'a table of its own': { v: 1, w: 2 }, 'a shared table': { v: 1 } }

class Node {
  engine!: EmbeddedEngine
  dir = tempDir()

  async open(config: Record<string, unknown>): Promise<this> {
    this.engine = await openEngine(this.dir, config)
    return this
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
