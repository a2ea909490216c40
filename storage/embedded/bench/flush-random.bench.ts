/**
 * Flush of a table whose series are written in random order, as many writers at once have it: CPU a row, bytes a row.
 * `node storage/embedded/bench/flush-random.bench.ts [series] [rows] [flushes] [fields]`
 */
import { TableBatch } from 'svcdb/lib/columns'
import { TestDatabase } from '../testing/engine-state.ts'
import { BENCH_START } from './bench-data.ts'
import { measureFlushes } from './flush-cost.ts'

const seriesCount = Number(process.argv[2] ?? 20_000)
const rows = Number(process.argv[3] ?? 1_500_000)
const flushes = Number(process.argv[4] ?? 4)
const fieldCount = Number(process.argv[5] ?? 3)
const BATCH = 5000

const fields = Array.from({ length: fieldCount }, (_, i) => `field_${i}`)
const db = new TestDatabase()
const measurement = db.measurement('m', Object.fromEntries(fields.map((name) => [name, 'float64' as const])))
const series = Array.from({ length: seriesCount }, (_, i) => db.series(measurement, { host: `host_${i}` }))
const values = Float64Array.from({ length: seriesCount }, () => Math.floor(Math.random() * 1000))
await db.context()
let time = BENCH_START
const order = Int32Array.from({ length: seriesCount }, (_, i) => i)
let next = seriesCount
await measureFlushes(db, flushes, () => {
  for (let n = 0; n < rows; n += BATCH) fill()
})
db.close()
process.exit(0)

/** A batch of rows of the next series, in an order that is another one each time all have been written. */
function fill(): void {
  const batch = new TableBatch(measurement.ref)
  const columns = fields.map((name) => batch.column(name, 'float64'))
  for (let i = 0; i < BATCH; i++) {
    if (next === seriesCount) shuffle()
    const s = order[next++]
    values[s] += Math.round((Math.random() - 0.3) * 10)
    const row = batch.addRow(series[s], Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
    for (const column of columns) column.setF64(row, values[s])
  }
  db.append(measurement, batch)
}

function shuffle(): void {
  time += 100_000_000n
  next = 0
  for (let i = seriesCount - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1))
    const s = order[i]
    order[i] = order[j]
    order[j] = s
  }
}
