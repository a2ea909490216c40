/** Flush of a shared table, as metrics of remote write have it: CPU a row, bytes a row. `node storage/embedded/bench/flush-narrow.bench.ts [hosts] [steps] [flushes]` */
import { TableBatch } from 'svcdb/lib/columns'
import { TestDatabase } from '../testing/engine-state.ts'
import { BENCH_INTERVAL, BENCH_START } from './bench-data.ts'
import { measureFlushes } from './flush-cost.ts'

const hosts = Number(process.argv[2] ?? 1000)
const steps = Number(process.argv[3] ?? 250)
const flushes = Number(process.argv[4] ?? 6)
const METRICS = 10

const db = new TestDatabase()
const metrics = Array.from({ length: METRICS }, (_, m) => db.measurement(`m${m}`, { value: 'float64' }, { shared: 1 }))
const series = Array.from({ length: hosts }, (_, host) => metrics.map((metric) => db.series(metric, { host: `host_${host}` })))
const walk = Float64Array.from({ length: hosts * METRICS }, () => Math.floor(Math.random() * 100))
await db.context()
await measureFlushes(db, flushes, (flush) => {
  for (let step = flush * steps; step < (flush + 1) * steps; step++) fill(BENCH_START + BigInt(step) * BENCH_INTERVAL)
})
db.close()
process.exit(0)

/** One value of each metric of each host, in two batches. */
function fill(time: bigint): void {
  const low = Number(BigInt.asIntN(32, time))
  const high = Number(time >> 32n)
  for (const half of [0, 1]) {
    const batch = new TableBatch(metrics[0].ref)
    const column = batch.column('value', 'float64')
    for (let host = Math.ceil((half * hosts) / 2); host < Math.ceil(((half + 1) * hosts) / 2); host++) {
      for (const number of series[host]) {
        const at = host * METRICS + (batch.rows % METRICS)
        walk[at] = Math.min(100, Math.max(0, walk[at] + (Math.random() - 0.5) * 2))
        column.setF64(batch.addRow(number, low, high, 0), Math.round(walk[at]))
      }
    }
    db.append(metrics[0], batch)
  }
}
