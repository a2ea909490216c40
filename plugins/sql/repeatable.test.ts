import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { isRepeatable } from './repeatable.ts'

t.test('what dashboards ask is, what differs from call to call is not', async (t) => {
  for (const query of [
    'SELECT count(*) FROM cpu',
    `SELECT time_bucket(INTERVAL '1 minute', _time) AS t, host, avg(usage) FROM cpu WHERE _time >= now() - INTERVAL '1 hour' GROUP BY ALL ORDER BY t`,
    `SELECT max(usage) FILTER (WHERE usage > 1), CAST(min(usage) AS INTEGER) FROM "cpu load" WHERE host IN ('a', 'b') AND (note = 'it''s fine')`,
    'SELECT * FROM (SELECT host, last(usage, _time) OVER (PARTITION BY host ORDER BY _time) FROM cpu) LIMIT 5',
    'SELECT sample_rate FROM cpu',
    '(SELECT (1 + (2)) * -(v) FROM cpu)',
  ])
    t.equal(isRepeatable(query), true, query)
  for (const query of [
    'SELECT random()',
    'SELECT RANDOM ()',
    'SELECT "random"()',
    'SELECT main.random()',
    'SELECT uuid(), avg(v) FROM m',
    'SELECT avg(v + gen_random_uuid ()) FROM m',
    'SELECT * FROM m USING SAMPLE 10',
    'SELECT * FROM m TABLESAMPLE 10%',
    'SELECT of_a_plugin(v) FROM m',
    `SELECT 'it''s', random()`,
    "SELECT '' '', random()",
    'SELECT /* random */ 1',
    'SELECT $$ random() $$',
    "SELECT E'\\'', random() --'",
    'SELECT avg(v) -- comment\n, random() FROM m',
    'SELECT avg(v) --\r, random() FROM m\n',
    'SELECT rändom() FROM m',
    'SELECT 😀() FROM m',
    'SELECT random/**/()',
    'SELECT random\u00a0() FROM m',
    'SELECT random\u200b() FROM m',
    'SELECT random--\n()',
    '(SELECT random())',
    "SELECT ''()",
    `SELECT avg(v) FROM m WHERE note = '${'x'.repeat(8192)}'`,
  ])
    t.equal(isRepeatable(query), false, query)
})

t.test('equal statements at the same time: each gets the answer of his own namespace, with what he had written before', async (t) => {
  const NAMESPACES = ['one', 'two', 'three']
  const config = { server: { multi_tenancy: true }, database: { query_threads: 1 } }
  const node = await boot({ plugins: ['line_protocol', 'namespaces', 'sql'], storage: 'embedded', config })
  t.teardown(() => node.stop())
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const written = new Map(NAMESPACES.map((namespace) => [namespace, 0]))
  const post = async (path: string, namespace: string, body: string, type: string): Promise<string> => {
    const answer = await fetch(node.url + path, { method: 'POST', body, headers: { 'x-namespace': namespace, 'content-type': type } })
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return text
  }
  // Row n of a namespace has the value n and the namespace's name: an answer says by itself what it is of.
  const write = async (namespace: string): Promise<void> => {
    const n = written.get(namespace) as number
    await post('/write?precision=s', namespace, `m,s=${namespace} v=${n} ${1_700_000_000 + n}`, 'text/plain')
    written.set(namespace, n + 1)
  }
  const QUERIES = ['SELECT s, v FROM m ORDER BY _time', 'SELECT s, v FROM m WHERE random() < 2 ORDER BY _time']
  const wrong: string[] = []
  const ask = async (namespace: string, query: string): Promise<void> => {
    const least = written.get(namespace) as number
    const { rows } = JSON.parse(await post('/api/v1/svc/sql', namespace, JSON.stringify({ query }), 'application/json')) as { rows: [string, number][] }
    if (rows.length < least) wrong.push(`${rows.length} rows of ${least}`)
    for (const [i, [s, v]] of rows.entries()) if (s !== namespace || v !== i) wrong.push(`${s} ${v} for ${namespace} ${i}`)
  }
  const shared = async (): Promise<number> => Number(/^svc_queries_shared_total (\d+)$/m.exec(await (await fetch(`${node.url}/metrics`)).text())?.[1])
  await Promise.all(NAMESPACES.map(write))
  for (const [i, query] of QUERIES.entries()) {
    const before = await shared()
    for (let round = 0; round < 6; round++) {
      await Promise.all(Array.from({ length: 24 }, () => ask(NAMESPACES[Math.floor(random() * NAMESPACES.length)], query)))
      await Promise.all(NAMESPACES.map(write))
    }
    const count = (await shared()) - before
    t.ok(i === 0 ? count > 0 : count === 0, `${query}: ${count} of 144 were shared`)
  }
  t.same(wrong, [])
})
