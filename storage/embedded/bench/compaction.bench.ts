/**
 * What merging costs: segments at the end and at most, and bytes written by flushes and by merges, for rows in order, out of order and backfilled.
 * node storage/embedded/bench/compaction.bench.ts [rows] [flush threshold in bytes]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MetricsRegistry } from 'svcdb/testkit'
import { createEngine } from '../index.ts'

const rowsWanted = Number(process.argv[2] ?? 2_000_000)
const threshold = Number(process.argv[3] ?? 2 << 20)
const BATCH = 5000
const HOSTS = 200
const FIELDS = ['user', 'system', 'idle', 'iowait']
const STEP_NS = 1_000_000_000n
const YEAR_NS = 31_557_600n * STEP_NS

/** The time of the n-th round of all hosts, nanoseconds before now. */
const patterns: Record<string, (round: number, rounds: number) => bigint> = {
  'in order': (round, rounds) => BigInt(rounds - round) * STEP_NS,
  // Blocks of rounds change places: every second one is late.
  'out of order': (round, rounds) => BigInt(rounds - (round ^ 64)) * STEP_NS,
  'backfill of ten years': (round, rounds) => (round % 2 === 0 ? BigInt(rounds - round) * STEP_NS : (10n * YEAR_NS * BigInt(rounds - round)) / BigInt(rounds)),
}

for (const [pattern, ageOf] of Object.entries(patterns)) {
  const dir = mkdtempSync(join(tmpdir(), 'svc-compaction-bench-'))
  const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error }
  const metrics = new MetricsRegistry()
  const config = { data_dir: dir, memtable_flush_threshold: threshold, wal_max_file_size: Math.max(65_536, threshold) }
  const engine = createEngine({ config, log, metrics: metrics.child('storage'), now: Date.now })
  await engine.open()
  const metric = async (name: string): Promise<number> => Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec(await metrics.text())?.[1])
  const { resolver } = engine
  const cpu = resolver.measurement('', 'cpu')
  const series = Array.from({ length: HOSTS }, (_, i) => resolver.series(cpu, ['host', `host_${i}`]))
  const now = BigInt(Date.now()) * 1_000_000n
  const rounds = Math.ceil(rowsWanted / HOSTS)
  const level = new Float64Array(HOSTS * FIELDS.length).fill(50)
  let maxFiles = 0
  let sent = 0
  const began = performance.now()
  while (sent < rowsWanted) {
    const batch = engine.batch('')
    const table = batch.table(cpu)
    for (let i = 0; i < BATCH; i++, sent++) {
      const host = sent % HOSTS
      const time = now - ageOf(Math.floor(sent / HOSTS), rounds)
      const row = table.addRow(series[host], Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
      for (const [f, name] of FIELDS.entries()) {
        const at = host * FIELDS.length + f
        level[at] = Math.min(100, Math.max(0, level[at] + (Math.random() - 0.5) * 2))
        table.column(name, 'float64').setF64(row, Math.round(level[at] * 10) / 10)
      }
    }
    await engine.write(batch, { backfill: true })
    if (sent % (BATCH * 10) === 0) maxFiles = Math.max(maxFiles, await metric('segments'))
  }
  await engine.flush()
  // Merging has ended when a second goes by without one.
  for (let merges = -1; merges !== (await metric('compactions_total')); ) {
    merges = await metric('compactions_total')
    await new Promise((resolve) => setTimeout(resolve, 1000))
  }
  const [flushes, files, flushed, merged] = await Promise.all(
    ['flushes_total', 'segments', 'flush_written_bytes_total', 'compaction_written_bytes_total'].map(metric),
  )
  const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(1)
  console.log(
    `${pattern}: ${flushes} flushes, ${maxFiles} files at most, ${files} at the end; ${mib(flushed)} MiB flushed, ${mib(merged)} MiB merged, amplification ${((flushed + merged) / flushed).toFixed(2)}, ${((performance.now() - began) / 1000).toFixed(1)} s`,
  )
  await engine.close()
  rmSync(dir, { recursive: true })
}
