/** A point that was written again, in another place than before, is the newest one as it was written last. */
import t from 'tap'
import { sql } from '../../testing/archiving.ts'
import { closeAndRemove, NOW, openEngine, tempDir, writeFloat } from '../../testing/harness.ts'

const PLACES = { 'two segments': [true, true], 'a segment and a memtable': [true, false], 'a memtable': [false, false] }

for (const [place, flushed] of Object.entries(PLACES))
  t.test(`a point that was written again, in ${place}`, async (t) => {
    const dir = tempDir()
    const engine = await openEngine(dir, { maintenance_interval_secs: 3600, compaction_fan_in: 64 })
    t.teardown(() => closeAndRemove(engine, dir))
    for (const [i, flush] of flushed.entries()) {
      for (const host of ['a', 'b']) await writeFloat(engine, 'm', host, NOW, { v: i, w: i })
      if (flush) await engine.flush()
    }
    const query = 'SELECT host, last(v, _time) AS v FROM m GROUP BY host ORDER BY host'
    for (let again = 0; again < 2; again++) {
      t.match(JSON.stringify(await sql(engine, `EXPLAIN ${query}`)), /Samples/)
      t.same(await sql(engine, query), [
        ['a', 1],
        ['b', 1],
      ])
    }
  })
