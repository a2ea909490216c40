import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { Pressure } from './pressure.ts'

const LIMITS = { maxMemtableMemory: 1000, maxBacklog: 8, compaction: { fanIn: 4, maxRows: 1000 }, maxDeaths: 3, deathWindowMs: 60_000 }
/** Of the memory, what the namespace that writes has. */
const use = (memory: number, own = 0, held = 0) => ({ memory, own, held })
const full = new SvcError('STORAGE_FULL', 'no space')
const segments = (n: number): Map<number, SegmentMeta[]> =>
  new Map([[7, Array.from({ length: n }, (_, id) => ({ id, level: 0, rows: 1 }) as unknown as SegmentMeta)]])

t.test('full memtables: the cause decides what the caller is answered', async (t) => {
  const pressure = new Pressure(
    LIMITS,
    () => 0,
    () => undefined,
  )
  t.equal(pressure.refusal(use(999)), undefined)
  t.match(pressure.refusal(use(1000)), { code: 'BACKPRESSURE', message: /flushing is behind/ })
  pressure.flushFailed(new Error('odd'))
  t.match(pressure.refusal(use(1000)), { code: 'BACKPRESSURE', message: /last flush failed \(INTERNAL_ERROR\)/ })
  pressure.flushFailed(Object.assign(new Error('write'), { code: 'EDQUOT' }))
  t.match(pressure.refusal(use(1000)), { code: 'STORAGE_FULL', message: /no space to flush/ })
  t.equal(pressure.refusal(use(999)), undefined, 'while there is room, writes go on')
  pressure.flushed()
  t.match(pressure.refusal(use(1000)), { code: 'BACKPRESSURE', message: /flushing is behind/ })
})

t.test('merges that fall behind slow the writes, unless they cannot be done at all', async (t) => {
  const pressure = new Pressure(
    LIMITS,
    () => 0,
    () => undefined,
  )
  pressure.measure(segments(7))
  t.equal(pressure.refusal(use(0)), undefined)
  pressure.measure(segments(8))
  t.ok(pressure.compactionBehind)
  t.match(pressure.refusal(use(0)), { code: 'BACKPRESSURE', message: /8 segments of a table wait for a merge, \[database\] compaction_max_backlog is 8/ })
  pressure.mergeFailed(7, full)
  pressure.measure(segments(8))
  t.match(pressure.refusal(use(0)), { code: 'STORAGE_FULL' })
  pressure.mergeFailed(7, new Error('a corrupt segment'))
  pressure.measure(segments(80))
  t.equal(pressure.refusal(use(0)), undefined, 'refusing writes would not repair it')
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
  t.match(pressure.refusal(use(0)), { message: /^12 segments of a table wait/ }, 'at first all count that were there')
  looks = 0
  tables.set(9, listOf(9, 8))
  pressure.measure(tables, [9])
  t.ok(looks <= 20, `${looks} segments are looked at`)
  t.match(pressure.refusal(use(0)), { message: /^12 segments/ })
  unreadable = true
  pressure.measure(tables, [3])
  t.match(pressure.refusal(use(0)), { message: /^8 segments/ }, 'what cannot be merged any more does not count, whichever table changes')
  tables.delete(9)
  pressure.measure(tables, [9])
  t.equal(pressure.refusal(use(0)), undefined)
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
  t.match(pressure.refusal(use(0)), { code: 'OVERLOADED', message: /died 3 times within 60 s, the last time because: a bad chunk; restart/ })
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
  t.equal(pressure.refusal(use(0)), fault)
})

t.test('a namespace is refused before the others, and what is left is shared', async (t) => {
  const pressure = new Pressure(
    LIMITS,
    () => 0,
    () => undefined,
  )
  t.equal(pressure.refusal(use(750, 750), 'a'), undefined)
  t.match(pressure.refusal(use(752, 752), 'a'), {
    code: 'BACKPRESSURE',
    message:
      /rows of namespace "a" take 752 of 752 bytes in memory, and the rest is left to others, \[database\] max_memtable_memory is 1000: flushing is behind/,
  })
  t.equal(pressure.refusal(use(752, 0), 'b'), undefined, 'another one')
  t.equal(pressure.refusal(use(999, 999)), undefined, 'the only one')
  t.match(pressure.refusal(use(500, 500, 400), 'a'), { code: 'BACKPRESSURE' }, 'what queries hold is not left')
  pressure.flushFailed(full)
  t.match(pressure.refusal(use(752, 752), 'a'), { code: 'STORAGE_FULL', message: /namespace "a".* no space to flush/ })
  pressure.flushed()
  // Whoever writes takes what it may: as much is left to who comes next as a third of what each has.
  for (let n = 1; n <= 20; n++) {
    const taken = new Map<string, number>()
    const names = Array.from({ length: n }, (_, i) => `n${i}`)
    for (let round = 0; round < 1000; round++) {
      const memory = [...taken.values()].reduce((sum, own) => sum + own, 0)
      const name = names[round % n]
      const own = taken.get(name) ?? 0
      if (pressure.refusal(use(memory, own), name) === undefined) taken.set(name, own + 1)
    }
    const memory = [...taken.values()].reduce((sum, own) => sum + own, 0)
    t.equal(pressure.refusal(use(memory), 'one more'), undefined, `beside ${n} others`)
  }
})

t.test('segments of one namespace that wait for a merge do not refuse the writes of another', async (t) => {
  const owners = new Map([
    [1, 'a'],
    [2, 'b'],
  ])
  const pressure = new Pressure(
    LIMITS,
    () => 0,
    () => undefined,
    (table) => owners.get(table),
  )
  const waiting = (table: number, n: number): SegmentMeta[] =>
    Array.from({ length: n }, (_, id) => ({ id, table, level: 0, rows: 1 }) as unknown as SegmentMeta)
  const tables = new Map([
    [1, waiting(1, 12)],
    [2, waiting(2, 4)],
    [3, waiting(3, 4)],
  ])
  pressure.measure(tables)
  t.match(pressure.refusal(use(0), 'a'), { code: 'BACKPRESSURE', message: /^12 segments of a table/ })
  t.equal(pressure.refusal(use(0), 'b'), undefined)
  tables.set(2, waiting(2, 8))
  pressure.measure(tables, [2])
  t.match(pressure.refusal(use(0), 'b'), { message: /^8 segments of a table/ })
  t.equal(pressure.refusal(use(0), 'c'), undefined)
  tables.set(3, waiting(3, 8))
  pressure.measure(tables, [3])
  t.match(pressure.refusal(use(0), 'c'), { message: /^8 segments of a table/ }, 'one that namespaces share is everybody’s')
  tables.set(3, waiting(3, 4))
  tables.set(1, [])
  pressure.measure(tables, [1, 3])
  t.equal(pressure.refusal(use(0), 'a'), undefined)
})
