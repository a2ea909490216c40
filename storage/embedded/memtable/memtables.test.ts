import t from 'tap'
import { inside } from '../testing/catalog-faults.ts'
import { closeAndRemove, NOW, openEngine, tempDir, writeFloat } from '../testing/harness.ts'

t.test('the active memtable ends when it has rows that are to be masked, and not otherwise', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { maintenance_interval_secs: 3600, compaction_fan_in: 64 })
  t.teardown(() => closeAndRemove(engine, dir))
  const { memtables, schema, wal } = inside(engine)
  /** Whether it ends when somebody asks for a sequence above its rows: `m` has a table of its own. */
  const ends = async (sequenceOf: () => number, measurements = ['m', 'n', 'other']): Promise<boolean> => {
    await engine.flush()
    for (const name of measurements) await writeFloat(engine, name, 'a', NOW, name === 'm' ? { v: 1, w: 1 } : { v: 1 })
    const { active } = memtables
    const sequence = sequenceOf()
    const ended = memtables.active !== active
    t.equal(sequence > active.sequence, ended)
    return ended
  }
  const of = (name: string): number => schema.find('', name)?.id as number
  t.notOk(await ends(() => memtables.sequenceAboveOlder(() => NOW, wal.file)), 'none is older')
  t.ok(await ends(() => memtables.sequenceAboveOlder(() => NOW + 1n, wal.file)), 'they are, by a nanosecond')
  for (const [series, name] of ['m', 'n'].entries()) {
    t.ok(await ends(() => memtables.sequenceAbove(of(name), null, wal.file)), name)
    t.ok(await ends(() => memtables.sequenceAbove(of(name), Int32Array.of(series), wal.file)), name)
    t.notOk(await ends(() => memtables.sequenceAbove(of(name), new Int32Array(0), wal.file)), name)
    t.notOk(await ends(() => memtables.sequenceAbove(of(name), null, wal.file), ['other']), 'rows of others alone')
    t.notOk(await ends(() => memtables.sequenceAbove(of(name), Int32Array.of(series), wal.file), ['other']), 'rows of others alone')
  }
})
