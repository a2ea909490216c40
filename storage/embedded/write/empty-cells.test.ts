/**
 * Writes that wait for one commit count with what their rows will take in the memtable: an empty cell has no bytes in a record, and as many as a value there, where rows set
 * a good part of the fields.
 */
import t from 'tap'
import { at, opened, type Point, write } from '../testing/archiving.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'
import { HeldLog } from '../testing/held-log.ts'

t.setTimeout(120_000)
const MIB = 1 << 20
const FIELDS = 900
const ROWS = 1000
const WRITES = 12
const LIMIT = 16 * MIB
const CONFIG = { max_memtable_memory: LIMIT, memtable_flush_threshold: 4 * MIB }

const point = (row: number, fields: Point['fields']): Point => ({ measurement: 'm', tags: ['host', 'a'], time: at(0) - BigInt(row), fields })
const all = (): Point[] => [point(0, Object.fromEntries(Array.from({ length: FIELDS }, (_, i) => [`f${i}`, i])))]
const quarter = (row: number): Point['fields'] => Object.fromEntries(Array.from({ length: FIELDS / 4 }, (_, i) => [`f${i * 4 + (row % 4)}`, i]))
const batch = (n: number): Point[] => Array.from({ length: ROWS }, (_, i) => point(1 + n * ROWS + i, quarter(i)))

t.test('many mostly empty writes at once', async (t) => {
  const dir = tempDir()
  const engine = await opened(dir, undefined, CONFIG)
  t.teardown(() => closeAndRemove(engine, dir))
  await write(engine, all())
  const ended = await Promise.allSettled(Array.from({ length: WRITES }, (_, n) => write(engine, batch(n))))
  const refused = ended.filter((result) => result.status === 'rejected')
  // The one that passes the limit is not refused yet.
  t.ok((WRITES - refused.length - 1) * ROWS * FIELDS * 8 <= LIMIT, `${WRITES - refused.length} writes of ${ROWS * FIELDS * 8} bytes each`)
  for (const { reason } of refused) t.match(reason, { code: 'BACKPRESSURE' })
  await engine.flush()
  await write(engine, batch(WRITES))
})

t.test('writes that have failed count no more', async (t) => {
  const dir = tempDir()
  const log = new HeldLog()
  const engine = await openEngine(dir, CONFIG, log.fs)
  t.teardown(() => closeAndRemove(engine, dir))
  await write(engine, all())
  for (let bytes = 0, n = 0; bytes <= LIMIT; bytes += ROWS * FIELDS * 8, n++) {
    const held = log.hold()
    const failed = t.rejects(write(engine, batch(n)), { code: 'STORAGE_FULL' })
    await held
    log.fail()
    await failed
  }
  await write(engine, batch(0))
})
