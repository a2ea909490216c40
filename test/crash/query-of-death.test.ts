/** Queries that would take all memory, time or processor, on the real server with small limits: each is answered, and the process lives. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { processorMs } from '../support/processor-time.ts'
import { runServer } from '../support/server.ts'

const TIMEOUT_SECS = 2
const PARALLELISM = 2
/** An interrupted statement ends within the next steps of DuckDB. What counts is what the server was at work: a machine that is busy with other things changes nothing. */
const ANSWER_LIMIT_MS = (TIMEOUT_SECS * 1000 + 8000) * PARALLELISM
/** One that waits for something that never comes takes no processor time. */
const WAIT_LIMIT_MS = 90_000
/** Limit of the statements' memory, and what the process may have on top of what it had before them. */
const MEMORY_LIMIT = 64 << 20
const GROWTH_LIMIT = 500 << 20
/** What was freed is given back when the process rests: the least of this time counts. */
const REST_MS = 10_000
const HOSTS = 1000
const ROUNDS = 60
t.setTimeout(600_000)

const CONFIG = `plugins = ["native", "line_protocol", "sql"]
[server]
sql_query_timeout_secs = ${TIMEOUT_SECS}
sql_max_rows = 1000
[database]
per_query_memory_limit = ${MEMORY_LIMIT}
query_threads = 1
query_parallelism = ${PARALLELISM}

`

const deep = (n: number, open: string, inner: string, close: string): string => open.repeat(n) + inner + close.repeat(n)

/** SQL, and the statuses that are an answer: 200 within the limits, a refusal of the statement, or a limit that was met. */
const statements: Record<string, string> = {
  'a cross join': 'SELECT count(*) FROM big a, big b, big c WHERE a.v + b.v > c.v',
  'a cross join without end': 'SELECT a.*, b.* FROM big a, big b, big c',
  'a cross join sorted': 'SELECT a.host, b.v FROM big a, big b ORDER BY a.v * b.v, a.host, b._time',
  'groups of everything': 'SELECT a.host, a._time, b._time, b.host, list(a.v), list(b.v), count(DISTINCT a.v * b.v) FROM big a, big b GROUP BY ALL',
  'one list of everything': 'SELECT list(a.host || b.host) FROM big a, big b',
  'one text of everything': `SELECT string_agg(repeat(host, 100000), ',') FROM big`,
  'a very long text': `SELECT repeat(repeat('x', 100000000), 100)`,
  'windows over everything':
    'SELECT sum(a.v) OVER (PARTITION BY a.host ORDER BY b.v ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM big a, big b',
  'a recursion without end': 'WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t',
  'a recursion that doubles': `WITH RECURSIVE t(n) AS (SELECT 'x' UNION ALL SELECT n || n FROM t) SELECT max(length(n)) FROM t`,
  'a catastrophic expression': `SELECT count(*) FROM big WHERE regexp_matches(repeat('a', 5000) || host, '^(a+)+$|^(a|aa)+b$|(.*)*x$')`,
  'an expression that explodes': `SELECT regexp_matches('a', '((((a{0,1000}){0,1000}){0,1000}){0,1000})')`,
  'a long IN list': `SELECT count(*) FROM big WHERE host IN (${Array.from({ length: 100_000 }, (_, i) => `'h${i}'`).join(', ')})`,
  'many unions': Array.from({ length: 2000 }, () => 'SELECT v FROM big').join(' UNION ALL '),
  'a deep expression': `SELECT ${deep(5000, '(', '1', ')')}`,
  'a deep negation': `SELECT ${'NOT '.repeat(20_000)} true`,
  'deep subqueries': deep(500, 'SELECT * FROM (', 'SELECT v FROM big', ') x'),
  'many columns': `SELECT ${Array.from({ length: 20_000 }, (_, i) => `v + ${i} AS c${i}`).join(', ')} FROM big`,
  'a long sequence': 'SELECT list(n) FROM range(10000000000) r(n)',
}
const ANSWERS = [200, 400, 503, 504]

const folder = await mkdtemp(join(tmpdir(), 'svc-death-'))
const config = join(folder, 'svc.toml')
await writeFile(config, CONFIG)
const server = await runServer(config)
t.teardown(() => rm(folder, { recursive: true }))

const post = async (path: string, body: string, type = 'application/json'): Promise<{ status: number; text: string }> => {
  const answer = await fetch(server.url + path, { method: 'POST', headers: { 'content-type': type }, body })
  return { status: answer.status, text: await answer.text() }
}
const sql = (query: string) => post('/api/v1/svc/sql', JSON.stringify({ query }))
/** Processor time of the server and its processes so far. */
const worked = (): number => (process.platform === 'linux' ? processorMs(server.pid) : 0)
const resident = async (): Promise<number> => Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${server.pid}/status`, 'utf8'))?.[1]) * 1024

const now = BigInt(Date.now()) * 1_000_000n
for (let round = 0; round < ROUNDS; round++) {
  const lines = Array.from({ length: HOSTS }, (_, i) => `big,host=h${i} v=${(i * round) % 97},w=${i / 7},t="text ${i}" ${now - BigInt(round) * 1_000_000_000n}`)
  const { status, text } = await post('/api/v2/write?precision=ns', lines.join('\n'), 'text/plain')
  if (status !== 204) throw new Error(`the points are answered by ${status}: ${text}`)
}
const count = JSON.stringify([[HOSTS * ROUNDS]])
// The first query starts the engine's threads, which may take longer than the limit on a busy machine.
let first = await sql('SELECT count(*) FROM big')
for (let tries = 1; tries < 20 && first.status !== 200; tries++) first = await sql('SELECT count(*) FROM big')
if (first.status !== 200) throw new Error(`no query was answered: ${first.text}`)
const before = await resident()

for (const [name, statement] of Object.entries(statements)) {
  t.test(name, async (t) => {
    const began = performance.now()
    const before = worked()
    const { status, text } = await sql(statement)
    const used = worked() - before
    const took = performance.now() - began
    t.comment(`${status} after ${Math.round(took)} ms, ${used} ms of processor time: ${text.slice(0, 160)}`)
    t.ok(ANSWERS.includes(status), `answered by ${status}: ${text.slice(0, 300)}`)
    if (status !== 200) t.ok((JSON.parse(text) as { error: string }).error.length > 10, 'with a reason')
    t.ok(used < ANSWER_LIMIT_MS && took < WAIT_LIMIT_MS, `answered after ${Math.round(took)} ms, ${used} ms of processor time`)
    const after = await sql('SELECT count(*) FROM big')
    t.equal(after.status, 200, after.text)
    t.match(after.text, count, 'the next query is answered as ever')
    t.equal((await post('/api/v2/write?precision=ns', `other v=1 ${now}`, 'text/plain')).status, 204, 'and so is a write')
  })
}

t.test('everything at once through the native query', async (t) => {
  const { status, text } = await post('/api/v1/svc/query', JSON.stringify({ measurement: 'big' }))
  t.ok([200, 400, 413, 503, 504].includes(status), `answered by ${status}`)
  t.ok(text.length < 64 << 20)
  t.equal((await sql('SELECT count(*) FROM big')).status, 200)
})

if (process.platform === 'linux') {
  t.test('memory', async (t) => {
    let grown = (await resident()) - before
    for (const end = performance.now() + REST_MS; performance.now() < end; await sleep(500)) grown = Math.min(grown, (await resident()) - before)
    t.ok(grown < GROWTH_LIMIT, `the process has grown by ${Math.round(grown / 2 ** 20)} MiB`)
  })
}

t.test('a clean stop after all that', async (t) => {
  t.equal(await server.stop(), 0)
})
