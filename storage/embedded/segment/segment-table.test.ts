import t from 'tap'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { SegmentTable } from './segment-table.ts'

t.test('a flush of thousands of tables looks at each of its segments a few times', async (t) => {
  let looks = 0
  const segment = (id: number, of: number, sequence: number): SegmentMeta =>
    ({
      id,
      sequence,
      get table() {
        looks++
        return of
      },
    }) as SegmentMeta
  const tables = 2000
  const flush = (sequence: number): SegmentMeta[] => Array.from({ length: tables }, (_, table) => segment(sequence * tables + table, table, sequence))
  const first = flush(0)
  const segments = new SegmentTable(first, tables)
  const second = flush(1)
  segments.replace([], second)
  t.ok(looks <= 10 * tables, `${looks} looks`)
  t.same(
    segments.of(7).map(({ id }) => id),
    [7, tables + 7],
  )
  segments.replace([first[7], second[7], first[8]], [segment(9999, 7, 1)])
  t.same(
    [7, 8, 9].map((table) => segments.of(table).map(({ id }) => id)),
    [[9999], [tables + 8], [9, tables + 9]],
  )
  segments.replace([second[8]], [])
  t.equal(segments.tables.has(8), false)
})

t.test('a segment has one owner at a time, and none once it is gone', async (t) => {
  const [first, second, merged] = [1, 2, 3].map((id) => ({ id, sequence: id, table: 0 }) as SegmentMeta)
  const segments = new SegmentTable([first, second], 3)
  const release = segments.claim([first])
  t.equal(segments.claim([second, first]), undefined)
  t.same(
    [1, 2].map((id) => segments.isClaimed(id)),
    [true, false],
  )
  segments.replace([first, second], [merged])
  release?.()
  for (const gone of [[first], [merged, second]]) t.equal(segments.claim(gone), undefined, 'who has planned something for it is late')
  t.notOk(segments.isClaimed(merged.id))
  t.ok(segments.claim([merged]))
})
