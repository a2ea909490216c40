import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { Pressure } from './pressure.ts'

const LIMITS = { maxMemtableMemory: 1000, maxBacklog: 8, compaction: { fanIn: 4, maxRows: 1000 }, maxDeaths: 3, deathWindowMs: 60_000 }
const full = new SvcError('STORAGE_FULL', 'no space')
const segments = (n: number): Map<number, SegmentMeta[]> =>
  new Map([[7, Array.from({ length: n }, (_, id) => ({ id, level: 0, rows: 1 }) as unknown as SegmentMeta)]])

t.test('full memtables: the cause decides what the caller is answered', async (t) => {
  const pressure = new Pressure(
    LIMITS,
    () => 0,
    () => undefined,
  )
  t.equal(pressure.refusal(999), undefined)
  t.match(pressure.refusal(1000), { code: 'BACKPRESSURE', message: /flushing is behind/ })
  pressure.flushFailed(new Error('odd'))
  t.match(pressure.refusal(1000), { code: 'BACKPRESSURE', message: /last flush failed \(INTERNAL_ERROR\)/ })
  pressure.flushFailed(Object.assign(new Error('write'), { code: 'EDQUOT' }))
  t.match(pressure.refusal(1000), { code: 'STORAGE_FULL', message: /no space to flush/ })
  t.equal(pressure.refusal(999), undefined, 'while there is room, writes go on')
  pressure.flushed()
  t.match(pressure.refusal(1000), { code: 'BACKPRESSURE', message: /flushing is behind/ })
})

t.test('merges that fall behind slow the writes, unless they cannot be done at all', async (t) => {
  const pressure = new Pressure(
    LIMITS,
    () => 0,
    () => undefined,
  )
  pressure.measure(segments(7))
  t.equal(pressure.refusal(0), undefined)
  pressure.measure(segments(8))
  t.ok(pressure.compactionBehind)
  t.match(pressure.refusal(0), { code: 'BACKPRESSURE', message: /8 segments of a table wait for a merge, \[database\] compaction_max_backlog is 8/ })
  pressure.mergeFailed(7, full)
  pressure.measure(segments(8))
  t.match(pressure.refusal(0), { code: 'STORAGE_FULL' })
  pressure.mergeFailed(7, new Error('a corrupt segment'))
  pressure.measure(segments(80))
  t.equal(pressure.refusal(0), undefined, 'refusing writes would not repair it')
  pressure.merged(7)
  pressure.measure(segments(3))
  t.notOk(pressure.compactionBehind)
})

t.test('a change of one table among thousands looks at that one, and at the one that refuses writes', async (t) => {
  let looks = 0
  let unreadable = false
  const leaves = ({ table }: SegmentMeta): boolean => {
    looks++
    return unreadable && table === 7
  }
  const pressure = new Pressure(
    { ...LIMITS, compaction: { ...LIMITS.compaction, leaves } },
    () => 0,
    () => undefined,
  )
  const listOf = (table: number, n: number): SegmentMeta[] => Array.from({ length: n }, (_, id) => ({ id, table, level: 0, rows: 1 }) as unknown as SegmentMeta)
  const tables = new Map(Array.from({ length: 5000 }, (_, table) => [table, listOf(table, table === 7 ? 12 : 4)]))
  pressure.measure(tables, [0])
  t.match(pressure.refusal(0), { message: /^12 segments of a table wait/ }, 'at first all count that were there')
  looks = 0
  tables.set(9, listOf(9, 8))
  pressure.measure(tables, [9])
  t.ok(looks <= 20, `${looks} segments are looked at`)
  t.match(pressure.refusal(0), { message: /^12 segments/ })
  unreadable = true
  pressure.measure(tables, [3])
  t.match(pressure.refusal(0), { message: /^8 segments/ }, 'what cannot be merged any more does not count, whichever table changes')
  tables.delete(9)
  pressure.measure(tables, [9])
  t.equal(pressure.refusal(0), undefined)
})

t.test('a thread that dies now and then is started again, one that dies over and over is not', async (t) => {
  let now = 0
  const pressure = new Pressure(
    LIMITS,
    () => now,
    () => undefined,
  )
  for (const at of [0, 50_000, 100_000, 150_000]) {
    now = at
    t.ok(pressure.died('bad luck'), `at ${at} ms`)
  }
  t.ok(pressure.running)
  now = 155_000
  t.notOk(pressure.died('a bad chunk'))
  t.notOk(pressure.running)
  t.match(pressure.refusal(0), { code: 'OVERLOADED', message: /died 3 times within 60 s, the last time because: a bad chunk; restart/ })
  now = 1e9
  t.match(pressure.fault, { code: 'OVERLOADED' }, 'until a restart')
})

t.test('a catalog that cannot be written refuses everything', async (t) => {
  const fault = new SvcError('OVERLOADED', 'the catalog')
  const pressure = new Pressure(
    LIMITS,
    () => 0,
    () => fault,
  )
  t.equal(pressure.refusal(0), fault)
})
