/**
 * The write path without HTTP: admit, log with fsync, append to the memtable, flush behind it. Rows a second and processor time a row.
 * node storage/embedded/bench/write.bench.ts [rows] [hosts] [decimals] [late]: with late, batches arrive in reverse, four at a time
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MetricsRegistry } from 'svcdb/testkit'
import { createEngine } from '../index.ts'

const rowsWanted = Number(process.argv[2] ?? 1_000_000)
const hosts = Number(process.argv[3] ?? 1000)
const scale = 10 ** Number(process.argv[4] ?? 0)
const late = process.argv[5] === 'late'
const BATCH = 5000
const FIELDS = ['user', 'system', 'idle', 'nice', 'iowait', 'irq', 'softirq', 'steal', 'guest', 'guest_nice'].map((f) => `usage_${f}`)

const dir = mkdtempSync(join(tmpdir(), 'svc-write-bench-'))
const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error }
const engine = createEngine({ config: { data_dir: dir }, log, metrics: new MetricsRegistry().child('storage'), now: Date.now })
await engine.open()
const { resolver } = engine
const cpu = resolver.measurement('', 'cpu')
const series = Array.from({ length: hosts }, (_, i) => resolver.series(cpu, ['hostname', `host_${i}`, 'region', `eu-${i % 7}`, 'rack', String(i % 100)]))
const start = BigInt(Math.floor(Date.now() / 1000) - 3 * 3600) * 1_000_000_000n
let state = 1
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
const level = Float64Array.from({ length: hosts * FIELDS.length }, () => Math.floor(random() * 100))

let building = 0
let sent = 0
function batch() {
  const began = performance.now()
  const write = engine.batch('')
  const table = write.table(cpu)
  for (let i = 0; i < BATCH; i++, sent++) {
    const time = start + BigInt(Math.floor(sent / hosts)) * 10_000_000_000n
    const host = sent % hosts
    const row = table.addRow(series[host], Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    for (const [f, name] of FIELDS.entries()) {
      const at = host * FIELDS.length + f
      level[at] = Math.min(100, Math.max(0, level[at] + (random() - 0.5) * 2))
      table.column(name, 'float64').setF64(row, Math.round(level[at] * scale) / scale)
    }
  }
  building += performance.now() - began
  return write
}

const cpu0 = process.cpuUsage()
const began = performance.now()
while (sent < rowsWanted) {
  const batches = [batch(), batch(), batch(), batch()]
  await Promise.all((late ? batches.reverse() : batches).map((write) => engine.write(write)))
}
const seconds = (performance.now() - began - building) / 1000
const used = process.cpuUsage(cpu0)
console.log(
  `${Math.round(sent / seconds).toLocaleString('en')} rows/s behind the decoder, ${((((used.user + used.system) / 1e3 - building) / sent) * 1e3).toFixed(2)} us processor a row, rss ${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB`,
)
await engine.close()
rmSync(dir, { recursive: true })
