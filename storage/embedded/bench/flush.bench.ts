/** Flush: rows a second, CPU, and bytes a value; without and with a staleness marker in a thousand values. `node storage/embedded/bench/flush.bench.ts [hosts] [steps]` */

import { TestDatabase } from '../testing/engine-state.ts'
import { BENCH_FIELDS, fillBench } from './bench-data.ts'

const hosts = Number(process.argv[2] ?? 1000)
const steps = Number(process.argv[3] ?? 700)
for (const decimals of [0, 2, 12]) {
  for (const [level, markers] of [
    [3, 0],
    [6, 0],
    [6, 0.001],
  ]) {
    const db = new TestDatabase()
    db.config.zstdLevel = level
    fillBench(db, hosts, steps, decimals, markers)
    await db.context()
    const cpu = process.cpuUsage()
    const start = performance.now()
    const [segment] = await db.flush()
    const ms = performance.now() - start
    const { user, system } = process.cpuUsage(cpu)
    const values = segment.rows * BENCH_FIELDS.length
    const encodings = new Set(segment.columns.map(({ encoding }) => (encoding.kind !== 'scaled' ? encoding.kind : `scaled ${encoding.scale}`)))
    console.log(
      `${decimals} decimals, zstd ${level}${markers > 0 ? ', markers' : ''}: ${segment.rows} rows in ${ms.toFixed(0)} ms, ${Math.round(segment.rows / (ms / 1000))} rows/s, CPU ${((user + system) / 1000).toFixed(0)} ms, ${(segment.bytes / values).toFixed(3)} bytes/value, ${[...encodings].join(', ')}`,
    )
    db.close()
  }
}
process.exit(0)
