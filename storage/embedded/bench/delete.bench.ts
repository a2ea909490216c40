/**
 * Deletes: time to the answer, of one series among many, and what tombstones cost a query until a merge has done away with them.
 * node storage/embedded/bench/delete.bench.ts [series] [rows a series]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MetricsRegistry } from '../../../kernel/metrics.ts'
import { createEngine } from '../index.ts'

const seriesWanted = Number(process.argv[2] ?? 100_000)
const rowsEach = Number(process.argv[3] ?? 20)
const BATCH = 10_000

const dir = mkdtempSync(join(tmpdir(), 'svc-delete-bench-'))
const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error }
const config = { data_dir: dir, deleted_rows_rewrite_secs: 3600 }
const engine = createEngine({ config, log, metrics: new MetricsRegistry().child('storage'), now: Date.now })
await engine.open()
const cpu = engine.resolver.measurement('', 'cpu')
const series = Array.from({ length: seriesWanted }, (_, i) => engine.resolver.series(cpu, ['host', `host_${i}`, 'rack', String(i % 100)]))
const start = BigInt(Math.floor(Date.now() / 1000) - 3600) * 1_000_000_000n

async function writeRound(round: number, from: number, to: number): Promise<void> {
  const time = start + BigInt(round) * 10_000_000_000n
  for (let at = from; at < to; at += BATCH) {
    const write = engine.batch('')
    const table = write.table(cpu)
    for (let i = at; i < Math.min(to, at + BATCH); i++) {
      const row = table.addRow(series[i], Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
      table.column('usage', 'float64').setF64(row, i % 100)
      table.column('idle', 'float64').setF64(row, round)
    }
    await engine.write(write)
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}
const shown = (times: number[]): string => {
  const sorted = times.toSorted((a, b) => a - b)
  return `median ${sorted[sorted.length >> 1].toFixed(1)} ms, most ${sorted[sorted.length - 1].toFixed(1)} ms`
}
const one = (i: number) => ({ namespace: '', measurement: 'cpu', matchers: [{ tag: 'host', op: '=' as const, value: `host_${i}` }] })
async function scanAll(): Promise<number> {
  let rows = 0
  for await (const chunk of engine.scan({ namespace: '', measurement: 'cpu', fields: ['usage'] })) rows += chunk.times.length
  return rows
}

for (let round = 0; round < rowsEach; round++) await writeRound(round, 0, seriesWanted)
console.log(`${seriesWanted} series, ${seriesWanted * rowsEach} rows`)
let next = 0
const repeated = async (n: number, work: (i: number) => Promise<unknown>): Promise<string> => {
  const times: number[] = []
  for (let i = 0; i < n; i++) times.push(await timed(() => work(next++)))
  return shown(times)
}
console.log(`one series with rows in the memtable, once: ${await repeated(1, (i) => engine.delete(one(i)))}`)
await engine.flush()
console.log(`one series in segments, 50 times: ${await repeated(50, (i) => engine.delete(one(i)))}`)
console.log(`a range of one series, 50 times: ${await repeated(50, (i) => engine.delete({ ...one(i), start, end: start + 50_000_000_000n }))}`)
const before = await timed(scanAll)
console.log(`scan of all with ${next} tombstones: ${before.toFixed(0)} ms`)
console.log(
  `a rack of ${seriesWanted / 100} series: ${(await timed(() => engine.delete({ ...one(0), matchers: [{ tag: 'rack', op: '=', value: '7' }] }))).toFixed(1)} ms`,
)
console.log(`all series: ${(await timed(() => engine.delete({ namespace: '', measurement: 'cpu' }))).toFixed(1)} ms`)
console.log(`rows left: ${await scanAll()}`)
await engine.close()
rmSync(dir, { recursive: true })
