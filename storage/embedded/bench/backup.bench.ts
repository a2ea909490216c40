/**
 * Backup, verification and restore of a database: by links, by copies, and a second backup whose checksums are known; the main loop's delay meanwhile.
 * node storage/embedded/bench/backup.bench.ts [MB] [folder]: with a folder on another file system the copies go there
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { MetricsRegistry } from 'svcdb/testkit'
import { Backups } from '../backup/backups.ts'
import { realDisk } from '../backup/disk.ts'
import { EmbeddedEngine } from '../engine.ts'

const wanted = Number(process.argv[2] ?? 1000) * 1e6
const away = mkdtempSync(join(process.argv[3] ?? tmpdir(), 'svc-backup-bench-'))
const BATCH = 5000
const FIELDS = 10
/** Random doubles do not compress: about their size is what a segment takes. */
const ROWS = Math.ceil(wanted / (FIELDS * 8))

const dir = mkdtempSync(join(tmpdir(), 'svc-backup-bench-'))
const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error }
const engine = new EmbeddedEngine({ config: { data_dir: dir, compaction_fan_in: 64 }, log, metrics: new MetricsRegistry().child('storage'), now: Date.now })
await engine.open()
const start = BigInt(Date.now()) * 1_000_000n
const cpu = engine.resolver.measurement('', 'cpu')
const series = Array.from({ length: 1000 }, (_, i) => engine.resolver.series(cpu, ['host', `h${i}`]))
for (let sent = 0; sent < ROWS; ) {
  const batch = engine.batch('')
  const table = batch.table(cpu)
  for (let i = 0; i < BATCH && sent < ROWS; i++, sent++) {
    const time = start + BigInt(Math.floor(sent / series.length)) * 1_000_000n
    const row = table.addRow(series[sent % series.length], Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
    for (let f = 0; f < FIELDS; f++) table.column(`f${f}`, 'float64').setF64(row, Math.random())
  }
  await engine.write(batch)
  if (sent % 500_000 === 0) await engine.flush()
}
await engine.flush()

const { source } = engine.backup as unknown as { source: ConstructorParameters<typeof Backups>[0] }
const copying = new Backups(source, { ...realDisk, link: () => Promise.reject(Object.assign(new Error('copies only'), { code: 'EXDEV' })) })
const linked = join(dir, 'backups', 'linked')
const copied = join(away, 'copied')
const delay = monitorEventLoopDelay({ resolution: 1 })

async function measure(name: string, work: () => Promise<{ bytes: number }>): Promise<void> {
  delay.reset()
  delay.enable()
  const began = performance.now()
  const { bytes } = await work()
  const seconds = (performance.now() - began) / 1000
  delay.disable()
  console.log(
    `${name}: ${(bytes / 1e6).toFixed(0)} MB in ${seconds.toFixed(2)} s, ${(bytes / 1e6 / seconds).toFixed(0)} MB/s, loop delay p99 ${(delay.percentile(99) / 1e6).toFixed(1)} ms`,
  )
}

await measure('backup by links', () => engine.backup.create(linked))
await measure('backup by links again', () => engine.backup.create(linked))
await measure('backup by copies', () => copying.create(copied))
await measure('verification', () => engine.backup.verify(copied))
await measure('restore by links', () => engine.backup.restore(linked, join(dir, 'backups', 'restored')))
await measure('restore by copies', () => copying.restore(copied, join(away, 'restored')))
await engine.close()
for (const path of [dir, away]) rmSync(path, { recursive: true })
process.exit(0)
