/** Statements of one tenant that take all the time they may do not have all engine processes, nor all turns at them. */
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../support/until.ts'
import keys from './tenant-keys.ts'

t.setTimeout(120_000)

/** On no list of what is bounded, and never done. */
const endless = (i: number) => `SELECT sum(len([a.range, b.range, ${i}])) FROM range(1000000000) a, range(1000000000) b`
const SHORT = 'SELECT len([1, 2]) AS n'

async function started(t: Test, database: object): Promise<TestNode> {
  const config = { server: { multi_tenancy: true, sql_query_timeout_secs: 15 }, database }
  const node = await boot({ plugins: [keys, 'namespaces', 'line_protocol', 'sql'], storage: 'embedded', config })
  t.teardown(() => node.stop())
  return node
}

const ask = (node: TestNode, query: string) =>
  node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query }, headers: { authorization: 'Bearer bob' } })

/** A statement of hers, until she hangs up. @returns whether it has been answered. */
function begin(node: TestNode, i: number, { signal }: AbortController): { answered: boolean } {
  const headers = { authorization: 'Bearer alice', 'content-type': 'application/json' }
  const own = { answered: false }
  fetch(`${node.url}/api/v1/svc/sql`, { method: 'POST', headers, body: JSON.stringify({ query: endless(i) }), signal }).then(
    () => (own.answered = true),
    () => {}, // hung up
  )
  return own
}

async function figure(node: TestNode, name: string): Promise<number> {
  const { body } = await node.inject({ url: '/metrics', headers: { authorization: 'Bearer root' } })
  return Number(new RegExp(`^svc_engine_processes_${name} (\\S+)$`, 'm').exec(body)?.[1])
}

t.test('however many threads there are, a tenant leaves a process to the others', async (t) => {
  const node = await started(t, { query_threads: 2, engine_processes: 2 })
  const line = new AbortController()
  const hostile = Array.from({ length: 6 }, (_, i) => begin(node, i, line))
  await until('one runs, and five wait', async () => (await figure(node, 'waiting')) === 5)
  for (let i = 0; i < 4; i++) {
    const answer = await ask(node, SHORT)
    t.equal(answer.statusCode, 200, answer.body)
  }
  t.notOk(
    hostile.some(({ answered }) => answered),
    'hers are at work, or wait',
  )
  line.abort()
  await until('they are gone', async () => (await figure(node, 'busy')) + (await figure(node, 'waiting')) === 0)
})

t.test('where there is one process, tenants take turns', async (t) => {
  const node = await started(t, { query_threads: 1, engine_processes: 1 })
  const [first, line] = [new AbortController(), new AbortController()]
  begin(node, 0, first)
  await until('it runs', async () => (await figure(node, 'busy')) === 1)
  const hostile = Array.from({ length: 4 }, (_, i) => begin(node, i + 1, line))
  await until('they wait', async () => (await figure(node, 'waiting')) === 4)
  const asked = ask(node, SHORT)
  await until('his waits, too', async () => (await figure(node, 'waiting')) === 5)
  first.abort()
  const answer = await asked
  t.equal(answer.statusCode, 200, answer.body)
  t.notOk(
    hostile.some(({ answered }) => answered),
    'he came after all of hers',
  )
  line.abort()
})
