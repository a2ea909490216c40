/** A node whose limits are all as low, or all as high, as their schemas allow: it starts, takes a write, answers, and stops. */
import { loadEngine } from 'svcdb/testkit'
import t from 'tap'
import { serverSchema } from '../kernel/config/schema.ts'
import { boot } from '../kernel/testkit/index.ts'

interface Bounds {
  minimum?: number
  maximum?: number
}

t.setTimeout(120_000)
/** Times in which nothing can be done. */
const NO_TIME = ['setup_timeout_secs', 'start_timeout_secs', 'shutdown_timeout_secs']
/** Parts of a budget that need not fit together when they are all at their most. */
const BUDGET = ['max_memory']

function all(schema: { properties?: object }, bound: 'minimum' | 'maximum', without: readonly string[]): Record<string, number> {
  const keys = Object.entries((schema.properties ?? {}) as Record<string, Bounds>)
  return Object.fromEntries(keys.flatMap(([key, { [bound]: value }]) => (value === undefined || without.includes(key) ? [] : [[key, value]])))
}

for (const storage of ['embedded', 'memory']) {
  for (const bound of ['minimum', 'maximum'] as const) {
    t.test(`${storage}, at the ${bound}`, async (t) => {
      const { configSchema } = await loadEngine(storage, '.')
      const config = { server: all(serverSchema, bound, NO_TIME), database: all(configSchema, bound, BUDGET) }
      const plugins = ['line_protocol', 'native', 'promql', ...(storage === 'embedded' ? ['sql'] : [])]
      const node = await boot({ storage, plugins, config })
      try {
        for (const value of [1, 2]) {
          const written = await node.inject({ method: 'POST', url: '/write', payload: `m,a=b v=${value}` })
          t.equal(written.statusCode, 204, written.body)
        }
        const samples = await node.inject(`/api/v1/query?query=m_v&time=${Date.now() / 1000 + 60}`)
        t.same(
          samples.json().data?.result?.map((series: { value: [number, string] }) => series.value[1]),
          ['2'],
          samples.body,
        )
        if (storage === 'embedded') {
          const rows = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: 'SELECT max(v) AS v FROM m' } })
          t.same(rows.json().rows, [[2]], rows.body)
        }
        t.equal((await node.inject('/ready')).statusCode, 200)
      } finally {
        t.same(await node.stop(), [])
      }
    })
  }
}
