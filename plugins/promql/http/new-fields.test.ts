/** Series whose measurement gets one field after the other, asked for in between: each write is in the next answer. */
import { boot } from 'svcdb/testkit'
import t from 'tap'

const BASE = 1_700_000_000
const HOSTS = 32
/** Writes with a field that is new. */
const NEW_FIELDS = 8
const WRITES = 24

t.test('each write is in the next answer', async (t) => {
  const node = await boot({ plugins: ['line_protocol', 'promql'], storage: 'embedded', config: { database: { query_threads: 1 } } })
  t.teardown(() => node.stop())
  const write = async (number: number): Promise<void> => {
    const fields = Array.from({ length: Math.min(number, NEW_FIELDS) + 1 }, (_, f) => `f${f}=${number}`).join()
    const payload = Array.from({ length: HOSTS }, (_, host) => `m,host=${host} ${fields} ${BASE + number}`).join('\n')
    const { statusCode, body } = await node.inject({ method: 'POST', url: '/write?precision=s&backfill=true', payload })
    t.equal(statusCode, 204, body)
  }
  const ask = async (query: string): Promise<number[]> => {
    const { body } = await node.inject(`/api/v1/query_range?query=${encodeURIComponent(query)}&start=${BASE + 100}&end=${BASE + 101}&step=1`)
    return JSON.parse(body).data.result.map(({ values }: { values: [number, string][] }) => Number(values[0][1]))
  }
  for (let number = 1; number <= WRITES; number++) {
    await write(number)
    t.same(await ask('count_over_time(m_f0[10m])'), Array(HOSTS).fill(number), `after write ${number}`)
  }
})
