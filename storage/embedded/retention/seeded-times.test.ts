/** After a start nobody knows which series have rows left, and until when: it is read from the segments, and those without any are given back. */
import { truncateSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { until } from '../../../test/support/until.ts'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { archived } from '../testing/archiving.ts'
import { inside } from '../testing/catalog-faults.ts'
import { folderStore } from '../testing/folder-store.ts'
import { closeAndRemove, NOW, NOW_MS, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'
import { learned } from '../testing/learned.ts'

t.setTimeout(300_000)
const HOUR_MS = 3_600_000
const HOUR = 3_600_000_000_000n
const RETENTION = { retention_secs: 7200, maintenance_interval_secs: 3600, compaction_fan_in: 64 }

class Node {
  readonly dir = tempDir()
  readonly clock = { ms: NOW_MS }
  readonly warnings: string[] = []
  engine!: EmbeddedEngine
  readonly config: Record<string, unknown>

  constructor(config: Record<string, unknown> = {}) {
    this.config = { ...RETENTION, ...config, data_dir: this.dir }
  }

  /** @param before what is done before retention and its friends have run. */
  async restart(before: (engine: EmbeddedEngine) => void = () => {}): Promise<void> {
    await this.engine?.close()
    const context = testContext(this.config, () => this.clock.ms)
    this.engine = new EmbeddedEngine({
      ...context,
      log: { ...context.log, warn: (_: unknown, text: string) => void this.warnings.push(text) } as typeof context.log,
    })
    await this.engine.open()
    before(this.engine)
  }

  async write(hours: number, ...hosts: string[]): Promise<void> {
    for (const host of hosts) await writeFloat(this.engine, 'm', host, NOW + BigInt(hours * 60) * (HOUR / 60n), { v: hours, w: 1 }, { backfill: true })
  }

  /** Time passes, of which only another measurement tells. */
  async tick(hours: number): Promise<void> {
    this.clock.ms = NOW_MS + hours * HOUR_MS
    await writeFloat(this.engine, 'other', 'clock', NOW + BigInt(hours) * HOUR, { v: 1, w: 2 })
  }

  async series(): Promise<number> {
    return (await this.engine.usage('')).series
  }
}

/** Hosts of all live series, sorted. */
function live(engine: EmbeddedEngine): string[] {
  const { index } = inside(engine)
  return Array.from({ length: index.count }, (_, series) => series)
    .filter((series) => index.isLive(series))
    .map((series) => index.tagsOf(series)[1])
    .sort()
}

t.test('a database that is restarted more often than retention passes keeps no series without points', async (t) => {
  const node = new Node({ max_series_cardinality: 5 })
  await node.restart()
  t.teardown(() => closeAndRemove(node.engine, node.dir))
  for (let hour = 0; hour < 8; hour++) {
    node.clock.ms = NOW_MS + hour * HOUR_MS
    await node.write(hour, `pod-${hour}`, 'steady')
    await node.engine.flush()
    await node.restart()
    await learned(node.engine)
  }
  t.same(live(node.engine), ['pod-5', 'pod-6', 'pod-7', 'steady'], 'those with points in the period')
  t.equal(await node.series(), 4)
})

t.test('rows in memtables and segments that are written meanwhile keep their series', async (t) => {
  const node = new Node({ retention_secs: 6 * 3600 })
  await node.restart()
  t.teardown(() => closeAndRemove(node.engine, node.dir))
  await node.write(-5, 'flushed', 'gone', 'late')
  await node.write(0, 'steady')
  let flushed = false
  await node.restart((engine) => {
    const { pool } = inside(engine)
    const { newestRows } = pool
    pool.newestRows = async (task) => {
      if (!flushed) {
        flushed = true
        // Below the time that the start has told: only a segment tells of the first, and a memtable of the other.
        await node.write(-1, 'flushed')
        await engine.flush()
        await node.write(-1, 'late')
      }
      return newestRows.call(pool, task)
    }
  })
  const kept = async (when: string): Promise<void> => {
    t.same([...new Set((await rowsOf(node.engine, 'm')).map((row) => row.split(' ')[0]))], ['flushed', 'late', 'steady'], when)
    t.same(live(node.engine), ['clock', 'flushed', 'late', 'steady'], when)
  }
  await node.tick(2)
  await learned(node.engine)
  t.ok(flushed)
  await kept('in a memtable')
  // So that retention moves.
  await node.write(-3.5, 'steady')
  await node.engine.flush()
  await node.tick(3)
  await node.engine.tidy()
  await kept('when retention has moved on')
  await node.restart()
  await learned(node.engine)
  await kept('after a start')
})

t.test('a segment that cannot be read counts as if it had all series of its range', async (t) => {
  for (const [name, damage] of [
    ['no answer', (engine: EmbeddedEngine) => Object.assign(inside(engine).pool, { newestRows: () => Promise.reject(new Error('cannot read')) })],
    ['found corrupt', (engine: EmbeddedEngine) => Object.assign(inside(engine).scrubber, { isSound: () => false })],
    [
      'cut short while it is served',
      (engine: EmbeddedEngine, dir: string) => {
        for (const { file } of inside(engine).segments.local()) truncateSync(join(dir, file), 10)
      },
    ],
  ] as const) {
    const node = new Node()
    await node.restart()
    await node.write(-1, 'a', 'b', 'c')
    await node.engine.flush()
    // The range of this one has them all.
    await node.write(0, 'a', 'c')
    await node.restart((engine) => void damage(engine, node.dir))
    await node.tick(2)
    await learned(node.engine)
    t.same(live(node.engine), ['a', 'b', 'c', 'clock'], name)
    if (name === 'no answer') t.match(node.warnings.join(), /cannot read which series a segment has/)
    await closeAndRemove(node.engine, node.dir)
  }
})

t.test('archived rows keep their series', async (t) => {
  const node = new Node({ retention_secs: 30 * 86_400 })
  await node.restart()
  const cold = tempDir()
  t.teardown(() => closeAndRemove(node.engine, node.dir, cold))
  const store = folderStore(cold)
  node.engine.archive.attach(store)
  const day = 86_400_000
  await node.write(-24 * 20, 'cold')
  await node.engine.flush()
  await node.write(0, 'steady')
  await node.engine.flush()
  await archived(node.engine)
  t.equal(
    inside(node.engine)
      .segments.all()
      .filter(({ archived }) => archived).length,
    1,
  )
  await node.restart((engine) => engine.archive.attach(store))
  await learned(node.engine)
  t.same(live(node.engine), ['cold', 'steady'])
  t.equal((await rowsOf(node.engine, 'm')).length, 2)
  node.clock.ms += 12 * day
  await node.write(12 * 24, 'steady')
  await learned(node.engine)
  t.same(live(node.engine), ['steady'], 'they have passed')
})

t.test('series of a measurement that was emptied while a decoder held a batch are given back by the next process', async (t) => {
  const node = new Node()
  await node.restart()
  t.teardown(() => closeAndRemove(node.engine, node.dir))
  await node.write(0, 'a')
  await writeFloat(node.engine, 'kept', 'b', NOW, { v: 1 })
  await node.engine.flush()
  node.clock.ms += 5 * HOUR_MS
  const held = node.engine.batch('')
  await writeFloat(node.engine, 'kept', 'b', NOW + 5n * HOUR, { v: 1 })
  await node.engine.tidy()
  t.equal(await node.series(), 2)
  node.engine.recycle(held)
  await node.restart()
  await learned(node.engine)
  t.same(live(node.engine), ['b'])
})

t.test('a database that ends does not wait for it, and one without retention reads nothing', async (t) => {
  const node = new Node()
  await node.restart()
  await node.write(0, 'a')
  let asked = 0
  await node.restart((engine) => {
    inside(engine).pool.newestRows = async () => {
      asked++
      throw new Error('ended')
    }
  })
  await until('it has begun', async () => {
    await node.engine.tidy()
    return asked > 0
  })
  await closeAndRemove(node.engine, node.dir)
  const plain = new Node({ retention_secs: 0 })
  await plain.restart()
  t.teardown(() => closeAndRemove(plain.engine, plain.dir))
  await plain.write(0, 'a')
  asked = 0
  await plain.restart((engine) => {
    inside(engine).pool.newestRows = async () => void asked++
  })
  await learned(plain.engine)
  t.equal(asked, 0)
})
