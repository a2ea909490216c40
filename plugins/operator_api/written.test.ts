/** Answers are the text of JSON.stringify, however they are written. */
import { atOnce } from 'svcdb/lib/event-loop'
import t from 'tap'
import { written } from './written.ts'

t.test('what is written is what JSON.stringify gives', async (t) => {
  const long = 'ж'.repeat(70_000)
  const bodies = [null, 1, 'a', [], [1], {}, { a: undefined }, { a: undefined, b: 1 }, { rows: [] }, { rows: [undefined, { c: long }, long], truncated: false }]
  for (const body of bodies) t.equal(atOnce(written(body)).toString(), JSON.stringify(body))
  let turns = 0
  for (const _ of written({ rows: Array.from({ length: 20 }, () => long) })) turns++
  t.ok(turns > 10, 'a long list is written in turns')
})
