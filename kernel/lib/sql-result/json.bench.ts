/** What a result as JSON takes: time, tag and number of many rows. node kernel/lib/sql-result/json.bench.ts [rows] */
import type { SqlChunk, SqlVector } from './chunk.ts'
import { JsonRowEncoder } from './json.ts'

const ROUNDS = 200
const rows = Number(process.argv[2] ?? 4000)
const start = 1_700_000_000_000_000_000n
const at = (step: (i: number) => bigint): SqlVector => ({ values: BigInt64Array.from({ length: rows }, (_, i) => start + step(i)) })
const hosts: SqlVector = { values: Array.from({ length: rows }, (_, i) => `host_${i % 40}`) }
const numbers = (value: (i: number) => number): SqlVector => ({ values: Float64Array.from({ length: rows }, (_, i) => value(i)) })
const columns = [
  { name: 'time', type: 'Timestamp(ns)' },
  { name: 'host', type: 'Utf8' },
  { name: 'value', type: 'Float64' },
]
const results: Record<string, SqlChunk['columns']> = {
  'minutes, integers': [at((i) => BigInt(Math.floor(i / 40)) * 60_000_000_000n), hosts, numbers((i) => i % 100)],
  'minutes, averages': [at((i) => BigInt(Math.floor(i / 40)) * 60_000_000_000n), hosts, numbers((i) => (i * 7919) / 360)],
  'milliseconds, decimals': [at((i) => BigInt(i) * 1_001_000_000n), hosts, numbers((i) => ((i * 7919) % 10_000) / 100)],
}
for (const [name, vectors] of Object.entries(results)) {
  let best = Number.POSITIVE_INFINITY
  let bytes = 0
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now()
    bytes = Buffer.from(new JsonRowEncoder(columns).rows({ rows, columns: vectors }, 0, rows)).length
    best = Math.min(best, performance.now() - began)
  }
  console.log(`${name.padEnd(24)} ${best.toFixed(2).padStart(6)} ms   ${((best * 1e6) / rows).toFixed(0).padStart(5)} ns a row   ${bytes} bytes`)
}
