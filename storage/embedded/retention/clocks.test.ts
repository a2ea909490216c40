/** The engine while the wall clock is wrong: an hour back, ten years ahead, a second twice; over memtable and segments, after clean ends and crashes. */
import { rmSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { realFileSystem } from '../../common/log/file-system.ts'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, crashCopy, NOW, NOW_MS, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

t.setTimeout(180_000)
const SEC_MS = 1000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const YEARS_MS = 10 * 365 * DAY_MS
const HOUR = 3_600_000_000_000n
const ns = (ms: number): bigint => BigInt(ms) * 1_000_000n
const clock = { ms: NOW_MS }

// What asks the system and not the engine's clock sees the same wrong time.
const systemNow = Date.now
Date.now = () => clock.ms
t.teardown(() => {
  Date.now = systemNow
})
t.beforeEach(() => {
  clock.ms = NOW_MS
})

class Node {
  engine!: EmbeddedEngine
  private dir = tempDir()
  private readonly config: Record<string, unknown>

  constructor(config: Record<string, unknown>) {
    this.config = config
  }

  async open(fs = realFileSystem): Promise<this> {
    this.engine = new EmbeddedEngine(
      testContext({ ...this.config, data_dir: this.dir }, () => clock.ms),
      { fs },
    )
    await this.engine.open()
    return this
  }

  /** What a pass of maintenance does at the present time, with the rows in memtables and in segments, after a clean end and after a crash. */
  async *stages(): AsyncGenerator<string> {
    await this.engine.tidy()
    yield 'at once'
    await this.engine.flush()
    await this.engine.tidy()
    yield 'after a flush'
    await this.engine.close()
    await this.open()
    await this.engine.tidy()
    yield 'after a restart'
    const copy = crashCopy(this.dir)
    await this.close()
    this.dir = copy
    await this.open()
    await this.engine.tidy()
    yield 'after a crash'
  }

  close(): Promise<void> {
    return closeAndRemove(this.engine, this.dir)
  }
}

async function start(t: Test, config: Record<string, unknown>): Promise<Node> {
  const node = await new Node(config).open()
  t.teardown(() => node.close())
  return node
}

const at = (ms: number, measurement: string, node: Node, options = {}) => writeFloat(node.engine, measurement, 'a', ns(ms), { v: 1 }, options)

t.test('soft-delete deadline on the raw wall clock', async (t) => {
  const node = await start(t, { soft_delete_ttl_secs: DAY_MS / SEC_MS })
  await at(NOW_MS, 'cpu', node)
  const rows = await rowsOf(node.engine, 'cpu')
  for (const wrong of [YEARS_MS, -HOUR_MS]) {
    clock.ms = NOW_MS
    await node.engine.drop('', 'cpu')
    clock.ms = NOW_MS + wrong
    for await (const stage of node.stages()) t.same(await rowsOf(node.engine, 'cpu'), [], `${wrong} ms, ${stage}`)
    await node.engine.restore('', 'cpu')
    t.same(await rowsOf(node.engine, 'cpu'), rows, `a clock that is wrong by ${wrong} ms ends nothing`)
  }
  // A drop under a clock that is behind is not over early once it is right.
  clock.ms = NOW_MS - 2 * DAY_MS
  await node.engine.drop('', 'cpu')
  clock.ms = NOW_MS + DAY_MS - 1
  await at(clock.ms, 'clock', node)
  for await (const stage of node.stages()) t.same(await rowsOf(node.engine, 'cpu'), [], stage)
  await node.engine.restore('', 'cpu')
  t.same(await rowsOf(node.engine, 'cpu'), rows)
  await node.engine.drop('', 'cpu')
  clock.ms += DAY_MS
  await at(clock.ms, 'clock', node)
  await node.engine.tidy()
  await t.rejects(node.engine.restore('', 'cpu'), { code: 'NOT_FOUND', message: /grace period has passed/ }, 'clock and data have passed it')
})

t.test('retention keeps what it should while the clock is wrong, and takes what it should when it is right again', async (t) => {
  const node = await start(t, { retention_secs: 4 * 3600, retention: { brief: 2 * 3600 } })
  for (const back of [3n, 2n, 1n, 0n]) await writeFloat(node.engine, 'cpu', 'a', NOW - back * HOUR, { v: Number(back) }, { backfill: true })
  const rows = await rowsOf(node.engine, 'cpu')
  t.equal(rows.length, 4)
  for (const wrong of [YEARS_MS, -HOUR_MS, 0]) {
    clock.ms = NOW_MS + wrong
    for await (const stage of node.stages()) t.same(await rowsOf(node.engine, 'cpu'), rows, `${wrong} ms, ${stage}`)
  }
  clock.ms = NOW_MS + 2 * HOUR_MS
  await at(clock.ms, 'clock', node)
  for await (const stage of node.stages()) t.same(await rowsOf(node.engine, 'cpu'), rows.slice(1), stage)
  // What is gone does not come back, and the cut does not go back with the clock.
  clock.ms = NOW_MS - HOUR_MS
  for await (const stage of node.stages()) t.same(await rowsOf(node.engine, 'cpu'), rows.slice(1), stage)
})

t.test('a second that comes twice loses and merges nothing', async (t) => {
  const node = await start(t, { future_write_tolerance_secs: 1, retention_secs: 3600, soft_delete_ttl_secs: 1 })
  await at(NOW_MS, 'gone', node)
  await node.engine.drop('', 'gone')
  const written: string[] = []
  for (const second of [0, 0, 1])
    for (const ms of [0, 400, 800]) {
      clock.ms = NOW_MS + second * SEC_MS + ms - SEC_MS
      const time = ns(clock.ms) + BigInt(written.length)
      t.match(await writeFloat(node.engine, 'cpu', 'a', time, { v: written.length }), { written: 1, rejected: 0 })
      written.push(`a ${time} v=${written.length}`)
      await node.engine.tidy()
    }
  t.same(await rowsOf(node.engine, 'cpu'), [...written].sort())
  await node.engine.restore('', 'gone')
  t.equal((await rowsOf(node.engine, 'gone')).length, 1, 'its second is not over')
})

t.test('the future bound goes by the clock as it is, and says so', async (t) => {
  const node = await start(t, { future_write_tolerance_secs: 600 })
  clock.ms = NOW_MS - HOUR_MS
  t.match(await at(NOW_MS, 'cpu', node), { written: 0, rejections: [{ code: 'FUTURE_TIMESTAMP', message: /check the sender's clock/ }] })
  clock.ms = NOW_MS
  t.match(await at(NOW_MS, 'cpu', node), { written: 1 })
})

t.test('points that were stamped ten years ahead do not shut out those of today once the clock is right', async (t) => {
  const node = await start(t, {})
  await at(NOW_MS, 'cpu', node)
  clock.ms = NOW_MS + YEARS_MS
  t.match(await at(clock.ms, 'cpu', node), { written: 1 })
  t.match(await at(NOW_MS, 'cpu', node), { written: 0, rejections: [{ code: 'PARTIAL_WRITE' }] }, 'by the wrong clock it is old')
  clock.ms = NOW_MS + SEC_MS
  for await (const stage of node.stages()) {
    clock.ms += SEC_MS
    t.match(await at(clock.ms, 'cpu', node), { written: 1, rejected: 0 }, stage)
  }
  t.equal((await rowsOf(node.engine, 'cpu')).length, 6)
})

t.test('log and memtable are written out on time whatever the clock says', async (t) => {
  let synced = 0
  const fdatasync = (fd: number, done: (error: Error | null) => void): void => {
    synced++
    realFileSystem.fdatasync(fd, done)
  }
  const fs = { ...realFileSystem, fdatasync }
  const node = await new Node({ wal_fsync_policy: 'periodic_20', maintenance_interval_secs: 1, soft_delete_ttl_secs: 1 }).open(fs)
  t.teardown(() => node.close())
  for (const wrong of [-HOUR_MS, YEARS_MS]) {
    clock.ms = NOW_MS + wrong
    const before = synced
    await at(NOW_MS, 'cpu', node, { backfill: true })
    if (wrong < 0) await at(clock.ms, 'cpu', node)
    for (let i = 0; i < 6000 && synced === before; i++) await setTimeout(10)
    t.ok(synced > before, `the log is synced with a clock that is wrong by ${wrong} ms`)
  }
  clock.ms = NOW_MS - HOUR_MS
  await node.engine.flush()
  t.match(await node.engine.explain({ namespace: '', measurement: 'cpu' }), { bufferedRows: 0 })
})

t.test('a directory that was made under one clock opens under another', async (t) => {
  const dir = tempDir()
  t.teardown(() => rmSync(dir, { recursive: true }))
  for (const wrong of [0, YEARS_MS, -YEARS_MS, HOUR_MS]) {
    clock.ms = NOW_MS + wrong
    const engine = new EmbeddedEngine(testContext({ data_dir: dir, deleted_rows_rewrite_secs: 0 }, () => clock.ms))
    await engine.open()
    await writeFloat(engine, `m${wrong}`, 'a', ns(clock.ms), { v: 1 }, { backfill: true })
    await engine.delete({ namespace: '', measurement: 'm0', start: NOW + 1n })
    await engine.tidy()
    t.equal((await rowsOf(engine, 'm0')).length, 1)
    await engine.close()
  }
})
