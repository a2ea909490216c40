/** Values of a chunk's rows are those of its rows, whatever is kept of others meanwhile. */
import t from 'tap'
import { IntList } from '../../memtable/int-list.ts'
import { pushRun } from '../../memtable/runs.ts'
import { TestDatabase, type TestPoint } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import { BlockCache } from './block-cache.ts'
import { ChunkBlocks } from './chunk-blocks.ts'
import { Scratch, ScratchPool } from './scratch.ts'

const START = 1_700_000_000_000_000_000n
const EVERYTHING = [-(2n ** 63n), 2n ** 63n - 1n] as const
/** Rows of the chunk at first, and of the series that is asked for. */
const ROWS = 2

t.test('as many rows of an older snapshot are not taken for those of a few series', (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const measurement = db.measurement('m', { f: 'float64' })
  const [field] = measurement.def.fields
  const rows = (from: number, count: number, host: (i: number) => string): TestPoint[] =>
    Array.from({ length: count }, (_, i) => ({ tags: { host: host(i) }, time: START + BigInt((from + i) * 1_000_000), fields: { f: from + i } }))
  db.write(
    measurement,
    rows(0, ROWS, (i) => `h${i}`),
  )
  const partNow = () => (db.state.snapshotNow() as Snapshot).table(measurement.table.id).memtables[0]
  const older = partNow()
  db.write(
    measurement,
    rows(1000, ROWS, () => 'x'),
  )
  db.write(
    measurement,
    rows(2000, 200, (i) => `h${i % 50}`),
  )
  const newer = partNow()
  t.equal(newer.chunks[0], older.chunks[0], 'the chunk did not have to grow')
  const all = db.state.series.of(measurement.def.id)
  const blocks = new ChunkBlocks(new BlockCache(1 << 20))
  const few = blocks.rows({ part: newer, linked: true }, 0, [field], false, EVERYTHING, Int32Array.of(db.series(measurement, { host: 'x' })), 1)!
  t.equal(few.frame.times.length, ROWS)
  const kept = blocks.of({ part: older, linked: true }, 0, field, EVERYTHING, all, 2)
  t.equal(kept?.times.length, ROWS)
  const runs = new IntList()
  pushRun(runs, 0, 0, ROWS)
  const { values, divisor = 1 } = few.values(0, runs.view(), new Scratch(new ScratchPool(0)))!
  t.same(
    Array.from(values, (value) => value / divisor),
    Array.from({ length: ROWS }, (_, i) => 1000 + i),
  )
  few.close()
  t.end()
})
