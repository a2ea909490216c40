import t from 'tap'
import { RecentlyEncoded } from './recent.ts'
import type { ChangedColumns } from './types.ts'

const changeOf = (sequence: number, series: Int32Array = new Int32Array(1)) => ({ sequence, series }) as ChangedColumns

t.test('what is kept is found for the same change and key only', async (t) => {
  const recent = new RecentlyEncoded<string>(10, 100)
  const change = changeOf(1)
  recent.add(change, 'a', 'encoded', 7)
  t.equal(recent.find(changeOf(1, change.series), 'a'), 'encoded')
  t.equal(recent.find(change, 'b'), undefined)
  t.equal(recent.find(changeOf(2, change.series), 'a'), undefined, 'a later write in the same buffers')
  t.equal(recent.find(changeOf(1), 'a'), undefined, 'rows that lie elsewhere')
  recent.clear()
  t.equal(recent.find(change, 'a'), undefined)
  recent.add(change, 'a', 'encoded', 100)
  t.equal(recent.find(change, 'a'), 'encoded', 'there is room for as much again')
})

t.test('the oldest go where there are too many or they are too large', async (t) => {
  const recent = new RecentlyEncoded<number>(3, 100)
  const changes = Array.from({ length: 6 }, (_, i) => changeOf(i))
  const found = () => changes.filter((change) => recent.find(change, '') !== undefined).map(({ sequence }) => sequence)
  for (const change of changes.slice(0, 4)) recent.add(change, '', change.sequence, 10)
  t.same(found(), [1, 2, 3])
  recent.add(changes[4], '', 4, 85)
  t.same(found(), [3, 4])
  recent.add(changes[5], '', 5, 101)
  t.same(found(), [])
  recent.add(changes[0], '', 0, 100)
  t.same(found(), [0], 'what went takes no room')
})
