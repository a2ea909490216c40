/**
 * Statements from samples and in DuckDB, in turn, on one thread: best wall time and processor time of the rounds, JSON included.
 * node storage/embedded/bench/lane.bench.ts [hosts] [steps] [rounds] [segments] [cache MiB] [questions] [samples|duckdb]
 */
import type { SqlCursor } from 'svcdb'
import { JsonRowEncoder } from 'svcdb/lib/sql-result'
import { EngineReader } from '../read/reader.ts'
import { SampleBlocks } from '../read/samples/source-blocks.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { BENCH_FIELDS, BENCH_INTERVAL, BENCH_START, fillSegments } from './bench-data.ts'

const hosts = Number(process.argv[2] ?? 1000)
const steps = Number(process.argv[3] ?? 540)
const rounds = Number(process.argv[4] ?? 15)
const segments = Number(process.argv[5] ?? 1)
const cache = Number(process.argv[6] ?? 1024)
const wanted = new RegExp(process.argv[7] ?? '')
const only = process.argv[8]
const db = new TestDatabase()
await fillSegments(db, hosts, steps, segments)
const context = { ...(await db.context()), sampleBlocks: new SampleBlocks(cache << 20) }
const at = (step: number): string => `make_timestamp_ns(${BENCH_START + BigInt(step) * BENCH_INTERVAL})`
const averages = BENCH_FIELDS.map((field) => `avg(${field})`).join(', ')
const maxima = BENCH_FIELDS.slice(0, 5)
  .map((field) => `max(${field})`)
  .join(', ')
const eight = Array.from({ length: 8 }, (_, i) => `'host_${i * 3 + 1}'`).join(', ')
const hour = `_time >= ${at(0)} AND _time < ${at(360)}`
const questions: Record<string, [select: string, where: string, rest: string]> = {
  'single-groupby-1-1-1': [
    "SELECT time_bucket(INTERVAL '1 minute', _time) AS t, max(usage_0) FROM cpu",
    `hostname = 'host_7' AND ${hour}`,
    'GROUP BY 1 ORDER BY 1',
  ],
  'single-groupby-5-8-1': [
    `SELECT time_bucket(INTERVAL '1 minute', _time) AS t, ${maxima} FROM cpu`,
    `hostname IN (${eight}) AND ${hour}`,
    'GROUP BY 1 ORDER BY 1',
  ],
  'double-groupby-1': [
    "SELECT time_bucket(INTERVAL '1 hour', _time) AS t, hostname, avg(usage_0) FROM cpu",
    `_time >= ${at(0)}`,
    'GROUP BY 1, 2 ORDER BY 1, 2',
  ],
  'double-groupby-all': [
    `SELECT time_bucket(INTERVAL '1 hour', _time) AS t, hostname, ${averages} FROM cpu`,
    `_time >= ${at(0)}`,
    'GROUP BY 1, 2 ORDER BY 1, 2',
  ],
  'high-cpu-all': ['SELECT count(*) FROM cpu', `usage_0 > 90 AND _time >= ${at(0)}`, ''],
  'sum of fields': [
    "SELECT time_bucket(INTERVAL '1 hour', _time) AS t, hostname, avg(usage_0 + usage_1) AS v FROM cpu",
    `_time >= ${at(0)}`,
    'GROUP BY 1, 2 ORDER BY 1, 2',
  ],
  'weighted average': [
    "SELECT time_bucket(INTERVAL '1 minute', _time) AS t, sum(usage_0 * usage_1) / sum(usage_1) AS v FROM cpu",
    `_time >= ${at(0)}`,
    'GROUP BY 1 ORDER BY 1',
  ],
  'share of fields': ['SELECT hostname, max(usage_0 / (usage_1 + usage_2 + 1) * 100) AS v FROM cpu', `_time >= ${at(0)}`, 'GROUP BY 1 ORDER BY 1'],
  'difference above': ['SELECT count(*) FROM cpu', `usage_0 - usage_1 > 50 AND _time >= ${at(0)}`, ''],
  'one host by minute': [
    "SELECT time_bucket(INTERVAL '1 minute', _time) AS t, avg(usage_0 + usage_1) AS v FROM cpu",
    `hostname = 'host_7' AND ${hour}`,
    'GROUP BY 1 ORDER BY 1',
  ],
  'high-cpu-average': ['SELECT hostname, avg(usage_1) FROM cpu', `usage_0 > 90 AND _time >= ${at(0)}`, 'GROUP BY 1 ORDER BY 2 DESC LIMIT 10'],
}

for (const [name, [select, where, rest]] of Object.entries(questions)) {
  if (!wanted.test(name)) continue
  const ways = { samples: `${select} WHERE ${where} ${rest}`, duckdb: `${select} WHERE ${where} AND 1 = 1 ${rest}` }
  const best = { samples: [Infinity, Infinity], duckdb: [Infinity, Infinity] }
  for (let round = 0; round < rounds; round++)
    for (const way of ['samples', 'duckdb'] as const) {
      if (only !== undefined && only !== way) continue
      const cpu = process.cpuUsage()
      const began = performance.now()
      await answer(ways[way])
      const wall = performance.now() - began
      const { user, system } = process.cpuUsage(cpu)
      best[way] = [Math.min(best[way][0], wall), Math.min(best[way][1], (user + system) / 1000)]
    }
  const [a, b] = [best.samples, best.duckdb].map(([wall, cpu]) => `${wall.toFixed(2).padStart(7)} ms (${cpu.toFixed(2).padStart(7)} processor)`)
  console.log(`${name.padEnd(22)} samples ${a}   duckdb ${b}   ${(best.samples[0] / best.duckdb[0]).toFixed(3)}`)
}
db.close()

async function answer(query: string): Promise<string> {
  const reader = await EngineReader.open(context)
  try {
    const cursor: SqlCursor = await reader.sql({ namespace: 'default', query })
    const encoder = new JsonRowEncoder(cursor.columns)
    let text = ''
    for await (const chunk of cursor) text += encoder.rows(chunk, 0, chunk.rows)
    return text
  } finally {
    reader.close()
  }
}
