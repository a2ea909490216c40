/** The first time of a table's rows from a sequence on, against all sources looked through. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { INT64_MAX } from '../../common/time.ts'
import type { Memtable } from '../memtable/memtable.ts'
import { Summary } from '../threads/memtable-layout.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { firstTimeFrom } from './first-times.ts'

const TABLE = 3

const segment = (sequence: number, minTime: bigint) => ({ sequence, minTime: String(minTime) }) as SegmentMeta

function memtable(sequence: number, minTime: bigint, rows = 1): Memtable {
  const summary = new BigInt64Array(8)
  summary[Summary.MIN_TIME] = minTime
  return { sequence, tables: new Map([[TABLE, { rows, summary }]]) } as unknown as Memtable
}

t.test('segments and memtables of the sequence itself count, those below do not', async (t) => {
  const segments = [segment(1, 10n), segment(2, 30n), segment(4, 20n)]
  const memtables = [memtable(5, 15n), memtable(6, 40n)]
  const first = (sequence: number) => firstTimeFrom(segments, memtables, TABLE, sequence)
  t.same([1, 2, 4, 5, 6, 7].map(first), [10n, 15n, 15n, 15n, 40n, INT64_MAX])
})

t.test('a table without rows has none, also where it has a place in a memtable', async (t) => {
  t.equal(firstTimeFrom([], [memtable(5, 15n, 0)], TABLE, 0), INT64_MAX)
  t.equal(firstTimeFrom([], [memtable(5, 15n)], TABLE + 1, 0), INT64_MAX)
})

t.test('segments in any order of times', async (t) => {
  const random = seeded(1)
  for (let round = 0; round < 100; round++) {
    let sequence = 0
    const segments = Array.from({ length: Math.floor(random() * 8) }, () =>
      segment((sequence += 1 + Math.floor(random() * 3)), BigInt(Math.floor(random() * 50))),
    )
    for (let from = 0; from <= sequence + 1; from++) {
      const all = segments.filter((one) => one.sequence >= from).map(({ minTime }) => BigInt(minTime))
      const least = all.reduce((first, time) => (time < first ? time : first), INT64_MAX)
      if (firstTimeFrom(segments, [], TABLE, from) !== least) t.fail(`round ${round}, from ${from}`)
    }
  }
  t.pass('all as they are')
})
