/** Opening after a kill: rows a second read back from the log. node storage/embedded/bench/replay.bench.ts [rows] (all in one memtable: at most 600,000) */
import { rmSync } from 'node:fs'
import { crashCopy, NOW, openEngine, tempDir } from '../testing/harness.ts'

const rows = Number(process.argv[2] ?? 600_000)
const HOSTS = 1000
const FIELDS = 10

const dir = tempDir()
const engine = await openEngine(dir)
const cpu = engine.resolver.measurement('', 'cpu')
for (let sent = 0; sent < rows; ) {
  const batch = engine.batch('')
  const table = batch.table(cpu)
  for (let i = 0; i < 5000 && sent < rows; i++, sent++) {
    const time = NOW + BigInt(Math.floor(sent / HOSTS)) * 1_000_000n
    const row = table.addRow(engine.resolver.series(cpu, ['hostname', `host_${sent % HOSTS}`]), Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    for (let f = 0; f < FIELDS; f++) table.column(`field_${f}`, 'float64').setF64(row, (sent * (f + 1)) % 100)
  }
  await engine.write(batch)
}
const copy = crashCopy(dir)
await engine.close()
const began = performance.now()
const again = await openEngine(copy)
const seconds = (performance.now() - began) / 1000
console.log(`${rows} rows open again in ${(seconds * 1000).toFixed(0)} ms, ${Math.round(rows / seconds).toLocaleString('en')} rows/s`)
await again.close()
for (const path of [dir, copy]) rmSync(path, { recursive: true })
process.exit(0)
