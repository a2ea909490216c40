/**
 * What a wide out-of-order window costs: windows of 2, 48 and 168 shards, with rows in order and with 1 % and 10 % of them late by up to the window.
 * Prints each as a ratio to rows in order: processor time of the main thread a row, bytes written by flushes and merges, and processor time of a scan of
 * the newest six hours (`read`), of six hours two days before (`read past`) and of all, when merging has come to rest. Time swings with the machine, bytes do not.
 * node storage/embedded/bench/late.bench.ts [rows] [flush threshold in bytes]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import { MetricsRegistry } from 'svcdb/testkit'
import { createEngine } from '../index.ts'

const rowsWanted = Number(process.argv[2] ?? 1_000_000)
const threshold = Number(process.argv[3] ?? 4 << 20)
const BATCH = 5000
const HOSTS = 100
const FIELDS = ['user', 'system', 'idle', 'iowait']
const SHARD_MS = 3_600_000
/** Rows are this far apart in all, so that every window lies within. */
const SPAN_MS = 10 * 24 * SHARD_MS
const READS = 5

interface Costs {
  cpu: number
  written: number
  read: number
  readPast: number
  readAll: number
  rejected: number
}

async function run(shards: number, share: number): Promise<Costs> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-late-bench-'))
  const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error }
  const metrics = new MetricsRegistry()
  const random = seeded(1)
  const first = Date.now() - SPAN_MS
  const clock = { ms: first }
  const config = { data_dir: dir, ooo_shard_tolerance: shards, memtable_flush_threshold: threshold, wal_max_file_size: Math.max(65_536, threshold) }
  const engine = createEngine({ config, log, metrics: metrics.child('storage'), now: () => clock.ms })
  await engine.open()
  const metric = async (name: string): Promise<number> => Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec(await metrics.text())?.[1])
  const cpu = engine.resolver.measurement('', 'cpu')
  const series = Array.from({ length: HOSTS }, (_, i) => engine.resolver.series(cpu, ['host', `host_${i}`]))
  const level = new Float64Array(HOSTS * FIELDS.length).fill(50)
  let used = 0
  let rejected = 0
  for (let sent = 0; sent < rowsWanted; ) {
    const batch = engine.batch('')
    const table = batch.table(cpu)
    for (let i = 0; i < BATCH; i++, sent++) {
      const host = sent % HOSTS
      clock.ms = first + Math.floor((SPAN_MS * sent) / rowsWanted)
      // Up to a shard short of the window: the clock goes on within a batch.
      const ms = random() < share ? clock.ms - Math.floor(random() * Math.max(1, shards - 1) * SHARD_MS) : clock.ms
      const time = BigInt(ms) * 1_000_000n + BigInt(host)
      const row = table.addRow(series[host], Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
      for (const [f, name] of FIELDS.entries()) {
        const at = host * FIELDS.length + f
        level[at] = Math.min(100, Math.max(0, level[at] + (random() - 0.5) * 2))
        table.column(name, 'float64').setF64(row, Math.round(level[at] * 10) / 10)
      }
    }
    const began = process.threadCpuUsage()
    rejected += (await engine.write(batch)).rejected
    const { user, system } = process.threadCpuUsage(began)
    used += user + system
  }
  await engine.flush()
  for (let merges = -1; merges !== (await metric('compactions_total')); ) {
    merges = await metric('compactions_total')
    await new Promise((resolve) => setTimeout(resolve, 2000))
  }
  const read = async (hoursAgo: number, hours: number): Promise<number> => {
    const [start, end] = [hoursAgo, hoursAgo - hours].map((age) => BigInt(clock.ms - age * SHARD_MS) * 1_000_000n)
    const times: number[] = []
    for (let n = 0; n < READS; n++) {
      const began = process.cpuUsage()
      for await (const _ of engine.scan({ namespace: '', measurement: 'cpu', start, end }));
      const { user, system } = process.cpuUsage(began)
      times.push((user + system) / 1000)
    }
    return times.sort((a, b) => a - b)[READS >> 1]
  }
  const [newest, past, all] = [await read(6, 7), await read(54, 6), await read(24 * 20, 24 * 21)]
  const [flushed, merged] = await Promise.all(['flush_written_bytes_total', 'compaction_written_bytes_total'].map(metric))
  await engine.close()
  rmSync(dir, { recursive: true })
  return { cpu: used, written: flushed + merged, read: newest, readPast: past, readAll: all, rejected }
}

for (const shards of [2, 48, 168]) {
  let base: Costs | undefined
  for (const share of [0, 0.01, 0.1]) {
    const costs = await run(shards, share)
    base ??= costs
    const ratio = (key: keyof Costs): string => (costs[key] / (base as Costs)[key]).toFixed(2)
    const shown = `cpu ${ratio('cpu')}, bytes ${ratio('written')}, read ${ratio('read')}, read past ${ratio('readPast')}, read all ${ratio('readAll')}`
    const absolute = `${(costs.cpu / rowsWanted).toFixed(2)} us a row, ${(costs.written / 2 ** 20).toFixed(1)} MiB, read ${[costs.read, costs.readPast, costs.readAll].map((ms) => ms.toFixed(0)).join(', ')} ms`
    console.log(`${shards} shards, ${share * 100} % late: ${shown} (${absolute}${costs.rejected > 0 ? `, ${costs.rejected} refused` : ''})`)
  }
}
