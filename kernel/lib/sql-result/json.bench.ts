/** What a result as JSON takes, as text made bytes and as bytes: time, tag and number of many rows. Processor time, of 20 answers each. node kernel/lib/sql-result/json.bench.ts [rows] */
import type { SqlChunk, SqlVector } from './chunk.ts'
import { JsonRowEncoder } from './json.ts'
import { JsonRowBytes } from './json-row-bytes.ts'

const ROUNDS = 10
const ANSWERS = 20
const rows = Number(process.argv[2] ?? 4000)
const start = 1_700_000_000_000_000_000n
const at = (step: (i: number) => bigint): SqlVector => ({ values: BigInt64Array.from({ length: rows }, (_, i) => start + step(i)) })
const dictionary = Array.from({ length: 40 }, (_, i) => `host_${i}`)
const codes = Int32Array.from({ length: rows }, (_, i) => i % 40)
const hosts: SqlVector = { values: Array.from(codes, (code) => dictionary[code]) }
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
const asText = (vectors: SqlVector[]): Uint8Array => Buffer.from(new JsonRowEncoder(columns).rows({ rows, columns: vectors }, 0, rows))
function asBytes([times, , values]: SqlVector[]): Uint8Array {
  const out = new JsonRowBytes(columns)
  out.rows({ rows, columns: [times, { values: codes, dictionary }, values] }, 0, rows)
  const bytes = out.take()
  out.close()
  return bytes
}
for (const [name, vectors] of Object.entries(results))
  for (const [way, write] of Object.entries({ text: asText, bytes: asBytes })) {
    let best = Number.POSITIVE_INFINITY
    let bytes = 0
    for (let round = 0; round < ROUNDS; round++) {
      const before = process.threadCpuUsage()
      for (let i = 0; i < ANSWERS; i++) bytes = write(vectors).length
      const { user, system } = process.threadCpuUsage(before)
      best = Math.min(best, (user + system) / 1000 / ANSWERS)
    }
    console.log(
      `${name.padEnd(24)} ${way.padEnd(6)} ${best.toFixed(2).padStart(6)} ms   ${((best * 1e6) / rows).toFixed(0).padStart(5)} ns a row   ${bytes} bytes`,
    )
  }
