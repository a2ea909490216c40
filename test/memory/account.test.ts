/** What the consumers of memory say adds up to what the process has. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { accountOf } from '../support/memory.ts'
import { runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'

t.setTimeout(300_000)

const SERIES = 500
const ROWS = 5000
const REQUESTS = 60
const READINGS = 24
/** V8 and the allocators give back what they do not need when nothing has been asked of them for a while. */
const BETWEEN_MS = 3000
const TOLERANCE = 0.15

t.test('the gauges of memory add up to the resident memory', { skip: !existsSync('/proc/self/status') && 'it is read from /proc' }, async (t) => {
  const server = await runServer(join(ROOT, 'svc.toml'))
  t.teardown(() => server.stop())
  const start = Date.now() - REQUESTS * ROWS
  for (let request = 0; request < REQUESTS; request++) {
    const lines = Array.from({ length: ROWS }, (_, i) => {
      const row = request * ROWS + i
      return `cpu,host=h${(row * 7919) % SERIES} user=${row % 100},system=${row % 7},idle=${row / 4} ${start + row}000000`
    })
    t.equal((await fetch(`${server.url}/write`, { method: 'POST', body: lines.join('\n') })).status, 204)
  }
  const range = `start=${start / 1000}&end=${Date.now() / 1000}&step=15`
  for (const query of ['sum(rate(cpu_user[1m]))', 'avg by (host) (cpu_idle)'])
    t.equal((await fetch(`${server.url}/api/v1/query_range?query=${encodeURIComponent(query)}&${range}`)).status, 200)
  const sql = JSON.stringify({ query: 'SELECT host, avg(user) FROM cpu GROUP BY host' })
  t.equal((await fetch(`${server.url}/api/v1/svc/sql`, { method: 'POST', body: sql, headers: { 'content-type': 'application/json' } })).status, 200)
  // What was freed a moment ago is nobody's, and in memory until the allocators give it back.
  let share = 0
  for (let reading = 0; reading < READINGS && Math.abs(1 - share) >= TOLERANCE; reading++) {
    if (reading > 0) await new Promise((resolve) => setTimeout(resolve, BETWEEN_MS))
    const { consumers, resident } = await accountOf(server)
    t.comment(`${Object.entries(consumers).map(([name, bytes]) => `${name} ${Math.round(bytes / 2 ** 20)}`)} of ${Math.round(resident / 2 ** 20)} MiB`)
    for (const name of ['memtable', 'heap_main', 'heap_engine', 'sample_cache']) t.ok(consumers[name] > 0, name)
    const { other: _, ...named } = consumers
    share = Object.values(named).reduce((total, bytes) => total + bytes, 0) / resident
  }
  t.ok(Math.abs(1 - share) < TOLERANCE, `${(share * 100).toFixed(1)} % of it has a name`)
})
