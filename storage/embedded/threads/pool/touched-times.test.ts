/** Results that were kept end with a write by the time of its oldest row, of which two halves of 32 bits are compared. */
import { boot } from 'svcdb/testkit'
import t from 'tap'

t.test('a write touches the time of its oldest row, whatever the lower half of that is', async (t) => {
  const node = await boot({ plugins: ['line_protocol', 'sql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const write = async (lines: string[]): Promise<void> => {
    t.equal((await node.inject({ method: 'POST', url: '/write?backfill=true', payload: lines.join('\n') })).statusCode, 204)
  }
  // Of the lower halves, read as 32 bits with a sign, that of the later row is the smaller one.
  const oldest = ((1_700_000_000_000_000_000n >> 32n) << 32n) | 0x10000000n
  const later = oldest + 0x80000000n
  const count = async (): Promise<unknown> => {
    const query = `SELECT count(*)::INTEGER FROM a WHERE _time BETWEEN ${oldest - 100n} AND ${oldest + 100n}`
    return (await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })).json().rows
  }
  await write([`a,host=1 v=1 ${oldest - 1n}`])
  for (let i = 0; i < 3; i++) t.same(await count(), [[1]])
  t.match((await node.inject('/metrics')).body, /^svc_result_cache_hits_total 1$/m)
  await write([`a,host=1 v=2 ${oldest}`, `a,host=1 v=2 ${later}`])
  t.same(await count(), [[2]])
  t.same(await count(), [[2]])
  await write([`a,host=1 v=3 ${later + 1n}`, `a,host=1 v=3 ${oldest + 1n}`])
  t.same(await count(), [[3]])
})

t.test('a field and a label that come with later rows are columns of an answer about a time before', async (t) => {
  const node = await boot({ plugins: ['line_protocol', 'sql'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const write = async (line: string): Promise<void> => {
    t.equal((await node.inject({ method: 'POST', url: '/write?precision=s&backfill=true', payload: line })).statusCode, 204)
  }
  const columns = async (): Promise<string[]> => {
    const query = "SELECT * FROM a WHERE _time < '2023-01-01'"
    const answer = (await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })).json()
    return answer.columns.map(({ name }: { name: string }) => name).sort()
  }
  const hits = async (): Promise<unknown> => /^svc_result_cache_hits_total (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1]
  await write('a,host=1 v=1 1600000000')
  for (let i = 0; i < 3; i++) t.same(await columns(), ['_time', 'host', 'v'])
  await write('a,host=1 v=2 1700000000')
  t.same(await columns(), ['_time', 'host', 'v'])
  t.equal(await hits(), '2', 'a later row alone touches nothing')
  await write('a,host=1 v=2,w=2 1700000000')
  for (let i = 0; i < 3; i++) t.same(await columns(), ['_time', 'host', 'v', 'w'])
  await write('a,host=1,zone=1 v=3 1700000000')
  for (let i = 0; i < 3; i++) t.same(await columns(), ['_time', 'host', 'v', 'w', 'zone'])
})
