/** Annotations out of rows with large texts: their times are read, and nothing else of them. */
import t from 'tap'
import { start } from './testing.ts'

t.setTimeout(200_000)
const SECOND = 1_000_000_000n
const now = BigInt(Math.floor(Date.now() / 1000)) * SECOND
const at = (row: number): bigint => now - 3000n * SECOND + BigInt(row) * SECOND
const millis = (row: number): number => Number(at(row) / 1_000_000n)
const ROWS = 3000
const BYTES = 60_000
const AT_ONCE = 100

t.test('rows that have more than a query may take', async (t) => {
  // As little as may be set.
  const database = { query_threads: 1, per_query_memory_limit: 64 << 20 }
  const { node, write } = await start(t, { storage: 'embedded', config: { triggers: { annotation_rows: 3 }, database } })
  for (let row = 0; row < ROWS; row += AT_ONCE) {
    const text = (i: number): string => `${row + i} `.repeat(BYTES).slice(0, BYTES)
    await write(Array.from({ length: AT_ONCE }, (_, i) => `_alerts_"x",host=h${i % 3} message="${text(i)}" ${at(row + i)}`))
  }
  const annotations = async (query = ''): Promise<unknown> => (await node.inject(`/api/v1/annotations${query}`)).json()
  const newest = (...rows: number[]) => rows.map((row) => ({ text: 'Signal event in _alerts_"x"', time: millis(row), tags: ['_alerts_"x"'] }))
  t.same(await annotations(), newest(ROWS - 3, ROWS - 2, ROWS - 1))
  t.same(await annotations(`?to=${millis(7)}`), newest(5, 6, 7))
  t.same(await annotations(`?from=${millis(ROWS - 2)}`), newest(ROWS - 2, ROWS - 1))
})
