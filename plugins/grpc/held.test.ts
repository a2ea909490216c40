/** What queries hold together is bounded, beside what each may hold. */
import t from 'tap'
import { point, start, TestClient } from './testing.ts'

const MIB = 1 << 20
const NOW = BigInt(Date.now()) * 1_000_000n
const ROWS = 5000
const HOSTS = 50
const QUERIES = 6

for (const format of ['ROWS', 'ARROW'])
  t.test(`Query as ${format}: those that together would hold more than they may wait for one another, and all are answered`, async (t) => {
    const config = { server: { max_held_memory: 12 * MIB }, database: { query_threads: 1 } }
    const { node, port } = await start({ storage: 'embedded', config })
    const client = new TestClient(port)
    t.teardown(async () => {
      client.close()
      await node.stop()
    })
    const note = 'x'.repeat(1000)
    const points = Array.from({ length: ROWS }, (_, i) => point('cpu', NOW - BigInt(i), { host: `h${i % HOSTS}` }, { note: `${i}${note}` }))
    await client.call('Write', { points })
    const answers = await Promise.all(Array.from({ length: QUERIES }, () => client.query({ measurement: 'cpu', format })))
    const one = await client.query({ measurement: 'cpu', format })
    for (const answer of answers) t.strictSame(answer, one)
  })
