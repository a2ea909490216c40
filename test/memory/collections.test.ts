/** Under writes and questions, whose garbage is young, heaps are not collected as a whole again and again (kernel/lib/heap/old-generation.ts). */
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'

t.setTimeout(120_000)

const ROWS = 5000
const REQUESTS = 200
const SERIES = 20_000
/** Slowly: V8 gives a heap whose garbage comes fast more room. */
const BETWEEN_MS = 60
/** Requests until heaps are as large as they will be. */
const FIRST = 60
const QUESTION_EACH = 12
/** Collections of all that a start and rests bring, whatever is written; without what is tested here there were nine beside 18 of the young generation. */
const USUAL = 5

t.test('the young generation is collected more often than all of a heap', async (t) => {
  const server = await runServer(join(ROOT, 'svc.toml'), { nodeArgs: ['--trace-gc'] })
  t.teardown(() => server.stop())
  let before = 0
  for (let request = 0; request < REQUESTS; request++) {
    if (request === FIRST) before = server.output().length
    const now = Date.now()
    const lines = Array.from(
      { length: ROWS },
      (_, i) => `cpu,host=h${(request * ROWS + i * 7919) % SERIES} user=${i % 100},system=${i % 7},idle=${i / 4} ${now}000000`,
    )
    t.equal((await fetch(`${server.url}/write`, { method: 'POST', body: lines.join('\n') })).status, 204)
    if (request % QUESTION_EACH === 0) {
      const query = new URLSearchParams({ query: 'sum(rate(cpu_user[1m]))', start: String(now / 1000 - 300), end: String(now / 1000), step: '15' })
      t.equal((await fetch(`${server.url}/api/v1/query_range?${query}`)).status, 200)
    }
    await setTimeout(BETWEEN_MS)
  }
  const count = (kind: RegExp): number => server.output().slice(before).match(kind)?.length ?? 0
  const [all, young] = [count(/ms: Mark-Compact /g), count(/ms: Scavenge /g)]
  t.ok(young > 0 && all <= Math.max(USUAL, young / 4), `${young} collections of the young generation, ${all} of all`)
})
