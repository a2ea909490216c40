/**
 * What rollups cost: materialising, ingest beside active rollups, idle rollups, and a dashboard's question over a year.
 *
 *   node plugins/rollups/rollups.bench.ts [materialise|ingest|idle|year]
 */
import type { Svc } from 'svcdb'
import { definePlugin } from 'svcdb'
import { boot, type TestNode } from 'svcdb/testkit'

const HOUR = 3_600_000_000_000n
const NOW = BigInt(Math.floor(Date.now() / 3_600_000)) * HOUR
const SERIES = 1000
let svc: Svc

const access = definePlugin({
  id: 'bench_access',
  summary: 'Hands the bench what plugins have',
  stability: 'experimental',
  capabilities: ['points'],
  setup(given) {
    svc = given
  },
})

async function node(rollups: Record<string, number> = {}): Promise<TestNode> {
  return boot({
    plugins: [access, 'native', 'sql', 'rollups'],
    storage: 'embedded',
    config: { rollups: { interval_ms: 100, ...rollups }, database: { max_series_cardinality: 10_000_000 }, server: { sql_max_rows: 1_000_000 } },
  })
}

/** Rows of one time for each series; `rows` in all, `step` apart. */
async function fill(rows: number, from: bigint, step: bigint, measurement = 'cpu', fields = 1): Promise<number> {
  const perWrite = 50
  let time = from
  const began = performance.now()
  const context = await svc.systemContext()
  for (let left = rows; left > 0; left -= SERIES * perWrite) {
    await svc.ingest.write(context, { backfill: true }, (batch) => {
      const ref = batch.resolver.measurement(batch.namespace, measurement)
      const table = batch.table(ref)
      const series = Array.from({ length: SERIES }, (_, i) => batch.resolver.series(ref, ['host', `h${i}`, 'region', `r${i % 8}`]))
      for (let i = 0; i < perWrite; i++, time += step) {
        const low = Number(BigInt.asIntN(32, time))
        const high = Number(BigInt.asIntN(32, time >> 32n))
        for (let s = 0; s < SERIES; s++) {
          const row = table.addRow(series[s], low, high, 0)
          for (let f = 0; f < fields; f++) table.column(`f${f}`, 'float64').setF64(row, (row * 7 + s + f) % 1000)
        }
      }
    })
  }
  return (performance.now() - began) / 1000
}

async function create(one: TestNode, name: string, more: object): Promise<void> {
  const body = { name, source_measurement: 'cpu', target_measurement: `${name}_target`, every: '1h', aggregations: ['avg', 'min', 'max', 'count'], ...more }
  const answer = await one.inject({ method: 'POST', url: '/api/v1/rollups', payload: body })
  if (answer.statusCode !== 201) throw new Error(answer.body)
}

async function materialised(one: TestNode, wanted: bigint): Promise<void> {
  for (;;) {
    const { items } = JSON.parse((await one.inject('/api/v1/rollups?limit=2000')).body.replace(/("materialised_until":)(-?\d+)/g, '$1"$2"')) as {
      items: { materialised_until: string; last_error: string | null }[]
    }
    const failed = items.find(({ last_error }) => last_error !== null)
    if (failed !== undefined) throw new Error(failed.last_error as string)
    if (items.every(({ materialised_until: until }) => BigInt(until) >= wanted)) return
    await new Promise((resolve) => setTimeout(resolve, items.length > 100 ? 500 : 5))
  }
}

const report = (text: string): void => void process.stdout.write(`${text}\n`)

async function materialise(): Promise<void> {
  const one = await node()
  // Every 10 s, so that an hour has 360 rows a series; the live window of two days is left to the end.
  const rows = 5_000_000
  await fill(rows, NOW - 100n * HOUR, 10_000_000_000n)
  await one.storage.flush()
  await fill(SERIES, NOW - HOUR, HOUR)
  for (const [name, more, copies] of [
    ['one, all series', {}, 1],
    ['one, by region', { group_by_tags: ['region'] }, 1],
    ['two at once, all series', {}, 2],
    ['twenty at once, by region', { group_by_tags: ['region'] }, 20],
    ['one, all series, day, p95', { every: '1d', aggregations: ['quantile(0.95)'] }, 1],
  ] as const) {
    const began = performance.now()
    const cpu = process.cpuUsage()
    for (let i = 0; i < copies; i++) await create(one, `m_${copies}_${i}_${name.length}`, more)
    await materialised(one, NOW - 100n * HOUR + 27n * HOUR)
    const seconds = (performance.now() - began) / 1000
    const { user, system } = process.cpuUsage(cpu)
    report(
      `materialise, ${name}: ${((rows * copies) / seconds / 1e6).toFixed(1)} M source rows/s in ${seconds.toFixed(2)} s (${((user + system) / 1e6).toFixed(2)} s of processor)`,
    )
    for (let i = 0; i < copies; i++) await one.inject({ method: 'DELETE', url: `/api/v1/rollups/m_${copies}_${i}_${name.length}` })
  }
  await one.stop()
}

