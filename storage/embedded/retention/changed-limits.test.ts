/** Settings that another configuration changes between two starts, after a clean end and after a crash: what was acknowledged and what is pending stays as it is. */
import { rmSync } from 'node:fs'
import t, { type Test } from 'tap'
import { testContext } from '../../conformance/index.ts'
import { lines, str, write } from '../../conformance/points.ts'
import { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW, NOW_MS, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

t.setTimeout(300_000)
const HOUR = 3_600_000_000_000n
const DAY_MS = 86_400_000
const QUIET = { maintenance_interval_secs: 3600 }

class Node {
  engine!: EmbeddedEngine
  readonly clock = { ms: NOW_MS }
  private dir = tempDir()

  async open(config: Record<string, unknown>): Promise<this> {
    this.engine = new EmbeddedEngine(testContext({ ...QUIET, ...config, data_dir: this.dir }, () => this.clock.ms))
    await this.engine.open()
    await this.engine.tidy()
    return this
  }

  async again(config: Record<string, unknown>, crash: boolean): Promise<void> {
    const copy = crash ? crashCopy(this.dir) : undefined
    await this.engine.close()
    if (copy !== undefined) {
      rmSync(this.dir, { recursive: true })
      this.dir = copy
    }
    await this.open(config)
  }

  close(): Promise<void> {
    return closeAndRemove(this.engine, this.dir)
  }
}

async function start(t: Test, config: Record<string, unknown>): Promise<Node> {
  const node = await new Node().open(config)
  t.teardown(() => node.close())
  return node
}

const LOWER = {
  ooo_shard_tolerance: 0,
  shard_duration_secs: 60,
  future_write_tolerance_secs: 0,
  max_series_cardinality: 2,
  max_fields_per_measurement: 1,
  max_tags_per_series: 1,
  max_name_bytes: 16,
  max_tag_value_bytes: 16,
  max_string_bytes: 10,
}

for (const crash of [false, true])
  t.test(`limits that are lower than what is stored refuse nothing of it: ${crash ? 'a crash' : 'a clean end'}`, async (t) => {
    const node = await start(t, { ooo_shard_tolerance: 100 })
    const points = Array.from({ length: 6 }, (_, i) => ({
      measurement: 'a measurement with a long name',
      tags: { host: `host ${'x'.repeat(30)} ${i}`, rack: 'r' },
      time: NOW + HOUR - BigInt(i * 19) * HOUR,
      fields: { first: str('x'.repeat(100)), second: str('y') },
    }))
    for (const point of points) t.match(await write(node.engine, [point]), { written: 1 })
    const request = { measurement: points[0].measurement }
    const rows = await lines(node.engine, request)
    t.equal(rows.length, 6)
    await node.again(LOWER, crash)
    t.same(await lines(node.engine, request), rows)
    await node.engine.flush()
    t.same(await lines(node.engine, request), rows)
    t.match(
      await write(node.engine, [{ ...points[0], time: NOW, tags: { host: 'new' }, fields: { first: str('x') } }]).catch((error: Error) => error),
      {},
      'what is new is judged',
    )
    await node.again({}, crash)
    t.same((await lines(node.engine, request)).slice(0, 6), rows)
  })

for (const crash of [false, true])
  t.test(`a pending drop has the deadline it was made with: ${crash ? 'a crash' : 'a clean end'}`, async (t) => {
    const node = await start(t, { soft_delete_ttl_secs: 86_400 })
    await writeFloat(node.engine, 'cpu', 'a', NOW, { v: 1 })
    const rows = await rowsOf(node.engine, 'cpu')
    /** Time goes by for the data too. */
    const advance = async (ms: number) => {
      node.clock.ms = NOW_MS + ms
      await writeFloat(node.engine, 'clock', 'a', BigInt(node.clock.ms) * 1_000_000n, { v: 1 })
      await node.engine.tidy()
    }
    for (const later of [{}, { soft_delete_ttl_secs: 1 }, { soft_delete_ttl_secs: 86_400_000 }]) {
      await node.engine.drop('', 'cpu')
      await node.again(later, crash)
      await advance(DAY_MS - 1)
      await node.again(later, crash)
      t.same(await rowsOf(node.engine, 'cpu'), [])
      await node.engine.restore('', 'cpu')
      t.same(await rowsOf(node.engine, 'cpu'), rows, JSON.stringify(later))
      node.clock.ms = NOW_MS
      await node.again({ soft_delete_ttl_secs: 86_400 }, crash)
    }
    await advance(DAY_MS)
    await node.engine.drop('', 'cpu')
    await node.again({}, crash)
    await advance(2 * DAY_MS)
    await t.rejects(node.engine.restore('', 'cpu'), { code: 'NOT_FOUND' }, 'it ends when its time has come, whatever is configured by then')
  })
