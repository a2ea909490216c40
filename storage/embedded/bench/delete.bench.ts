/**
 * Deletes, drops and retention among many series: time to the answer, and how long the main loop stood still meanwhile, which is what everybody else
 * waits for. Then what tombstones cost a query until a merge has done away with them.
 * node storage/embedded/bench/delete.bench.ts [series] [rows a series]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { MetricsRegistry } from 'svcdb/testkit'
import { EmbeddedEngine } from '../engine.ts'

const seriesWanted = Number(process.argv[2] ?? 1_000_000)
const rowsEach = Number(process.argv[3] ?? 1)
const BATCH = 10_000
const HOUR_NS = 3_600_000_000_000n
const BACK = 48n * HOUR_NS

const dir = mkdtempSync(join(tmpdir(), 'svc-delete-bench-'))
const log = { debug: () => {}, info: () => {}, warn: console.warn, error: console.error }
const config = { data_dir: dir, deleted_rows_rewrite_secs: 3600, max_series_cardinality: seriesWanted * 3, retention: { brief: 24 * 3600 } }
const engine = new EmbeddedEngine({ config, log, metrics: new MetricsRegistry().child('storage'), now: Date.now })
await engine.open()
const now = BigInt(Math.floor(Date.now() / 1000) - 60) * 1_000_000_000n

async function write(measurement: string, time: bigint, count = seriesWanted): Promise<void> {
  for (let at = 0; at < count; at += BATCH) {
    const batch = engine.batch('')
    const ref = engine.resolver.measurement('', measurement)
    const table = batch.table(ref)
    for (let i = at; i < Math.min(count, at + BATCH); i++) {
      const series = engine.resolver.series(ref, ['half', String(i & 1), 'host', `host_${i}`, 'rack', String(i % 100)])
      const row = table.addRow(series, Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
      table.column('usage', 'float64').setF64(row, i % 100)
      table.column('idle', 'float64').setF64(row, i)
    }
    await engine.write(batch, { backfill: true })
  }
}

/** The longest turn of the loop: by the clock, and in processor time of the main thread, which a machine with other work to do shows as it is. */
const longest = { ms: 0, processorMs: 0 }
let watching = true
const watch = (async () => {
  let [at, used] = [performance.now(), processorMs()]
  while (watching) {
    await setImmediate()
    const [nowAt, nowUsed] = [performance.now(), processorMs()]
    longest.ms = Math.max(longest.ms, nowAt - at)
    longest.processorMs = Math.max(longest.processorMs, nowUsed - used)
    ;[at, used] = [nowAt, nowUsed]
  }
})()
function processorMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

async function measured(name: string, work: () => Promise<unknown>): Promise<void> {
  await setImmediate()
  longest.ms = longest.processorMs = 0
  const began = performance.now()
  const result = await work()
  await setImmediate()
  const took = performance.now() - began
  console.log(
    `${name}: ${took.toFixed(1)} ms, longest turn ${longest.ms.toFixed(1)} ms, processor ${longest.processorMs.toFixed(1)} ms${result === undefined ? '' : `, ${JSON.stringify(result)}`}`,
  )
}

const of = (measurement: string, tag: string, value: string, op: '=' | '=~' = '=') => ({ namespace: '', measurement, matchers: [{ tag, op, value }] })
const repeated = async (n: number, work: (i: number) => Promise<unknown>): Promise<void> => {
  for (let i = 0; i < n; i++) await work(i)
}
async function count(): Promise<number> {
  const job = engine.run<unknown[][]>(new URL('../testing/table-job.ts', import.meta.url), { namespace: '', query: 'SELECT count(*) FROM cpu' })
  return Number((await job.result)[0][0])
}

for (let round = 0; round < rowsEach; round++) await write('cpu', now - BigInt(rowsEach - round) * 10_000_000_000n)
console.log(`${seriesWanted} series, ${seriesWanted * rowsEach} rows`)
await measured('flush', () => engine.flush())
await measured('one that matches nothing', () => engine.delete(of('cpu', 'host', 'nobody')))
await measured('50 that match nothing', () => repeated(50, (i) => engine.delete(of('cpu', 'host', `nobody_${i}`))))
await measured('50 that match nothing, regular expressions', () => repeated(50, (i) => engine.delete(of('cpu', 'host', `.*nobody.*${i}`, '=~'))))
await measured('one series', () => engine.delete(of('cpu', 'host', 'host_1')))
await measured('one series, 50 times', () => repeated(50, (i) => engine.delete(of('cpu', 'host', `host_${i + 2}`))))
await measured('a range of one series, 50 times', () =>
  repeated(50, (i) => engine.delete({ ...of('cpu', 'host', `host_${i + 100}`), start: now, end: now + 50_000_000_000n })),
)
await measured('a pass of maintenance', () => engine.tidy())
await measured('a query with their tombstones', count)
await measured('a rack', () => engine.delete(of('cpu', 'rack', '7')))
await measured('half of all', () => engine.delete(of('cpu', 'half', '1')))
await measured('a pass of maintenance', () => engine.tidy())
await measured('all series', () => engine.delete({ namespace: '', measurement: 'cpu' }))
await measured('a pass of maintenance', () => engine.tidy())
console.log(`rows left: ${await count()}`)
await write('mem', now)
await measured('final drop of all', () => engine.drop('', 'mem', { final: true }))
await measured('a pass of maintenance', () => engine.tidy())
await write('brief', now - BACK)
await write('mem', now, 1) // the clock of retention goes by the newest row
await measured('retention that empties all', () => engine.tidy())
await measured('flush', () => engine.flush())
await measured('a pass of maintenance', () => engine.tidy())
console.log(`series left: ${(await engine.usage('')).series}`)
watching = false
await watch
await engine.close()
rmSync(dir, { recursive: true })
