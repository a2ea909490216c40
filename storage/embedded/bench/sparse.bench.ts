/**
 * Points that each set one of very many fields, in writes of 10,000: processor time of a write and of the flush.
 * node storage/embedded/bench/sparse.bench.ts [points] [fields]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import { MetricsRegistry } from 'svcdb/testkit'
import { createEngine } from '../index.ts'

const points = Number(process.argv[2] ?? 80_000)
const fields = Number(process.argv[3] ?? 900)
const BATCH = 10_000
const SERIES = 50

const dir = mkdtempSync(join(tmpdir(), 'svc-sparse-bench-'))
const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error }
const engine = createEngine({ config: { data_dir: dir }, log, metrics: new MetricsRegistry().child('storage'), now: Date.now })
await engine.open()
const { resolver } = engine
const measurement = resolver.measurement('', 'm')
const series = Array.from({ length: SERIES }, (_, i) => resolver.series(measurement, ['host', `host_${i}`]))
const random = seeded(1)
let time = BigInt(Date.now() - 3_600_000) * 1_000_000n

const used = (since?: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(since)
  return (user + system) / 1000
}

let before = process.cpuUsage()
for (let sent = 0; sent < points; ) {
  const batch = engine.batch('')
  for (let i = 0; i < BATCH; i++, sent++) {
    time += 1_000_000n
    const table = batch.tableForRow(measurement)
    const row = table.addRow(series[sent % SERIES], Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    table.column(`f${Math.floor(random() * fields)}`, 'float64').setF64(row, random())
  }
  await engine.write(batch)
}
const mib = (bytes: number): number => Math.round(bytes / 2 ** 20)
console.log(`write: ${((used(before) / points) * 1000).toFixed(1)} us a point, resident ${mib(process.memoryUsage().rss)} MiB`)
before = process.cpuUsage()
await engine.flush()
console.log(`flush: ${((used(before) / points) * 1000).toFixed(1)} us a point, resident ${mib(process.memoryUsage().rss)} MiB`)
await engine.close()
rmSync(dir, { recursive: true })
