/** The same in so many segments, one after the other in time. */
export async function fillSegments(db: TestDatabase, hosts: number, steps: number, segments: number): Promise<void> {
  const fill = benchWriter(db, hosts, 0)
  for (let segment = 0; segment < segments; segment++) {
    for (let step = Math.floor((steps * segment) / segments); step < Math.floor((steps * (segment + 1)) / segments); step++) fill(step)
    await db.flush()
  }
}

/** Data like the TSBS cpu-only set: a random walk a field, in rounds over all hosts, `decimals` digits kept. Of `markers` of the values staleness markers take the place. */
import { TableBatch } from 'svcdb/lib/columns'
import type { TestDatabase } from '../testing/engine-state.ts'

export const BENCH_FIELDS: readonly string[] = Array.from({ length: 10 }, (_, i) => `usage_${i}`)
export const BENCH_START = 1_700_000_000_000_000_000n
export const BENCH_INTERVAL = 10_000_000_000n

export function fillBench(db: TestDatabase, hosts: number, steps: number, decimals: number, markers = 0): ReturnType<TestDatabase['measurement']> {
  const fill = benchWriter(db, hosts, decimals, markers)
  let cpu = fill(0)
  for (let step = 1; step < steps; step++) cpu = fill(step)
  return cpu
}

/** @returns what appends a step, a row of each host. */
function benchWriter(db: TestDatabase, hosts: number, decimals: number, markers = 0): (step: number) => ReturnType<TestDatabase['measurement']> {
  const cpu = db.measurement('cpu', Object.fromEntries(BENCH_FIELDS.map((name) => [name, 'float64' as const])))
  const scale = 10 ** decimals
  const walk = Float64Array.from({ length: hosts * BENCH_FIELDS.length }, () => Math.floor(Math.random() * 100))
  const series = Array.from({ length: hosts }, (_, host) =>
    db.series(cpu, { hostname: `host_${host}`, region: `region-${host % 9}`, service: String(host % 20) }),
  )
  return (step) => {
    const batch = new TableBatch(cpu.ref)
    const time = BENCH_START + BigInt(step) * BENCH_INTERVAL
    const low = Number(BigInt.asIntN(32, time))
    const high = Number(time >> 32n)
    const columns = BENCH_FIELDS.map((name) => batch.column(name, 'float64'))
    for (let host = 0; host < hosts; host++) {
      const row = batch.addRow(series[host], low, high, 0)
      for (let f = 0; f < columns.length; f++) {
        const at = host * columns.length + f
        walk[at] = Math.min(100, Math.max(0, walk[at] + (Math.random() - 0.5) * 2))
        columns[f].setF64(row, Math.round(walk[at] * scale) / scale)
        if (Math.random() >= markers) continue
        columns[f].setPair(row, 2, 0x7ff00000)
        columns[f].nonFinite = true
      }
    }
    db.append(cpu, batch)
    return cpu
  }
}
