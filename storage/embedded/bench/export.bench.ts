/** Exports: rows a second and memory. `node storage/embedded/bench/export.bench.ts [hosts] [steps] [segments] [memory limit in MB]` */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { TableBatch } from 'svcdb/lib/columns'
import { exportMeasurement } from '../export/export.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { BENCH_FIELDS, BENCH_INTERVAL, BENCH_START } from './bench-data.ts'

const hosts = Number(process.argv[2] ?? 1000)
const steps = Number(process.argv[3] ?? 2000)
const segments = Number(process.argv[4] ?? 4)
const memory = Number(process.argv[5] ?? 256) * 1e6
const db = new TestDatabase()
db.config.memoryLimitBytes = memory
const cpu = db.measurement('cpu', Object.fromEntries(BENCH_FIELDS.map((name) => [name, 'float64' as const])))
const series = Array.from({ length: hosts }, (_, host) =>
  db.series(cpu, { hostname: `host_${host}`, region: `region-${host % 9}`, service: String(host % 20) }),
)

/** Steps from..to of all hosts; `again` overwrites them in another segment. */
async function fill(from: number, to: number): Promise<void> {
  for (let step = from; step < to; step++) {
    const batch = new TableBatch(cpu.ref)
    const time = BENCH_START + BigInt(step) * BENCH_INTERVAL
    const columns = BENCH_FIELDS.map((name) => batch.column(name, 'float64'))
    for (let host = 0; host < hosts; host++) {
      const row = batch.addRow(series[host], Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
      for (let f = 0; f < columns.length; f++) columns[f].setF64(row, Math.round(50 + 30 * Math.sin(step / 50 + f) + 10 * Math.random()))
    }
    db.append(cpu, batch)
  }
  await db.flush()
}

async function run(name: string): Promise<void> {
  const context = await db.context()
  const path = join(db.config.tempDir, `${name.replaceAll(' ', '-')}.parquet`)
  const before = process.memoryUsage.rss()
  let peak = before
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss())
  }, 5)
  const began = performance.now()
  const result = await exportMeasurement(
    context,
    db.state.snapshotNow()!,
    {
      request: { namespace: 'default', measurement: 'cpu', path, maxBytes: 0 },
      unfinished: `${path}.unfinished`,
      scratch: join(db.config.tempDir, 'export.parquet'),
      encrypted: [],
      config: db.config,
    },
    undefined,
  )
  const seconds = (performance.now() - began) / 1000
  clearInterval(timer)
  const [{ groups }] = await context.duck.run(`SELECT num_row_groups AS groups FROM parquet_file_metadata('${path}')`)
  console.log(
    `${name}: ${result.rows} rows in ${seconds.toFixed(2)} s, ${(result.rows / seconds / 1e6).toFixed(2)} M rows/s, ${(statSync(path).size / result.rows).toFixed(2)} bytes a row, ${groups} row groups, ${Math.round((peak - before) / 1e6)} MB more at its peak`,
  )
}

for (let i = 0; i < segments; i++) await fill(Math.floor((steps * i) / segments), Math.floor((steps * (i + 1)) / segments))
console.log(`-- ${hosts * steps} rows, ${segments} segments, limit ${memory / 1e6} MB`)
await run('clean')
await fill(Math.floor(steps / 4), Math.floor(steps / 2))
await run('a quarter overwritten')
db.close()
process.exit(0)
