/** What a query asks the storage for. */
import type { JobIo, Reader, ScanRequest } from 'svcdb'
import t from 'tap'
import query from './query-job.ts'

t.test('no more rows are asked for than an answer can have', async (t) => {
  const asked: ScanRequest[] = []
  const scan = async function* (request: ScanRequest): AsyncGenerator<never> {
    asked.push(request)
    yield* []
  }
  const reader = { scan } as unknown as Reader
  const io = { emit: async () => {}, signal: new AbortController().signal } as unknown as JobIo
  const request = { namespace: '', measurement: 'cpu' }
  const args = { request, maxRows: 1000, maxBytes: 0, maxHeldBytes: 1 << 20 }
  await query(reader, { ...args, limit: 10, offset: 20 }, io)
  await query(reader, { ...args, offset: 0 }, io)
  t.same(
    asked.map(({ earliest }) => earliest),
    [30, 1001],
    'without a limit one too many',
  )
})