async function ingest(): Promise<void> {
  const figures: number[][] = [[], []]
  const rows = 10_000_000
  for (let round = 0; round < 3; round++) {
    for (const rollups of [0, 20]) {
      const one = await node({ interval_ms: 1000 })
      for (let i = 0; i < rollups; i++) await create(one, `r${i}`, { every: '5m', group_by_tags: ['region'] })
      const cpu = process.cpuUsage()
      // 10,000 times of 30 s: three days and a half, so that a day and a half leaves the window on the way.
      const seconds = await fill(rows, NOW - 90n * HOUR, 30_000_000_000n)
      const { user, system } = process.cpuUsage(cpu)
      figures[rollups === 0 ? 0 : 1].push(rows / seconds)
      report(`ingest beside ${rollups} rollups: ${(rows / seconds / 1e6).toFixed(2)} M rows/s (${((user + system) / 1e6).toFixed(1)} s of processor)`)
      await one.stop()
    }
  }
  const median = (list: number[]) => list.sort((a, b) => a - b)[list.length >> 1]
  report(`ingest beside 20 active rollups: ${((100 * median(figures[1])) / median(figures[0])).toFixed(0)} % of alone (medians)`)
}

async function idle(): Promise<void> {
  const one = await node({ interval_ms: 1000, max_rollups_per_measurement: 1000 })
  const measure = async (): Promise<number> => {
    await new Promise((resolve) => setTimeout(resolve, 2000))
    const cpu = process.cpuUsage()
    const began = performance.now()
    await new Promise((resolve) => setTimeout(resolve, 10_000))
    const { user, system } = process.cpuUsage(cpu)
    return (user + system) / 10 / (performance.now() - began)
  }
  await fill(SERIES, NOW, HOUR)
  const alone = await measure()
  for (let i = 0; i < 1000; i++) await create(one, `idle${i}`, {})
  await materialised(one, 1n)
  report(`1,000 idle rollups: ${(await measure()).toFixed(2)} % of a core, ${alone.toFixed(2)} % without`)
  await one.stop()
}

async function year(): Promise<void> {
  const one = await node()
  // 1,000 series, an hour apart, for thirteen months.
  await fill(395 * 24 * SERIES, NOW - 395n * 24n * HOUR, HOUR)
  await create(one, 'daily', { every: '1d', group_by_tags: ['region'] })
  await materialised(one, NOW - 96n * HOUR)
  await one.storage.flush()
  const start = new Date(Number((NOW - 365n * 24n * HOUR) / 1_000_000n)).toISOString()
  const query = `SELECT _time, avg(f0_avg), max(f0_max) FROM daily_target WHERE _time >= timestamp '${start}' GROUP BY _time ORDER BY _time`
  for (const [name, ask] of [
    ['SQL over the target', () => one.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })],
    ['the real-time view', () => one.inject(`/api/v1/rollups/daily/query?start=${NOW - 365n * 24n * HOUR}`)],
  ] as const) {
    const times: number[] = []
    for (let i = 0; i < 40; i++) {
      const began = performance.now()
      const answer = await ask()
      if (answer.statusCode !== 200) throw new Error(answer.body)
      times.push(performance.now() - began)
    }
    times.sort((a, b) => a - b)
    report(`a year by day, ${name}: ${times[20].toFixed(1)} ms median, ${times[37].toFixed(1)} ms at 95 %`)
  }
  await one.stop()
}

const parts: Record<string, () => Promise<void>> = { materialise, ingest, idle, year }
const [only] = process.argv.slice(2)
for (const [name, part] of Object.entries(parts)) if (only === undefined || only === name) await part()
