/** What a query asks the storage for. */
import t from 'tap'
import { scansOf } from '../../test/support/asked.ts'
import query from './query-job.ts'

t.test('no more rows are asked for than an answer can have', async (t) => {
  const args = { request: { namespace: '', measurement: 'cpu' }, maxRows: 1000, maxBytes: 0, maxHeldBytes: 1 << 20 }
  t.match(await scansOf(query, { ...args, limit: 10, offset: 20 }), [{ earliest: 30 }])
  t.match(await scansOf(query, { ...args, offset: 0 }), [{ earliest: 1001 }], 'without a limit one too many')
})
